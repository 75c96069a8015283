# SPDX-License-Identifier: Apache-2.0
"""A fork handler registered before the profiler's waits for a thread that allocates."""

import os
import sys

import common

if "LD_PRELOAD" not in os.environ:
    preload = {**os.environ, "LD_PRELOAD": os.environ["EXITS_NATIVE"]}
    os.execve(sys.executable, [sys.executable, __file__], preload)

library = common.native()
for _ in range(3):
    library.native_start_helper()
    child = os.fork()
    if child == 0:
        common.use_memory()
        os._exit(3)
    print("child's status", os.waitpid(child, 0)[1] >> 8)
