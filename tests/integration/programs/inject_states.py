# SPDX-License-Identifier: Apache-2.0
"""Cycles through states in which the agent may be injected. A byte on stdin selects the next state;
each state checks its own results and prints the failures since the last."""
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


def has_input():
    """Returns whether a byte arrived; exits at the end of the input."""
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
    """Mostly allocates and frees in C."""
    rng = random.Random(7)
    rows = [str(rng.random()) * 3 for _ in range(4000)]
    rows.sort()
    if rows != sorted(reversed(rows)):
        bad.append("sort")


def squeeze():
    data = bytes(range(256)) * 800
    if zlib.decompress(zlib.compress(data, 9)) != data:
        bad.append("zlib")


def run_threads():
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


def sleep():
    before = time.monotonic()
    time.sleep(0.05)
    if time.monotonic() - before < 0.05:
        bad.append("sleep")


def run(state):
    steps = {"sleep": sleep, "loop": loop, "sort": sort, "zlib": squeeze, "threads": run_threads}
    steps["epoll"] = wait
    print(json.dumps({"pid": os.getpid(), "state": state, "bad": bad}), flush=True)
    if state == "read":
        if not os.read(0, 1):
            sys.exit(0)
        return
    while not has_input():
        steps[state]()


def main():
    first = STATES.index(sys.argv[1]) if len(sys.argv) > 1 else 0
    number = 0
    while True:
        run(STATES[(first + number) % len(STATES)])
        number += 1


main()
