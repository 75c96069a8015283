# SPDX-License-Identifier: Apache-2.0
"""A program with a handler of SIGCHLD and a replacement of os.waitpid(), like gevent: neither sees
children that are not the program's own."""

import os
import signal
import sys


def handler(*_):
    signals.append(os.getpid())


def wait_in_loop(*args):
    calls.append(os.getpid())
    return waitpid(*args)


signals = []
calls = []
waitpid = os.waitpid
os.waitpid = wait_in_loop
signal.signal(signal.SIGCHLD, handler)
for status in range(3):
    child = os.fork()
    if child == 0:
        mine = os.getpid()
        print(f"child: signals={signals.count(mine)} waited={calls.count(mine)}", flush=True)
        os._exit(status)
    print("ended:", waitpid(child, 0)[1] >> 8, flush=True)
print(f"parent: signals={len(signals)} waited={len(calls)}")
sys.exit(4)
