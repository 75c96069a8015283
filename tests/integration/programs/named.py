# SPDX-License-Identifier: Apache-2.0
"""Spins in a function of a given name, and says so from there on the FIFO $NAMED_FIFO."""

import os
import sys
import time

BODY = """
def {name}(tell, end, clock):
    tell()
    while clock() < end:
        for i in range(1000):
            pass
"""


def tell():
    with open(os.environ["NAMED_FIFO"], "w") as fifo:
        fifo.write("x")


def spin_as(name):
    space = {}
    exec(compile(BODY.format(name=name), "named_body.py", "exec"), space)
    space[name](tell, time.monotonic() + 180, time.monotonic)


if __name__ == "__main__":
    spin_as(sys.argv[1])
