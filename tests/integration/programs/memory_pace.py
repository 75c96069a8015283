# SPDX-License-Identifier: Apache-2.0
"""Ends a step only when the profiler has sampled memory again, however busy the machine is, because
a trend needs several samples."""

import time


def wait_for_memory_sample(profiler):
    block = profiler._open[-1]
    before = len(block._sampler.memory(block._began))
    end = time.monotonic() + 60
    while len(block._sampler.memory(block._began)) == before:
        assert time.monotonic() < end, "memory is not sampled"
        time.sleep(0.001)
