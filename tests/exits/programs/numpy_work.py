# SPDX-License-Identifier: Apache-2.0
import sys
import threading

import numpy

import common

a = numpy.random.default_rng(0).random((400, 400))
print(round(float((a @ a).sum()), 3))
if "thread" in sys.argv:
    # Not products of matrices: OpenBLAS gives its memory back when the process ends, and a thread
    # that still uses it crashes, alone too.
    def compute():
        while True:
            numpy.sin(a).sum()

    for _ in range(2):
        threading.Thread(target=compute, daemon=True).start()
common.use_memory()
