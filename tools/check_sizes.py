#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rejects functions of more than 80 lines or 6 parameters, and files of more than 800 lines.

Relies on the layout that clang-format enforces: the braces of a function are in column 0.

usage: check_sizes.py FILE..."""

from __future__ import annotations

import re
import sys
from pathlib import Path

FUNCTION_LINES_MAX = 80
PARAMETERS_MAX = 6
FILE_LINES_MAX = 800

# Precedes a function whose parameters another library defines; clang-tidy reads it too.
FOREIGN = "NOLINTNEXTLINE(readability-function-size)"

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
HEAD = re.compile(r"[^(]*?([A-Za-z_]\w*)\s*\((.*)\)\s*$", re.DOTALL)


def blank_comments(text: str) -> str:
    """Removes comments and keeps the line numbers."""
    return COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text)


def count_parameters(text: str) -> int:
    """One more than the commas of the outermost level; 0 for "void"."""
    if text.strip() in ("", "void"):
        return 0
    depth = 0
    count = 1
    for char in text:
        depth += (char in "([") - (char in ")]")
        count += char == "," and depth == 0
    return count


def is_foreign(lines: list[str], brace: int) -> bool:
    """Whether the line above the function's head contains FOREIGN."""
    start = brace
    while start > 0 and lines[start - 1].strip() and lines[start - 1][0] not in "}#/":
        start -= 1
    return start > 0 and FOREIGN in lines[start - 1]


def check_head(path: Path, lines: list[str], brace: int) -> list[str]:
    """Checks the parameters of the function whose opening brace is in line `brace` (from 0)."""
    start = brace
    while start > 0 and lines[start - 1].strip() and lines[start - 1][0] not in "}#":
        start -= 1
    head = " ".join(lines[start:brace])
    match = HEAD.match(head)
    if not match:
        return []
    count = count_parameters(match[2])
    if count <= PARAMETERS_MAX:
        return []
    return [f"{path}:{start + 1}: {match[1]} has {count} parameters (limit: {PARAMETERS_MAX})"]


def check_file(path: Path) -> list[str]:
    text = path.read_text()
    lines = blank_comments(text).splitlines()
    faults = []
    if len(lines) > FILE_LINES_MAX:
        faults.append(f"{path}: {len(lines)} lines (limit: {FILE_LINES_MAX})")
    brace = -1
    for i, line in enumerate(lines):
        if line == "{":
            brace = i
            if not is_foreign(text.splitlines(), i):
                faults += check_head(path, lines, i)
        elif line == "}" and brace >= 0:
            length = i - brace + 1
            if length > FUNCTION_LINES_MAX:
                faults.append(
                    f"{path}:{brace + 1}: a function of {length} lines "
                    f"(limit: {FUNCTION_LINES_MAX})"
                )
            brace = -1
    return faults


def main() -> int:
    faults = [fault for name in sys.argv[1:] for fault in check_file(Path(name))]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
