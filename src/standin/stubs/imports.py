#!/usr/bin/env python3
"""Writes down what an installed torch imports from NVIDIA's libraries, as JSON: for each soname the symbols wanted, each
with its symbol version, and which torch it was. The stand-in is built from this list, and `reprieve-standin` compares it
with the torch it is asked to run.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

# Where the symbols of a library that has no symbol versions belong is told by their names.
UNVERSIONED = {
    "libcuda.so": re.compile(r"cu[A-Z]\w+"),
    "libcufile.so": re.compile(r"cuFile\w+"),
    "libcusparseLt.so": re.compile(r"cusparseLt\w+"),
    "libnccl.so": re.compile(r"p?nccl[A-Z]\w+"),
    "libnvshmem_host.so": re.compile(r"nvshmem\w+"),
}
NVIDIA = re.compile(r"lib(cu[a-zA-Z0-9_]+|nv[a-zA-Z0-9_]+|nccl)\.so(\.\d+)*")
SYMBOL = re.compile(r"^\s*U (\w+)(?:@(\S+))?$")


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stem(soname: str) -> str:
    return soname[: soname.index(".so") + 3]


def needed_libraries(file: pathlib.Path) -> list[str]:
    """NVIDIA's libraries that `file` is linked with."""
    found = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-dW", str(file)))
    return [soname for soname in found if NVIDIA.fullmatch(soname)]


def version_owners(file: pathlib.Path) -> dict[str, str]:
    """Symbol version -> soname. Most of NVIDIA's libraries name the version after themselves, not all."""
    owners: dict[str, str] = {}
    soname = ""
    in_needs = False
    for line in output_of("readelf", "-VW", str(file)).splitlines():
        if line.startswith("Version "):
            in_needs = line.startswith("Version needs")
        elif in_needs and (match := re.search(r"File: (\S+)", line)):
            soname = match.group(1)
        elif in_needs and (match := re.search(r"Name: (\S+)", line)):
            owners[match.group(1)] = soname
    return owners


def imports_of(file: pathlib.Path) -> dict[str, dict[str, str]]:
    """soname -> symbol -> version ('' for none), of those that loading `file` cannot do without."""
    needed = needed_libraries(file)
    if not needed:
        return {}
    owners = version_owners(file)
    wanted: dict[str, dict[str, str]] = {soname: {} for soname in needed}
    for line in output_of("nm", "-D", "--undefined-only", str(file)).splitlines():
        match = SYMBOL.match(line)
        if not match:
            continue
        name, version = match.group(1), match.group(2) or ""
        if version:
            soname = owners.get(version, "")
        else:
            fitting = (s for s in needed if stem(s) in UNVERSIONED and UNVERSIONED[stem(s)].fullmatch(name))
            # cuFileRead fits libcuda's pattern as well: the longest stem is the closest.
            soname = max(fitting, key=len, default="")
        if soname in wanted:
            wanted[soname][name] = version
    return wanted


def torch_version(site: pathlib.Path) -> str:
    text = (site / "torch" / "version.py").read_text(encoding="utf-8")
    match = re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE)
    if not match:
        raise ValueError(f"{site}/torch/version.py names no version")
    return match.group(1)


def requirements(site: pathlib.Path, version: str) -> dict[str, str]:
    """Versions of NVIDIA's packages that this torch asks for, whether they are installed or not."""
    for metadata in site.glob("torch-*.dist-info/METADATA"):
        text = metadata.read_text(encoding="utf-8")
        if re.search(rf"^Version: {re.escape(version.split('+')[0])}\b", text, re.MULTILINE):
            return dict(re.findall(r"^Requires-Dist: (nvidia-[\w-]+)==([\d.]+)", text, re.MULTILINE))
    return {}


def collect(site: pathlib.Path) -> dict[str, object]:
    files = [*sorted((site / "torch" / "lib").glob("*.so*")), *sorted((site / "triton" / "_C").glob("*.so"))]
    libraries: dict[str, dict[str, str]] = {}
    for file in files:
        for soname, symbols in imports_of(file).items():
            libraries.setdefault(soname, {}).update(symbols)
    version = torch_version(site)
    return {
        "torch": version,
        "requires": requirements(site, version),
        "libraries": {soname: dict(sorted(symbols.items())) for soname, symbols in sorted(libraries.items())},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=pathlib.Path, help="the folder that holds torch/ (site-packages)")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    if not (arguments.site / "torch" / "lib").is_dir():
        print(f"{arguments.site}: no torch/lib in it; wanted is the site-packages folder with torch", file=sys.stderr)
        return 2
    collected = collect(arguments.site)
    if not collected["libraries"]:
        print(f"{arguments.site}: this torch {collected['torch']} was built without CUDA", file=sys.stderr)
        return 2
    text = json.dumps(collected, indent=1) + "\n"
    # An unchanged file keeps its time, or everything would be built again.
    if not arguments.output.exists() or arguments.output.read_text(encoding="utf-8") != text:
        arguments.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
