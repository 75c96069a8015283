# SPDX-License-Identifier: Apache-2.0
"""A parent with COUNT forked workers that sleep most of the time; ready once all have begun."""

import os
import signal
import sys
import time

import target


def work():
    """A little of everything: a tenth of a millisecond at work, twenty asleep."""
    while True:
        for i in range(2000):
            pass
        time.sleep(0.02)


def main():
    count = int(sys.argv[1])
    begun, tell = os.pipe()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for _ in range(count):
        if os.fork() == 0:
            os.close(begun)
            signal.alarm(target.LIFE_S)
            os.write(tell, b"x")
            work()
    for _ in range(count):
        os.read(begun, 1)
    target.ready(workers=count)
    os.read(0, 1)


if __name__ == "__main__":
    main()
