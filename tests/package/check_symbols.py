#!/usr/bin/env python3
"""Compares what a shared library shows and needs with what it may: its defined dynamic symbols with a golden list, and
the libraries that it is linked with with those of every C++ program. Exit code 1, and the differences, where they differ.
"""

import argparse
import pathlib
import re
import subprocess
import sys

MAY_NEED = re.compile(r"^(libstdc\+\+|libm|libgcc_s|libc|ld-linux-x86-64|libdl|libpthread|libreprieve)\.so(\.\d+)*$")


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("golden", type=pathlib.Path, help="the symbols that it shows, one a line")
    parser.add_argument("--header", type=pathlib.Path, help="a header that declares them all")
    parser.add_argument("--api", default="REPRIEVE_API", help="what stands before each declaration there")
    parser.add_argument("--namespace", help="a C++ namespace whose names it may show besides")
    arguments = parser.parse_args()

    wanted = set(arguments.golden.read_text(encoding="utf-8").split())
    # Every kind of defined symbol, weak and unique ones included.
    rows = output_of("nm", "-D", "--defined-only", "--demangle", arguments.library).splitlines()
    names = {row.split(maxsplit=2)[-1] for row in rows}
    shown = {name for name in names if not (arguments.namespace and name.startswith(f"{arguments.namespace}::"))}
    found = [f"shown, but not in {arguments.golden.name}: {name}" for name in sorted(shown - wanted)]
    found += [f"in {arguments.golden.name}, but not shown: {name}" for name in sorted(wanted - shown)]

    if arguments.header:
        text = arguments.header.read_text(encoding="utf-8")
        declared = set(re.findall(rf"^{arguments.api}\b[^;(]*?\b(\w+)\(", text, re.MULTILINE))
        found += [f"declared, but not in {arguments.golden.name}: {name}" for name in sorted(declared - wanted)]
        found += [f"in {arguments.golden.name}, but not declared: {name}" for name in sorted(wanted - declared)]

    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", arguments.library))
    found += [f"needs {name}" for name in needed if not MAY_NEED.match(name)]

    print("\n".join(found) if found else f"{arguments.library}: {len(names)} symbols, needs {', '.join(needed)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
