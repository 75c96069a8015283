# SPDX-License-Identifier: Apache-2.0
"""Worker threads without Python. Arguments: the library built from pools.c, a mode, seconds.

wait   starts three workers, then one more; the Python thread waits. turns  two functions call their
own native function for a few microseconds, alternately. sums   alternates between a long builtin
function of a library and a native function."""

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
