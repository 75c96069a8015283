# SPDX-License-Identifier: Apache-2.0
"""The work of work.py at the bottom of a deep stack. Argument: the depth of the leaf, including the
frame of the module."""

import signal
import sys

import target
import work

stopped = []


def level(left):
    if left:
        level(left - 1)
        return
    target.ready(depth=int(sys.argv[1]))
    while not stopped:
        work.one_round()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    # Above the leaf: the module, one_round() and every level().
    level(int(sys.argv[1]) - 4)
    target.emit(truth=work.shares())
