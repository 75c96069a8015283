# SPDX-License-Identifier: Apache-2.0
"""Spins in one loop without calls, at a given depth: the stack never changes. Arguments: depth (4)
and the seconds to run (default: until killed)."""

import sys
import time

import target


def spin(seconds):
    end = time.monotonic() + seconds
    count = 0
    while True:
        for _ in range(100000):
            count += 1
        if seconds and time.monotonic() > end:
            return count


def level(left, seconds):
    if left:
        level(left - 1, seconds)
    else:
        spin(seconds)


def main():
    depth = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    target.ready(depth=depth)
    level(depth - 4, seconds)


main()
