# SPDX-License-Identifier: Apache-2.0
import sys
import threading

import numpy

import common

a = numpy.random.default_rng(0).random((400, 400))
print(round(float((a @ a).sum()), 3))
if "thread" in sys.argv:
    # No matrix products: OpenBLAS frees its memory at exit, and a thread that still uses it
    # crashes, also without gsprof.
    def compute():
        while True:
            numpy.sin(a).sum()

    for _ in range(2):
        threading.Thread(target=compute, daemon=True).start()
common.use_memory()
