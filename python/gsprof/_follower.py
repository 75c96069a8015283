# SPDX-License-Identifier: Apache-2.0
"""Finds the gsprof program, which samples this process from outside."""

import os

# As in _boot: import only modules that a bare interpreter has loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

HERE = os.path.dirname(os.path.abspath(__file__))


def find_program() -> "Optional[str]":
    """Returns the path of the gsprof program of this package, or None."""
    paths = [
        os.environ.get("GSPROF_PROGRAM", ""),
        os.path.join(HERE, "_program", "bin", "gsprof"),
        os.path.join(HERE, "..", "..", "..", "..", "bin", "gsprof"),
        os.path.join(HERE, "..", "..", "src", "cli", "gsprof"),
    ]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        paths.append(os.path.join(folder or ".", "gsprof"))
    for path in paths:
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.realpath(path)
    return None


def must_be_allowed() -> bool:
    """Whether the kernel lets only ancestors trace this process (Yama)."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
            return file.read().strip() == b"1"
    except OSError:
        return False
