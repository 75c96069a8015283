# SPDX-License-Identifier: Apache-2.0
"""One thread computes in a long C call that releases the GIL; the main thread sleeps."""

import os
import threading
import time
import zlib

import target


def compress(data):
    zlib.compress(data, 9)


def compressor(started):
    data = os.urandom(1 << 16) * 400
    started.set()
    while True:
        compress(data)


def main():
    started = threading.Event()
    threading.Thread(target=compressor, args=(started,), name="compressor", daemon=True).start()
    started.wait()
    target.ready()
    while True:
        time.sleep(3600)


main()
