# SPDX-License-Identifier: Apache-2.0
"""Publishes the GPU memory that PyTorch's caching allocator holds beside the process's memory
counters. The numbers are PyTorch's own statistics: no GPU is initialized or waited for."""

import sys
import time

from . import _gsprof
from ._quiet import quietly

# As in _boot: import only modules that a bare interpreter has loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

# Least time between two reads, which take some hundred microseconds each; steps may be shorter.
_PAUSE_S = 0.1


_next_s = 0.0  # when at_step() reads the counters again


def read() -> "Optional[Tuple[int, int, int]]":
    """Returns bytes over all GPUs: allocated, reserved, and the sum of the peaks; None while the
    program does not use a GPU through PyTorch."""
    cuda = sys.modules.get("torch.cuda")
    is_initialized = getattr(cuda, "is_initialized", None)
    # Also false in a child of fork, where the GPU cannot be used.
    if cuda is None or is_initialized is None or not is_initialized():
        return None
    names = (
        "allocated_bytes.all.current",
        "reserved_bytes.all.current",
        "allocated_bytes.all.peak",
    )
    sums = [0, 0, 0]
    for device in range(cuda.device_count()):
        stats = cuda.memory_stats(device)
        sums = [total + int(stats.get(name, 0)) for total, name in zip(sums, names)]
    return sums[0], sums[1], sums[2]


def _publish() -> None:
    found = read()
    if found is not None:
        _gsprof.memory_device(*found)


def publish() -> None:
    """Writes the numbers to the memory counters in shared memory; never raises."""
    global _next_s
    _next_s = time.monotonic() + _PAUSE_S
    quietly(_publish)


def at_step() -> None:
    """Publishes at the end of a training step if memory is counted and the pause is over."""
    if _gsprof.memory_mode() != "off" and time.monotonic() >= _next_s:
        publish()
