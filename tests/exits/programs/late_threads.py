# SPDX-License-Identifier: Apache-2.0
"""Threads that are not daemons continue after the main thread's last line."""

import threading
import time

import common


def late(number):
    time.sleep(0.05 * number)
    common.use_memory()
    with lock:  # one thread finds that it is the last
        done.append(number)
        is_last = len(done) == 4
    if is_last:
        print("all threads ended")


done = []
lock = threading.Lock()
for n in range(4):
    threading.Thread(target=late, args=(n,)).start()
print("main ends")
