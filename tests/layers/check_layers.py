#!/usr/bin/env python3
"""Checks the layer rule: a folder under src/ includes only itself, folders before it in the list, and public headers.

The list is read from docs/architecture.md, from the lines `| src/NAME/ | …` of its table of layers, so that the page and
the check cannot differ. Exit code 0: the rule holds; 1: it is broken, one line for each include that breaks it; 2: the
list or the tree is not what is expected.
"""

import argparse
import pathlib
import re
import sys

LAYER_ROW = re.compile(r"^\|\s*`src/(\w+)/`\s*\|")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SOURCES = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".inc"}
# Folders of src/ that hold no code of a layer.
NO_LAYER = {"cmake"}


def read_layers(page: pathlib.Path) -> list[str]:
    rows = (LAYER_ROW.match(line) for line in page.read_text(encoding="utf-8").splitlines())
    return [row.group(1) for row in rows if row]


def broken_includes(src: pathlib.Path, layers: list[str]) -> list[str]:
    rank = {layer: index for index, layer in enumerate(layers)}
    found = []
    for file in sorted(path for path in src.rglob("*") if path.suffix in SOURCES):
        layer = file.relative_to(src).parts[0]
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, included = match.groups()
            target = included.split("/")[0]
            where = f"{file.relative_to(src.parent)}:{number}: includes {included}:"
            if ".." in included.split("/"):
                found.append(f"{where} includes are named from src/, without '..'")
            elif quote == "<" and ("/" not in included or target not in rank):
                continue
            elif target == "reprieve" or target == layer:
                continue
            elif target not in rank:
                found.append(f"{where} '{target}' is no layer")
            elif rank[target] > rank[layer]:
                found.append(f"{where} layer '{layer}' comes before '{target}'")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path, help="the top of the source tree")
    parser.add_argument("--list", type=pathlib.Path, help="the page with the list (default: ROOT/docs/architecture.md)")
    arguments = parser.parse_args()
    page = arguments.list or arguments.root / "docs" / "architecture.md"
    src = arguments.root / "src"

    layers = read_layers(page)
    if len(layers) < 2 or len(set(layers)) != len(layers):
        print(f"{page}: no list of layers, or a layer named twice: {layers}", file=sys.stderr)
        return 2
    folders = {path.name for path in src.iterdir() if path.is_dir()} - NO_LAYER
    unlisted = sorted(folders - set(layers))
    if unlisted:
        print(f"{page}: not in the list of layers: {', '.join(unlisted)}", file=sys.stderr)
        return 2

    found = broken_includes(src, layers)
    print("\n".join(found) if found else f"layer rule: {len(layers)} layers, every include is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
