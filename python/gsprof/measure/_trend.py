# SPDX-License-Identifier: Apache-2.0
"""Does memory grow for good?  A trend test that one large allocation, a warm-up, a cache that
fills, or the saw teeth of a garbage collector do not deceive.

The looks at memory after the warm-up are cut into stretches of equal length; the lowest value of a
stretch is what was still held after whatever was released in it.  These floors must rise: by the
test of Mann and Kendall, by more than noise (the slope of Theil and Sen against the scatter around
it), and still so at the end."""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

# (seconds, bytes)
Point = Tuple[float, float]

_WARM_UP = 0.2  # of the time
_STRETCHES = 16
_LOOKS_MIN = 16  # fewer tell nothing
_TAIL = 0.35  # the part at the end that must rise too
_TAIL_SHARE = 0.3  # ... at this share of the whole slope
_P_VALUE = 0.01
_BYTES_MIN = 1 << 20
_NOISE_FACTOR = 3.0


class Trend(NamedTuple):
    """What became of memory: is_growing None when there was too little to see."""

    is_growing: Optional[bool]
    bytes_per_s: Optional[float]
    p_value: Optional[float]


_UNKNOWN = Trend(None, None, None)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def theil_sen(points: Sequence[Point]) -> float:
    """The median of the slopes of all pairs."""
    slopes = [
        (b[1] - a[1]) / (b[0] - a[0])
        for i, a in enumerate(points)
        for b in points[i + 1 :]
        if b[0] > a[0]
    ]
    return _median(slopes) if slopes else 0.0


def mann_kendall(values: Sequence[float]) -> float:
    """The chance that values without a trend rise as much as these: one-sided, with ties.

    >>> mann_kendall([1, 2, 3, 4, 5, 6, 7, 8]) < 0.001
    True
    >>> mann_kendall([5, 5, 5, 5, 5])
    1.0
    """
    n = len(values)
    ups = 0
    for i, a in enumerate(values):
        for b in values[i + 1 :]:
            ups += (b > a) - (b < a)
    ties: Dict[float, int] = {}
    for value in values:
        ties[value] = ties.get(value, 0) + 1
    variance = (
        n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties.values())
    ) / 18
    if variance <= 0 or ups <= 0:
        return 1.0
    return 0.5 * math.erfc((ups - 1) / math.sqrt(variance) / math.sqrt(2))


def _floors(points: Sequence[Point], count: int) -> List[Point]:
    """The lowest point of each of count stretches of equal time."""
    began, ended = points[0][0], points[-1][0]
    width = (ended - began) / count
    floors: List[Optional[Point]] = [None] * count
    for point in points:
        i = min(int((point[0] - began) / width), count - 1)
        lowest = floors[i]
        if lowest is None or point[1] < lowest[1]:
            floors[i] = (began + (i + 0.5) * width, point[1])
    return [floor for floor in floors if floor is not None]


def _teeth(points: Sequence[Point]) -> Tuple[float, int]:
    """The depth of the deepest fall, and how many falls are at least half as deep."""
    depth = 0.0
    top = points[0][1]
    for _, value in points:
        top = max(top, value)
        depth = max(depth, top - value)
    count = 0
    top = points[0][1]
    for _, value in points:
        top = max(top, value)
        if depth > 0 and top - value >= depth / 2:
            count += 1
            top = value
    return depth, count


def judge(points: Sequence[Point]) -> Trend:
    """Whether memory grows, by looks (seconds, bytes) in the order of time."""
    if not points or points[-1][0] <= points[0][0]:
        return _UNKNOWN
    began, ended = points[0][0], points[-1][0]
    warm = [point for point in points if point[0] >= began + _WARM_UP * (ended - began)]
    if len(warm) < _LOOKS_MIN or warm[-1][0] <= warm[0][0]:
        return _UNKNOWN
    floors = _floors(warm, _STRETCHES)
    if len(floors) < _STRETCHES // 2:
        return _UNKNOWN
    slope = theil_sen(floors)
    p_value = mann_kendall([value for _, value in floors])
    seconds = floors[-1][0] - floors[0][0]
    growth = slope * seconds
    rest = [value - slope * at for at, value in floors]
    noise = _median([abs(value - _median(rest)) for value in rest])
    tail_from = floors[-1][0] - _TAIL * seconds
    tail = theil_sen([floor for floor in floors if floor[0] >= tail_from])
    depth, teeth = _teeth(warm)
    # Of a few deep teeth only parts were seen: a rise may be half a tooth.
    is_tooth = growth < depth and teeth < _STRETCHES // 2
    grows = (
        p_value < _P_VALUE
        and growth >= max(_BYTES_MIN, _NOISE_FACTOR * noise)
        and tail >= _TAIL_SHARE * slope
        and not is_tooth
    )
    return Trend(grows, slope, p_value)
