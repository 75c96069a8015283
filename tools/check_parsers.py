#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every file of src/ that parses external bytes has a fuzz target.

usage: check_parsers.py [--list]

tests/fuzz/parsers.txt has a line for each such file: its targets, or "-" and the reason why it
needs none. A file parses external bytes if it calls one of the functions below."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "fuzz" / "parsers.txt"
CALLS = re.compile(
    r"\b(gsp_file_read|fopen|getline|sscanf|strtou?ll?|strtod|gsp_parse_\w+|gsp_sv_split|"
    r"gsp_json_scan_open|yyjson_read|gsp_proc_mem_read|gsp_proc_mem_read_u64|gsp_proc_mem_gather|"
    r"gsp_proc_snap_read|gsp_proc_snap_view|gsp_cursor_\w+|gsp_load_u\d+|elf_getdata|"
    r"dwarf_begin\w*|elf_begin|elf_memory|lookup_connection_value|gsp_http_body_\w+|"
    r"gsp_fd_read_at|gsp_fd_read_all|pread|memchr|memmem|gsp_collect__scan_\w+)\("
)
# The functions themselves.
HOME = {"src/base/str.c", "src/base/file.c", "src/base/buf.c", "src/proc/mem.c"}


def parsers() -> List[str]:
    """Files that call one of the functions, outside comments."""
    found = []
    for path in sorted(ROOT.glob("src/**/*.c")):
        name = path.relative_to(ROOT).as_posix()
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        if name not in HOME and CALLS.search(text):
            found.append(name)
    return found


def listed() -> Dict[str, List[str]]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {row[0]: row[1:] for row in rows}


def main() -> int:
    if "--list" in sys.argv:
        print("\n".join(parsers()))
        return 0
    known = listed()
    meson = (ROOT / "tests" / "fuzz" / "meson.build").read_text(encoding="utf-8")
    targets = set(re.findall(r"^  '(\w+)': \[\w+_dep\],$", meson, re.MULTILINE))
    faults = [
        f"{name}: parses external bytes, but is not in tests/fuzz/parsers.txt"
        for name in parsers()
        if name not in known
    ]
    for name, words in known.items():
        if not (ROOT / name).is_file():
            faults.append(f"tests/fuzz/parsers.txt: {name} does not exist")
        elif not words or (words[0] == "-" and len(words) < 2):
            faults.append(f"tests/fuzz/parsers.txt: {name} has no target and no reason")
        elif words[0] != "-":
            faults += [
                f"tests/fuzz/parsers.txt: {name}: no target {word}"
                for word in words
                if word not in targets
            ]
    used = {word for words in known.values() if words[:1] != ["-"] for word in words}
    faults += [f"tests/fuzz/parsers.txt: {target} tests no file" for target in targets - used]
    print("\n".join(sorted(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
