#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the names of functions that are not static.

A function that other folders call is gsp_<folder>_...; one that only its own folder calls is
gsp_<folder>__... (tests may call it too). base/ is the vocabulary of all folders and has
gsp_<module>_... instead. Prints one fault per line.

usage: check_names.py [ROOT]"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

# A definition starts in the first column, and its body's brace stands alone on a line.
DEFINITION = re.compile(
    r"^(?!(?:GSP_\w+(?:\([^)]*\))? )?static\b|typedef\b|return\b)"
    r"[A-Za-z_][^;{}#=\n]*?\b(\w+)\([^;{}]*\)[^;{}]*\n\{",
    re.MULTILINE,
)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
WORD = re.compile(r"\bgsp_\w+")
# Symbols that programs outside this tree look up by name: those of the agent, and entry points.
FIXED = {
    "agent": re.compile(r"gsp_agent_"),
    "cli": re.compile("main$"),
    "pyext": re.compile("PyInit_"),
}


def find_functions(root: Path) -> dict[str, str]:
    """The folder of each function that is not static."""
    functions = {}
    for path in sorted((root / "src").glob("*/*.c")):
        for match in DEFINITION.finditer(path.read_text()):
            functions[match[1]] = path.parent.name
    return functions


def find_users(root: Path) -> dict[str, set[str]]:
    """The folders that mention each name."""
    users: dict[str, set[str]] = defaultdict(set)
    for path in sorted((root / "src").glob("*/*.[ch]")):
        for name in WORD.findall(COMMENT.sub("", path.read_text())):
            users[name].add(path.parent.name)
    return users


def fault_of(name: str, folder: str, users: set[str]) -> str:
    """What is wrong with a name, or nothing."""
    if folder in FIXED and FIXED[folder].match(name):
        return ""
    if folder == "base" and name.startswith("gsp_"):
        return ""
    is_internal = users <= {folder}
    wanted = f"gsp_{folder}__" if is_internal else f"gsp_{folder}_"
    if name.startswith(wanted) and (is_internal or not name.startswith(wanted + "_")):
        return ""
    others = " ".join(sorted(users - {folder}))
    why = f"only {folder}/ calls it" if is_internal else f"called by {others}"
    return f"{folder}/: {name}: {why}: name it {wanted}..."


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    users = find_users(root)
    faults = [fault_of(name, folder, users[name]) for name, folder in find_functions(root).items()]
    faults = [fault for fault in faults if fault]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
