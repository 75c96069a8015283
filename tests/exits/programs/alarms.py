# SPDX-License-Identifier: Apache-2.0
"""A Python signal handler that allocates, every millisecond, up to the end."""

import signal
import time

import common

ticks = []


def handler(number, frame):
    ticks.append(bytearray(100000))
    del ticks[:-10]


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
end = time.monotonic() + 0.4
while time.monotonic() < end:
    common.use_memory(2)
print("done")
