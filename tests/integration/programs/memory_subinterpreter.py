# SPDX-License-Identifier: Apache-2.0
"""Prints the counts before and after a sub-interpreter runs: whether counting is on, the live MiB,
and the frames of the largest site."""

import json
import sys

from gsprof import _memory

try:
    import _interpreters as module
except ImportError:
    import _xxsubinterpreters as module

MIB = 1 << 20
SCRIPT = "blocks = [bytearray(1 << 20) for _ in range(16)]"


def create():
    """Creates one that shares the GIL and so can load extensions."""
    if sys.version_info < (3, 12):
        return module.create()
    if sys.version_info < (3, 13):
        return module.create(isolated=False)
    return module.create("legacy")


def print_counts():
    counted = _memory.snapshot()
    names = [frame.name for frame in counted.sites[0].frames]
    print(json.dumps([_memory.is_on(), counted.live_bytes // MIB, names]))


first = bytearray(64 * MIB)
print_counts()
number = create()
run = getattr(module, "exec", None) or module.run_string
run(number, SCRIPT)
module.destroy(number)
second = bytearray(64 * MIB)
print_counts()
