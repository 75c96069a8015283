# SPDX-License-Identifier: Apache-2.0
"""Spins in a function, thread, file and span whose names are commands to a terminal. Ends after the
given time, or runs until it is killed."""

import ctypes
import json
import os
import sys
import threading
import time

RUDE = "\x1b]0;title\x07\x1b[38;5;213m\x9b5m\r\b\x7f\u202e\nend"


def spin(until, keep):
    while time.monotonic() < until:
        keep.append(bytearray(100_000))
        del keep[:-20]


def rude_function():
    code = spin.__code__
    names = {"co_name": RUDE, "co_filename": f"/tmp/{RUDE}.py"}
    if hasattr(code, "co_qualname"):
        names["co_qualname"] = RUDE
    return type(spin)(code.replace(**names), globals())


def rename_task():
    """Gives the calling thread a rude name for the kernel too: at most 15 bytes."""
    ctypes.CDLL(None).prctl(15, b"\x1b]0;t\x07\x1b[5m\r\x7f\x9b", 0, 0, 0)


def main():
    until = time.monotonic() + float(sys.argv[1])
    function = rude_function()
    rename_task()
    thread = threading.Thread(target=function, args=(until, []), name=RUDE, daemon=True)
    thread.start()
    print(json.dumps({"pid": os.getpid()}), flush=True)
    try:
        import gsprof
    except ImportError:
        function(until, [])
        return
    with gsprof.span(RUDE):
        function(until, [])
    gsprof.event(RUDE)


main()
