# SPDX-License-Identifier: Apache-2.0
"""Does memory grow for good?  A trend test that one large allocation, a warm-up, a cache that
fills, or the saw teeth of a garbage collector do not deceive (src/stats/growth.h tells how)."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence, Tuple

from .. import _gsprof

# (seconds, bytes)
Point = Tuple[float, float]


class Trend(NamedTuple):
    """What became of memory: is_growing None when there was too little to see."""

    is_growing: Optional[bool]
    bytes_per_s: Optional[float]
    p_value: Optional[float]


def judge(points: Sequence[Point]) -> Trend:
    """Whether memory grows, by looks (seconds, bytes) in the order of time.

    >>> judge([(second, 1e6 * second) for second in range(100)]).is_growing
    True
    >>> judge([(second, 5e7) for second in range(100)]).is_growing
    False
    """
    found = _gsprof.growth([at for at, _ in points], [held for _, held in points])
    return Trend(*found) if found else Trend(None, None, None)
