# SPDX-License-Identifier: Apache-2.0
"""A program that traces and profiles itself sees only its own functions, also in imports."""

import cProfile
import os
import pstats
import sys
import time

import common

SECONDS = 2.5  # longer than the interval of the memory counter


def work():
    end_s = time.monotonic() + SECONDS
    while time.monotonic() < end_s:
        common.use_memory(4)
    sys.modules.pop("colorsys", None)
    import colorsys  # noqa: F401


def see(frame, *_):
    seen.add(os.path.basename(frame.f_code.co_filename))
    return see


seen = set()
profile = cProfile.Profile()
profile.runcall(work)
print(sorted({os.path.basename(file) for file, _, _ in pstats.Stats(profile).stats}))
sys.settrace(see)
work()
sys.settrace(None)
print(sorted(seen))
