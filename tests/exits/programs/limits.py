# SPDX-License-Identifier: Apache-2.0
"""RecursionError, MemoryError and few descriptors."""

import os
import resource
import sys

import common


def deep(number):
    return deep(number + 1) + 1


try:
    deep(0)
except RecursionError as error:
    print(type(error).__name__)
try:
    bytearray(1 << 60)
except MemoryError as error:
    print(type(error).__name__)
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
common.use_memory()
print(sorted(os.listdir("/proc/self/fd")))
if "memory" in sys.argv:
    # After this, the next large block fails.
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), used + (8 << 20)))
    blocks = [bytearray(1 << 20) for _ in range(64)]
