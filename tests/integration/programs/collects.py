# SPDX-License-Identifier: Apache-2.0
"""Spends half of its time in the garbage collector, half in a loop without it."""

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
    objects = [[] for _ in range(300000)]
    target.ready(size=len(objects))
    while True:
        collects(time.monotonic() + 0.05)
        computes(time.monotonic() + 0.05)


if __name__ == "__main__":
    main()
