# SPDX-License-Identifier: Apache-2.0
"""Does the same work for each byte on stdin and prints how long it took. Argument: rounds of
work."""

import os
import sys
import time

import target


def leaf(number):
    return number + 1


def middle(count):
    number = 0
    for _ in range(count):
        number = leaf(number)
    return number


def chunk(rounds):
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    for _ in range(rounds):
        middle(1000)
    return {"wall_ns": time.perf_counter_ns() - wall, "cpu_ns": time.thread_time_ns() - cpu}


def main():
    rounds = int(sys.argv[1])
    chunk(rounds)
    target.ready()
    while os.read(0, 1):
        target.emit(ready=True, **chunk(rounds))


main()
