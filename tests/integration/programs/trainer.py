# SPDX-License-Identifier: Apache-2.0
"""A job whose child writes tables: trainer.py WRITER ARGS.... Ready when the first rows exist.
Works until SIGTERM, then prints what the child wrote."""

import json
import signal
import subprocess
import sys

import target


def spin():
    total = 0
    for i in range(20000):
        total += i
    return total


def main():
    writer = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    started = json.loads(writer.stdout.readline())
    ended = []
    signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
    target.ready(writer=started["pid"])
    while not ended:
        spin()
    writer.send_signal(signal.SIGTERM)
    sys.stdout.buffer.write(writer.stdout.readline())
    sys.stdout.buffer.flush()
    writer.wait()


if __name__ == "__main__":
    main()
