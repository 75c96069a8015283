# SPDX-License-Identifier: Apache-2.0
"""The pace of steps: each lasts until the profiler has looked at memory again, however busy the
machine is.  A trend is one of looks."""

import time


def wait_for_look(profiler):
    block = profiler._open[-1]
    before = len(block._sampler.memory(block._began))
    end = time.monotonic() + 60
    while len(block._sampler.memory(block._began)) == before:
        assert time.monotonic() < end, "memory is not looked at"
        time.sleep(0.001)
