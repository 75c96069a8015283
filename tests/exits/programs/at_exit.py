# SPDX-License-Identifier: Apache-2.0
"""Handlers run in order; one raises, one allocates for more than a second."""

import atexit
import sys
import time

import common


def long():
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        common.use_memory(2)
    print("first registered")


def fails():
    raise ValueError("in a handler")


atexit.register(long)
atexit.register(fails)
atexit.register(print, "last registered")
if "clear" in sys.argv:
    atexit._clear()
common.use_memory()
