# SPDX-License-Identifier: Apache-2.0
"""A parent with COUNT forked workers that sleep PAUSE seconds between short pieces of work. Ready
once all have started."""

import os
import signal
import sys
import time

import target


def work(pause_s):
    """Works for a tenth of a millisecond, then sleeps."""
    while True:
        for i in range(2000):
            pass
        time.sleep(pause_s)


def main():
    count = int(sys.argv[1])
    pause_s = float(sys.argv[2])
    begun, writer = os.pipe()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for _ in range(count):
        if os.fork() == 0:
            os.close(begun)
            signal.alarm(target.LIFE_S)
            os.write(writer, b"x")
            work(pause_s)
    for _ in range(count):
        os.read(begun, 1)
    target.ready(workers=count)
    os.read(0, 1)


if __name__ == "__main__":
    main()
