# SPDX-License-Identifier: Apache-2.0
"""Daemon threads run Python, wait, or allocate in C without the GIL while the interpreter exits."""

import threading
import time

import common

library = common.native()


def spin():
    while True:
        [object() for _ in range(100)]


def churn():
    while True:
        library.native_churn(0.05)


def deep(depth):
    if depth:
        deep(depth - 1)
    else:
        library.native_churn(60)


for function, args in (
    (spin, ()),
    (churn, ()),
    (deep, (100,)),
    (deep, (300,)),
    (time.sleep, (60,)),
):
    threading.Thread(target=function, args=args, daemon=True).start()
common.use_memory(64)
print("main ends")
