#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns text files into one C file of char arrays, so that a program carries them.

usage: embed.py OUT.c NAME=FILE...

Each NAME becomes `const char NAME[]` (NUL-terminated). Files that end in .css or .js are refused
if they contain "]]>", because they are written into CDATA sections. Files that end in .json are
checked and embedded without white space.
"""
import json
import sys
from typing import List


def c_array(name: str, data: bytes) -> str:
    rows = []
    for at in range(0, len(data), 16):
        rows.append("    " + " ".join(f"0x{b:02x}," for b in data[at : at + 16]))
    body = "\n".join(rows)
    return f"extern const char {name}[];\nconst char {name}[] = {{\n{body}\n    0x00,\n}};\n"


def main(argv: List[str]) -> int:
    if len(argv) < 3:
        print(__doc__, file=sys.stderr)
        return 64
    parts = ["/* Made by tools/embed.py. */\n"]
    for pair in argv[2:]:
        name, path = pair.split("=", 1)
        with open(path, "rb") as file:
            data = file.read()
        if b"\0" in data or any(b > 0x7F for b in data):
            print(f"{path}: only ASCII text can be embedded", file=sys.stderr)
            return 65
        if path.endswith((".css", ".js")) and b"]]>" in data:
            print(f"{path}: holds the end mark of CDATA", file=sys.stderr)
            return 65
        if path.endswith(".json"):
            data = json.dumps(json.loads(data), separators=(",", ":")).encode("ascii")
        parts.append(c_array(name, data))
    with open(argv[1], "w", encoding="ascii") as out:
        out.write("\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
