# SPDX-License-Identifier: Apache-2.0
"""Spins in a function of a given name, after having said so on the FIFO $NAMED_FIFO."""

import os
import sys
import time

BODY = """
def {name}(end, clock):
    while clock() < end:
        for i in range(1000):
            pass
"""


def spin_as(name):
    space = {}
    exec(compile(BODY.format(name=name), "named_body.py", "exec"), space)
    with open(os.environ["NAMED_FIFO"], "w") as fifo:
        fifo.write("x")
    space[name](time.monotonic() + 180, time.monotonic)


if __name__ == "__main__":
    spin_as(sys.argv[1])
