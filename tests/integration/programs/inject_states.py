# SPDX-License-Identifier: Apache-2.0
"""Walks through states in which a program may be entered.  A byte on standard input leads to the
next; every state checks its own results and says what went wrong since the last."""
import json
import os
import random
import select
import sys
import threading
import time
import zlib

STATES = ["sleep", "loop", "sort", "zlib", "threads", "epoll", "read"]
bad = []


def told():
    """Whether a byte has come; the end of the input ends the program."""
    if not select.select([0], [], [], 0)[0]:
        return False
    if not os.read(0, 1):
        sys.exit(0)
    return True


def loop():
    total = sum(i * i for i in range(2000))
    if total != 2664667000:
        bad.append("loop")


def sort():
    """Allocates and frees in C most of the time."""
    rng = random.Random(7)
    rows = [str(rng.random()) * 3 for _ in range(4000)]
    rows.sort()
    if rows != sorted(reversed(rows)):
        bad.append("sort")


def squeeze():
    data = bytes(range(256)) * 800
    if zlib.decompress(zlib.compress(data, 9)) != data:
        bad.append("zlib")


def many():
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(sum(j for j in range(20000))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if found != [199990000] * 4:
        bad.append("threads")


def wait():
    poller = select.epoll()
    before = time.monotonic()
    poller.poll(0.05)
    if time.monotonic() - before < 0.049:
        bad.append("epoll")
    poller.close()


def nap():
    before = time.monotonic()
    time.sleep(0.05)
    if time.monotonic() - before < 0.05:
        bad.append("sleep")


def run(state):
    steps = {"sleep": nap, "loop": loop, "sort": sort, "zlib": squeeze, "threads": many}
    steps["epoll"] = wait
    print(json.dumps({"pid": os.getpid(), "state": state, "bad": bad}), flush=True)
    if state == "read":
        if not os.read(0, 1):
            sys.exit(0)
        return
    while not told():
        steps[state]()


def main():
    first = STATES.index(sys.argv[1]) if len(sys.argv) > 1 else 0
    number = 0
    while True:
        run(STATES[(first + number) % len(STATES)])
        number += 1


main()
