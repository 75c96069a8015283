# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: once in Python, once in a lock, once in C."""

import os
import signal
import sys
import threading
import time

import common

common.use_memory()
where = sys.argv[1]
timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
timer.daemon = True
timer.start()
if where == "python":
    # On one line: the same traceback each time.
    exec("while True: pass")
elif where == "lock":
    threading.Event().wait()
else:
    time.sleep(60)  # the call that the signal interrupts
