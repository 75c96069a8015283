# SPDX-License-Identifier: Apache-2.0
"""A program that has a handler of SIGCHLD and a function of its own in place of os.waitpid(), as
gevent has: neither hears of children that are not the program's."""

import os
import signal
import sys


def hear(*_):
    heard.append(os.getpid())


def wait_in_loop(*args):
    calls.append(os.getpid())
    return waitpid(*args)


heard = []
calls = []
waitpid = os.waitpid
os.waitpid = wait_in_loop
signal.signal(signal.SIGCHLD, hear)
for status in range(3):
    child = os.fork()
    if child == 0:
        mine = os.getpid()
        print(f"child: heard={heard.count(mine)} waited={calls.count(mine)}", flush=True)
        os._exit(status)
    print("ended:", waitpid(child, 0)[1] >> 8, flush=True)
print(f"parent: heard={len(heard)} waited={len(calls)}")
sys.exit(4)
