#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes python/gsprof/errors.py: one exception for each row of the error table of src/base/err.h.

usage: gen_errors.py [--check]

With --check nothing is written, and the status is 1 when the file is not what it would be."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "base" / "err.h"
TARGET = ROOT / "python" / "gsprof" / "errors.py"

# Row, name of the class, and what Python raises for the like.
CLASSES = {
    "NOMEM": ("OutOfMemory", "MemoryError"),
    "IO": ("InputOutputError", "OSError"),
    "USAGE": ("UsageError", "ValueError"),
    "PERM": ("NotPermitted", "PermissionError"),
    "NOPROC": ("NoSuchProcess", "ProcessLookupError"),
    "NOTPY": ("NotPython", "ValueError"),
    "VERSION": ("UnsupportedVersion", "NotImplementedError"),
    "FORMAT": ("MalformedData", "ValueError"),
    "TORN": ("TornRead", ""),
    "LIMIT": ("LimitExceeded", "ValueError"),
    "EXISTS": ("AlreadyExists", "FileExistsError"),
    "NOFILE": ("NoSuchFile", "FileNotFoundError"),
    "NOWRITE": ("CannotWrite", "PermissionError"),
    "FAULT": ("BadAddress", ""),
    "TIMEOUT": ("TimedOut", "TimeoutError"),
    "NOTSUP": ("NotSupported", "NotImplementedError"),
    "EMPTY": ("NothingRecorded", ""),
    "NOEXEC": ("CannotStart", "OSError"),
    "INTR": ("Interrupted", ""),
    "STARTING": ("StillStarting", ""),
}

HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
# Made by tools/gen_errors.py of src/base/err.h; do not edit.
"""What can go wrong, as exceptions: one for each row of the program's table of errors.

Each is a GsprofError, and the exception that Python has for the like.

>>> try:
...     raise from_code("NOPROC", "no process 4242")
... except ProcessLookupError as error:
...     error.code, str(error)
('NOPROC', 'no process 4242')
"""

from __future__ import annotations

from typing import ClassVar, Dict, Optional, Type


class GsprofError(RuntimeError):
    """Whatever gsprof could not do."""

    code: ClassVar[str] = ""
    exit_status: ClassVar[int] = 70
    http_status: ClassVar[int] = 500
    # What to do about it, where that is known.
    hint: Optional[str] = None
'''

CLASS = '''

class {name}({bases}):
    """{text}"""

    code = "{code}"
    exit_status = {exit_status}
    http_status = {http_status}
'''

TAIL = '''

BY_CODE: Dict[str, Type[GsprofError]] = {{
{codes}
}}
# Several rows may have one exit status; the class is that of the first.
_BY_STATUS: Dict[int, Type[GsprofError]] = {{}}
for _class in BY_CODE.values():
    _BY_STATUS.setdefault(_class.exit_status, _class)


def from_code(code: str, message: str, hint: Optional[str] = None) -> GsprofError:
    """The exception for a code of the table; GsprofError itself for one that is not in it."""
    error = BY_CODE.get(code, GsprofError)(message)
    error.hint = hint
    return error


def from_status(status: int, message: str) -> GsprofError:
    """The exception for an exit status of the program.

    >>> from_status(77, "not permitted").code
    'PERM'
    """
    return _BY_STATUS.get(status, GsprofError)(message)
'''


def make() -> str:
    rows = re.findall(
        r'X\((\w+), (-\d+), (\d+), (\d+), "([^"]+)"\)', SOURCE.read_text(encoding="utf-8")
    )
    text = HEAD
    codes = []
    for code, _, exit_status, http_status, words in rows:
        if code not in CLASSES:
            raise SystemExit(f"gen_errors: no class for {code}: add it to CLASSES")
        name, base = CLASSES[code]
        text += CLASS.format(
            name=name,
            bases=f"GsprofError, {base}" if base else "GsprofError",
            text=f"{words[0].upper()}{words[1:]}.",
            code=code,
            exit_status=exit_status,
            http_status=http_status,
        )
        codes.append(f'    "{code}": {name},')
    return text + TAIL.format(codes="\n".join(codes))


def main() -> int:
    made = make()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") == made:
            return 0
        print(f"{TARGET.relative_to(ROOT)} is old: run tools/gen_errors.py", file=sys.stderr)
        return 1
    TARGET.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
