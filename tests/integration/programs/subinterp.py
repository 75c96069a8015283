# SPDX-License-Identifier: Apache-2.0
"""Spins in a sub-interpreter, in its own thread, while the main thread sleeps."""

import os
import threading
import time

import target

SCRIPT = """
import os
import time

def in_sub():
    end = time.monotonic() + 180
    while time.monotonic() < end:
        for i in range(300000):
            pass
        time.sleep(0.0001)  # in some versions a spinning sub-interpreter blocks all others

os.write({fd}, b"x")
in_sub()
"""


def interpreters_module():
    try:
        import _interpreters as module  # 3.13 and later

        return module
    except ImportError:
        pass
    try:
        import _xxsubinterpreters as module  # 3.8 to 3.12

        return module
    except ImportError:
        return None


def in_thread(module, fd):
    # Created here, because up to 3.12 an interpreter belongs to the thread that created it.
    module.run_string(module.create(), SCRIPT.format(fd=fd))


def main():
    module = interpreters_module()
    if module is None:
        target.ready(skip="this interpreter has no module for sub-interpreters")
        return
    reader, writer = os.pipe()
    threading.Thread(target=in_thread, args=(module, writer), name="sub", daemon=True).start()
    os.read(reader, 1)
    target.ready()
    while True:
        time.sleep(3600)


main()
