# SPDX-License-Identifier: Apache-2.0
"""The gsprof program that looks at this process from outside."""

import os

# As in _boot: nothing that a bare interpreter has not loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

HERE = os.path.dirname(os.path.abspath(__file__))


def find_program() -> "Optional[str]":
    """The gsprof program that belongs to this package."""
    places = [
        os.environ.get("GSPROF_PROGRAM", ""),
        os.path.join(HERE, "_program", "bin", "gsprof"),
        os.path.join(HERE, "..", "..", "..", "..", "bin", "gsprof"),
        os.path.join(HERE, "..", "..", "src", "cli", "gsprof"),
    ]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        places.append(os.path.join(folder or ".", "gsprof"))
    for place in places:
        if place and os.path.isfile(place) and os.access(place, os.X_OK):
            return os.path.realpath(place)
    return None


def must_be_allowed() -> bool:
    """Whether the kernel lets only ancestors look at this process (Yama)."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
            return file.read().strip() == b"1"
    except OSError:
        return False
