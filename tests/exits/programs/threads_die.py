# SPDX-License-Identifier: Apache-2.0
"""Exceptions in threads, and an exit while a thread raises."""

import sys
import threading

import common


def fails():
    common.use_memory()
    raise KeyError("in a thread")


thread = threading.Thread(target=fails, name="named")
thread.start()
thread.join()
threading.Thread(target=sys.exit, args=(3,)).start()
sys.exit(2)
