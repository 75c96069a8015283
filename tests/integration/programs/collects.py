# SPDX-License-Identifier: Apache-2.0
"""Half of the time in the garbage collector, half in a loop while it is off."""

import gc
import time

import target


def collects(until, clock=time.monotonic):
    while clock() < until:
        gc.collect()


def computes(until, clock=time.monotonic):
    while clock() < until:
        pass


def main():
    gc.disable()
    garden = [[] for _ in range(300000)]
    target.ready(size=len(garden))
    while True:
        collects(time.monotonic() + 0.05)
        computes(time.monotonic() + 0.05)


if __name__ == "__main__":
    main()
