# SPDX-License-Identifier: Apache-2.0
"""Workers that Python does not know.  Arguments: the library made of pools.c, what to do, seconds.

wait   three workers at once, one more a moment later; Python waits.
turns  two functions call a native one of their own, in turns, some microseconds each.
sums   a builtin function that works in a library, for long, and a native one, in turns."""

import ctypes
import sys
import time
import zlib

import target

DATA = bytes(4 << 20)
library = ctypes.CDLL(sys.argv[1])
library.pools_alpha.argtypes = [ctypes.c_long]
library.pools_beta.argtypes = [ctypes.c_long]


def alpha():
    return library.pools_alpha(2000)


def beta():
    return library.pools_beta(2000)


def turns(end):
    while time.monotonic() < end:
        for _ in range(100):
            alpha()
            beta()


def checksum():
    return zlib.crc32(DATA)


def sums(end):
    while time.monotonic() < end:
        checksum()
        alpha()


def wait(end):
    assert library.pools_start(b"pool", 3) == 3
    time.sleep(0.3)
    assert library.pools_start(b"late", 1) == 1
    time.sleep(max(0, end - time.monotonic()))


target.ready()
END = time.monotonic() + (float(sys.argv[3]) if len(sys.argv) > 3 else target.LIFE_S)
{"wait": wait, "turns": turns, "sums": sums}[sys.argv[2]](END)
