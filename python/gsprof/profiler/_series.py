# SPDX-License-Identifier: Apache-2.0
"""What was recorded under a name, as numbers to show."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Optional, Sequence

from .. import _gsprof

TIMES = 0
VALUES = 1

# So many names are listed in a message.
_LISTED = 20


def listed(names: Iterable[str]) -> str:
    """Names for a message: 'a', 'b' and 3 more."""
    every = list(names)
    text = ", ".join(repr(name) for name in every[:_LISTED])
    if len(every) > _LISTED:
        text += f" and {len(every) - _LISTED} more"
    return text or "none"


def raw(recorder: _gsprof.Recorder, kind: int, name: str) -> Dict[str, Any]:
    """What C keeps of a series; KeyError with the names that there are."""
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {type(name).__name__}")
    try:
        return recorder._stats(kind, name)
    except KeyError:
        what = "measurement" if kind == TIMES else "metric"
        raise KeyError(
            f"no {what} is named {name!r}; known: {listed(recorder._names(kind))}"
        ) from None


def values(recorder: _gsprof.Recorder, kind: int, name: str) -> List[float]:
    """The values that were kept, in the order of time."""
    return [value for _, value in recorder._samples(kind, name)]


def percentile(ordered: Sequence[float], share: float) -> Optional[float]:
    """By linear interpolation, as numpy has it; None of nothing."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def basics(recorder: _gsprof.Recorder, kind: int, name: str) -> Dict[str, Any]:
    """mean, std, min and max; None when no value was finite."""
    stats = raw(recorder, kind, name)
    some = stats["count"] > 0
    return {key: stats[key] if some else None for key in ("mean", "std", "min", "max")}


def statistics(recorder: _gsprof.Recorder, kind: int, name: str) -> Dict[str, Any]:
    """All that is known of a series."""
    stats = raw(recorder, kind, name)
    some = stats["count"] > 0
    ordered = sorted(v for v in values(recorder, kind, name) if math.isfinite(v))
    found: Dict[str, Any] = {"count": stats["count"], "total": stats["sum"] if some else None}
    found.update(basics(recorder, kind, name))
    found["median"] = percentile(ordered, 0.5)
    found["p95"] = percentile(ordered, 0.95)
    found["p99"] = percentile(ordered, 0.99)
    found["last"] = stats["last"] if some or stats["nonfinite"] else None
    if stats["nonfinite"]:
        found["nonfinite"] = stats["nonfinite"]
    return found
