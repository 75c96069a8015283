# SPDX-License-Identifier: Apache-2.0
"""Counts in a mapped file, so that other processes can see its progress. Argument: the
file."""

import mmap
import struct
import sys

import target


def step(count):
    return count + 1


def main():
    with open(sys.argv[1], "r+b") as file:
        memory = mmap.mmap(file.fileno(), 8)
    count = 0
    target.ready()
    while True:
        for _ in range(100):
            count = step(count)
        memory[:8] = struct.pack("<Q", count)


main()
