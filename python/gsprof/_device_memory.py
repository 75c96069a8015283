# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's caching allocator holds on the process's GPUs, put beside the counters of its
memory.  PyTorch is asked for its own books: no GPU is woken, waited for, or first used by us."""

import sys
import time

from . import _gsprof
from ._quiet import quietly

# As in _boot: nothing that a bare interpreter has not loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

# Steps may be short, and an answer takes some hundred microseconds.
_PAUSE_S = 0.1


_next_s = 0.0  # when at_step() reads the counters again


def look() -> "Optional[Tuple[int, int, int]]":
    """Bytes, all GPUs together: allocated, reserved, and the sum of their peaks.  None while
    the program does not use a GPU through PyTorch."""
    cuda = sys.modules.get("torch.cuda")
    is_initialized = getattr(cuda, "is_initialized", None)
    # Not so in the child of a fork either, whose parent has the GPU.
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


def _tell() -> None:
    found = look()
    if found is not None:
        _gsprof.memory_device(*found)


def tell() -> None:
    """Puts it where those look who follow the process's memory; never raises."""
    global _next_s
    _next_s = time.monotonic() + _PAUSE_S
    quietly(_tell)


def at_step() -> None:
    """The same at the end of a training step, while memory is counted, and not too often."""
    if _gsprof.memory_mode() != "off" and time.monotonic() >= _next_s:
        tell()
