# SPDX-License-Identifier: Apache-2.0
"""A multiprocessing pool started by spawn: two workers, 40 tasks. The exit status is 3."""

import collections
import multiprocessing
import sys

import truth

TASKS = 40
found = collections.deque(maxlen=32)
count = 0


def factor(number):
    global count
    count += 1
    truth.report("worker", count)
    found.append(bytearray(1 << 20))  # held
    rest = 0
    for i in range(300_000):
        rest = (rest * 31 + i + number) & 0xFFFF
    return rest


def main():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for number in truth.rounds("main", 1):
            total = sum(pool.map(factor, range(TASKS), chunksize=1))
            if number == 0:
                print("sum", total, flush=True)
    sys.exit(3)


if __name__ == "__main__":
    main()
