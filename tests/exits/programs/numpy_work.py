# SPDX-License-Identifier: Apache-2.0
import sys
import threading

import numpy

import common

a = numpy.random.default_rng(0).random((400, 400))
print(round(float((a @ a).sum()), 3))
if "thread" in sys.argv:

    def multiply():
        while True:
            (a @ a).sum()

    for _ in range(2):
        threading.Thread(target=multiply, daemon=True).start()
common.use_memory()
