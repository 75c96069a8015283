# SPDX-License-Identifier: Apache-2.0
"""Spins in a function with a given name; that function writes to the FIFO $NAMED_FIFO first."""

import os
import sys
import time

BODY = """
def {name}(report_start, end, clock):
    report_start()
    while clock() < end:
        for i in range(1000):
            pass
"""


def report_start():
    with open(os.environ["NAMED_FIFO"], "w") as fifo:
        fifo.write("x")


def spin_as(name):
    space = {}
    exec(compile(BODY.format(name=name), "named_body.py", "exec"), space)
    space[name](report_start, time.monotonic() + 180, time.monotonic)


if __name__ == "__main__":
    spin_as(sys.argv[1])
