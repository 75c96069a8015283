#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rejects an #include that tools/layers.txt does not allow, a heavy header outside its folder, a
permission that no file uses, a cycle in the table, and a struct, union or enum tag that is defined
twice.

usage: check_layers.py [ROOT]"""

from __future__ import annotations

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
TAG = re.compile(r"^(?:typedef )?(?:struct|union|enum)\s+(?:GSP_\w+\([^)]*\)\s+)?(\w+)\s*\{", re.M)


def read_table(path: Path) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The permitted edges of each folder, and the folders that may include each heavy header."""
    edges: dict[str, set[str]] = {}
    doors: dict[str, set[str]] = {}
    for line in path.read_text().splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            name, _, rest = line.partition(":")
            table = doors if name.startswith("@") else edges
            table[name.lstrip("@").strip()] = set(rest.split())
    return edges, doors


def find_cycle(edges: dict[str, set[str]]) -> list[str]:
    """A cycle of the table, or an empty list."""
    done: set[str] = set()

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for child in sorted(edges.get(node, ())):
            cycle = walk(child, [*path, node])
            if cycle:
                return cycle
        done.add(node)
        return []

    return next((c for c in (walk(node, []) for node in edges) if c), [])


def includes_of(path: Path) -> list[tuple[int, str]]:
    """The headers that a file includes, with their lines."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            found.append((number, match[1] or match[2]))
    return found


def relative_includes(path: Path) -> list[str]:
    """Quoted headers that are not named from src/: the check of folders would not see them."""
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE)
    return [name for name in names if name.startswith(".") or (path.parent / name).exists()]


def check_file(
    path: Path, folder: str, edges: dict[str, set[str]], doors: dict[str, set[str]]
) -> list[str]:
    faults = [f"{path}: include FOLDER/FILE, not {name}" for name in relative_includes(path)]
    for number, header in includes_of(path):
        other = header.split("/", 1)[0]
        if other in edges and "/" in header and other not in edges[folder] | {folder}:
            faults.append(f"{path}:{number}: {folder}/ may not include {header}")
        if header in doors and folder not in doors[header]:
            faults.append(f"{path}:{number}: only {' '.join(sorted(doors[header]))} sees {header}")
    return faults


def unused_permissions(
    files: dict[str, list[Path]], edges: dict[str, set[str]], doors: dict[str, set[str]]
) -> list[str]:
    faults = []
    for folder, paths in files.items():
        used = {header for path in paths for _, header in includes_of(path)}
        used_folders = {header.split("/", 1)[0] for header in used if "/" in header}
        for other in sorted(edges[folder] - used_folders):
            faults.append(f"layers.txt: {folder}/ does not use {other}/")
        for header, folders in doors.items():
            if folder in folders and header not in used:
                faults.append(f"layers.txt: {folder}/ does not include {header}")
    return faults


def repeated_tags(files: dict[str, list[Path]]) -> list[str]:
    places: dict[str, list[str]] = {}
    for paths in files.values():
        for path in paths:
            for match in TAG.finditer(path.read_text()):
                places.setdefault(match[1], []).append(str(path))
    # A tag without the prefix that no header defines is private to its file.
    return [
        f"{tag} is defined {len(where)} times: {' '.join(where)}"
        for tag, where in sorted(places.items())
        if len(where) > 1 and (tag.startswith("gsp_") or any(name.endswith(".h") for name in where))
    ]


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    edges, doors = read_table(root / "tools" / "layers.txt")
    faults = []
    for folder, others in edges.items():
        faults += [
            f"layers.txt: {folder} names an unknown folder: {o}" for o in others - edges.keys()
        ]
    cycle = find_cycle(edges)
    if cycle:
        faults.append("layers.txt: cycle: " + " -> ".join(cycle))
    files: dict[str, list[Path]] = {}
    for folder_path in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        if folder_path.name not in edges:
            faults.append(f"layers.txt: no line for {folder_path.name}")
            continue
        files[folder_path.name] = sorted(folder_path.glob("**/*.[ch]"))
        for path in files[folder_path.name]:
            faults += check_file(path, folder_path.name, edges, doors)
    faults += unused_permissions(files, edges, doors)
    faults += repeated_tags(files)
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
