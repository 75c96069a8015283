# SPDX-License-Identifier: Apache-2.0
"""__del__, weakref callbacks and garbage collections during interpreter shutdown."""

import gc
import sys
import weakref

import common


class Last:
    def __init__(self, name):
        self.name = name
        self.me = self

    def __del__(self):
        blocks = [bytearray(1 << 20) for _ in range(4)]
        print("ends", self.name, len(blocks))
        sys.stdout.flush()


kept = Last("kept")
cycle = Last("cycle")
weakref.finalize(kept, print, "finalize")
weakref.finalize(common, print, "finalize of a module")
gc.callbacks.append(lambda phase, info: None)
sys.kept = Last("in sys")
common.use_memory()
print("main ends")
