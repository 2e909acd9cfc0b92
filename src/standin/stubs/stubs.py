#!/usr/bin/env python3
"""Writes the source of a stand-in library's stubs: a function for every symbol that torch wants of it and that the
stand-in does not define. A stub says once what was called and returns the library's own code for 'not supported'.
The version script is written too: torch looks symbols up by their versions.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """How a library says that it cannot do something."""

    code: int
    name: str  # of the code in the library's header
    remedy: str = ""  # what a user does instead


LIBRARIES = {
    "libcuda.so": Library(801, "CUDA_ERROR_NOT_SUPPORTED"),
    "libcudart.so": Library(801, "cudaErrorNotSupported"),
    "libcublas.so": Library(15, "CUBLAS_STATUS_NOT_SUPPORTED"),
    "libcublasLt.so": Library(15, "CUBLAS_STATUS_NOT_SUPPORTED"),
    "libcudnn.so": Library(3000, "CUDNN_STATUS_NOT_SUPPORTED", "torch.backends.cudnn.enabled = False"),
    "libcufft.so": Library(16, "CUFFT_NOT_SUPPORTED"),
    "libcufile.so": Library(5001, "CU_FILE_DRIVER_NOT_INITIALIZED"),
    "libcupti.so": Library(27, "CUPTI_ERROR_NOT_SUPPORTED"),
    "libcurand.so": Library(999, "CURAND_STATUS_INTERNAL_ERROR"),
    "libcusolver.so": Library(9, "CUSOLVER_STATUS_NOT_SUPPORTED"),
    "libcusparse.so": Library(10, "CUSPARSE_STATUS_NOT_SUPPORTED"),
    "libcusparseLt.so": Library(10, "CUSPARSE_STATUS_NOT_SUPPORTED"),
    "libnccl.so": Library(5, "ncclInvalidUsage"),
    "libnvidia-ml.so": Library(3, "NVML_ERROR_NOT_SUPPORTED"),
    # Compilers without a code of that meaning.
    "libnvrtc.so": Library(11, "NVRTC_ERROR_INTERNAL_ERROR"),
    "libnvJitLink.so": Library(6, "NVJITLINK_ERROR_INTERNAL"),
    "libnvshmem_host.so": Library(7, "NVSHMEMX_ERROR_INTERNAL"),
}
# Functions that return a pointer, for which a code would be taken for an address.
RETURNS_POINTER = re.compile(r"nvshmem_(malloc|calloc|align|ptr)|nvshmemx_mc_ptr")
RETURNS_TEXT = re.compile(r"\w+(GetErrorString|GetErrorName|GetStatusString|GetStatusName)|p?ncclGetLastError")
# What is no failure: objects that were never made are released.
RELEASES = re.compile(r"nvshmem_free|nvshmemid_hostlib_finalize")

PROLOGUE = """// Made by stubs.py; the list of symbols is what torch {torch} imports.
#include <atomic>
#include <cstddef>
#include <cstdio>

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define STUB(name, code)                                                                                  \\
  EXPORTED long name() {{                                                                                  \\
    static std::atomic_flag told = ATOMIC_FLAG_INIT;                                                      \\
    if (!told.test_and_set()) std::fputs("reprieve stand-in: " #name " is not implemented\\n", stderr);    \\
    return code;                                                                                          \\
  }}
"""


def stem(soname: str) -> str:
    return soname[: soname.index(".so") + 3]


def defined_symbols(files: list[pathlib.Path]) -> set[str]:
    if not files:
        return set()
    command = ["nm", "--extern-only", "--defined-only", "--format=posix", *map(str, files)]
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    names = {row.split()[0] for row in rows if len(row.split()) > 1}
    return {name for name in names if re.fullmatch(r"\w+", name) and not name.startswith("_Z")}


def cudnn_version(requires: dict[str, str]) -> list[int]:
    """torch compares it with the version that it was built with, in major and minor number."""
    for package, version in requires.items():
        if package.startswith("nvidia-cudnn"):
            return [int(part) for part in version.split(".")[:3]]
    return [0, 0, 0]


def stub(name: str, library: Library, requires: dict[str, str]) -> str:
    said = f"{library.name} (the stand-in CUDA runtime has no {re.split('(Get|Last|Result)', name)[0]}"
    said += f"; {library.remedy})" if library.remedy else ")"
    major, minor, patch = cudnn_version(requires)
    if name == "cudnnGetVersion":
        return f'EXPORTED std::size_t {name}() {{ return {major * 10000 + minor * 100 + patch}; }}'
    if name == "cudnnGetProperty":
        numbers = f"const int numbers[] = {{{major}, {minor}, {patch}}}"
        return f'EXPORTED int {name}(unsigned which, int* value) {{ {numbers}; return *value = numbers[which % 3], 0; }}'
    if name == "cudnnGetLastErrorString":
        return f'EXPORTED void {name}(char* text, std::size_t room) {{ std::snprintf(text, room, "%s", "{said}"); }}'
    if name == "cuptiGetResultString":
        return f'EXPORTED int {name}(int, const char** text) {{ return *text = "{said}", 0; }}'
    if RETURNS_TEXT.fullmatch(name):
        return f'EXPORTED const char* {name}() {{ return "{said}"; }}'
    if RELEASES.fullmatch(name) or RETURNS_POINTER.fullmatch(name):
        return f"STUB({name}, 0)"
    return f"STUB({name}, {library.code})"


def source(collected: dict, soname: str, defined: set[str]) -> str:
    wanted = collected["libraries"].get(soname, {})
    lines = [PROLOGUE.format(torch=collected["torch"])]
    library = LIBRARIES[stem(soname)]
    lines += [stub(name, library, collected["requires"]) for name in sorted(set(wanted) - defined)]
    return "\n".join(lines) + "\n"


def version_script(collected: dict, soname: str, exported: set[str]) -> str:
    """Most libraries call the version after themselves. An importer that asks for none takes whichever there is."""
    versions = set(collected["libraries"].get(soname, {}).values()) - {""} or {soname}
    if len(versions) > 1:
        raise ValueError(f"{soname}: torch wants several symbol versions of it: {', '.join(sorted(versions))}")
    version = versions.pop()
    # The linker's language has no such name; nothing links with the one library that has it.
    version = "" if "-" in version else f"{version} "
    visible = f"global: {'; '.join(sorted(exported))}; " if exported else ""
    return f"{version}{{ {visible}local: *; }};\n"


def write(path: pathlib.Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("imports", type=pathlib.Path, help="what imports.py wrote")
    parser.add_argument("soname")
    parser.add_argument("--defined", type=pathlib.Path, nargs="*", default=[], help="object files of the stand-in")
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--version-script", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    if stem(arguments.soname) not in LIBRARIES:
        print(f"{arguments.soname}: what its functions return on failure is not known to {__file__}", file=sys.stderr)
        return 2
    collected = json.loads(arguments.imports.read_text(encoding="utf-8"))
    defined = defined_symbols(arguments.defined)
    write(arguments.source, source(collected, arguments.soname, defined))
    exported = defined | set(collected["libraries"].get(arguments.soname, {}))
    write(arguments.version_script, version_script(collected, arguments.soname, exported))
    return 0


if __name__ == "__main__":
    sys.exit(main())
