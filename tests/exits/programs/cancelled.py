# SPDX-License-Identifier: Apache-2.0
"""Threads that Python does not know are cancelled while they allocate."""

import threading

import common


def allocate():
    while not ends.is_set():
        common.use_memory(4)


library = common.native()
ends = threading.Event()
others = [threading.Thread(target=allocate) for _ in range(2)]
for thread in others:
    thread.start()
print("threads that finished:", library.native_cancel(10))
ends.set()
for thread in others:
    thread.join()
