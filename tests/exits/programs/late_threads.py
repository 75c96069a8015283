# SPDX-License-Identifier: Apache-2.0
"""Threads that are not daemons continue after the main thread's last line."""

import threading
import time

import common


def late(number):
    time.sleep(0.05 * number)
    common.use_memory()
    done.append(number)
    if len(done) == 4:
        print("all threads ended")


done = []
for n in range(4):
    threading.Thread(target=late, args=(n,)).start()
print("main ends")
