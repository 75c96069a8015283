# SPDX-License-Identifier: Apache-2.0
"""The clocks of a program, changed by a library (tests/tools/clock_shift.c)."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from support import BUILD

LIBRARY = BUILD / "tests" / "tools" / "libclock_shift.so"


class Clock:
    """Clocks that run `rate` times as fast, and a wall clock that set() shifts."""

    def __init__(self, file: Path, rate: int = 1) -> None:
        file.write_bytes(struct.pack("=qq", 0, rate))
        with file.open("r+b") as opened:
            self.memory = mmap.mmap(opened.fileno(), 16)
        self.env = {"LD_PRELOAD": str(LIBRARY), "GSPROF_TEST_CLOCK": str(file)}

    def set(self, shift_ns: int) -> None:
        self.memory[:8] = struct.pack("=q", shift_ns)
