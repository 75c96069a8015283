# SPDX-License-Identifier: Apache-2.0
"""COUNT threads, including the main thread, that sleep PAUSE seconds between short pieces of work;
with "one", the main thread works without pause. Ready once all have started."""

import sys
import threading
import time

import target


def bit():
    """Works for a tenth of a millisecond."""
    for i in range(2000):
        pass


def work(pause_s):
    while True:
        bit()
        time.sleep(pause_s)


def main():
    count = int(sys.argv[1])
    pause_s = float(sys.argv[2])
    begun = threading.Semaphore(0)

    def start():
        begun.release()
        work(pause_s)

    for i in range(count - 1):
        threading.Thread(target=start, name="waker-%d" % i, daemon=True).start()
    for _ in range(count - 1):
        begun.acquire()
    target.ready(threads=count)
    if len(sys.argv) > 3:
        while True:
            bit()
    work(pause_s)


main()
