# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in Python code, in a lock or in a C function."""

import os
import signal
import sys
import threading
import time

import common

common.use_memory()
where = sys.argv[1]


def interrupt():
    """Waits until the main thread sleeps: 3.13t can miss a signal that arrives earlier."""
    time.sleep(0.1)
    while where != "python":
        with open(f"/proc/self/task/{os.getpid()}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "S":
                break
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt, daemon=True).start()
if where == "python":
    # On one line, so that the traceback is always the same.
    exec("while True: pass")
elif where == "lock":
    threading.Event().wait()
else:
    time.sleep(60)  # the call that the signal interrupts
