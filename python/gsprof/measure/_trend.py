# SPDX-License-Identifier: Apache-2.0
"""Tests whether memory keeps growing. A large allocation, a warm-up, a filling cache or the
sawtooth of a garbage collector do not count as growth (see src/stats/growth.h)."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence, Tuple

from .. import _gsprof

# (seconds, bytes)
Point = Tuple[float, float]


class Trend(NamedTuple):
    """The trend of memory; is_growing is None if there are too few samples."""

    is_growing: Optional[bool]
    bytes_per_s: Optional[float]
    p_value: Optional[float]


def judge(points: Sequence[Point]) -> Trend:
    """Tests samples (seconds, bytes) in time order.

    >>> judge([(second, 1e6 * second) for second in range(100)]).is_growing
    True
    >>> judge([(second, 5e7) for second in range(100)]).is_growing
    False
    """
    found = _gsprof.growth([at for at, _ in points], [held for _, held in points])
    return Trend(*found) if found else Trend(None, None, None)
