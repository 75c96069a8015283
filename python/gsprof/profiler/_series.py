# SPDX-License-Identifier: Apache-2.0
"""Statistics of the values recorded under a name."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Optional, Sequence

from .. import _gsprof

TIMES = 0
VALUES = 1

# Most names that a message lists.
_LISTED = 20


def listed(names: Iterable[str]) -> str:
    """Returns names for a message: 'a', 'b' and 3 more."""
    every = list(names)
    text = ", ".join(repr(name) for name in every[:_LISTED])
    if len(every) > _LISTED:
        text += f" and {len(every) - _LISTED} more"
    return text or "none"


def raw(recorder: _gsprof.Recorder, kind: int, name: str) -> Dict[str, Any]:
    """Returns the statistics that C keeps of a series; KeyError lists the existing names."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    try:
        return recorder._stats(kind, name)
    except KeyError:
        what = "measurement" if kind == TIMES else "metric"
        raise KeyError(
            f"no {what} is named {name!r}; known: {listed(recorder._names(kind))}"
        ) from None


def values(recorder: _gsprof.Recorder, kind: int, name: str) -> List[float]:
    """Returns the kept values in time order."""
    return [value for _, value in recorder._samples(kind, name)]


def percentile(ordered: Sequence[float], share: float) -> Optional[float]:
    """Interpolates linearly, as numpy does; None for an empty list."""
    if not ordered:
        return None
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def basics(recorder: _gsprof.Recorder, kind: int, name: str) -> Dict[str, Any]:
    """Returns mean, std, min and max; each is None if no value is finite."""
    stats = raw(recorder, kind, name)
    some = stats["count"] > 0
    return {key: stats[key] if some else None for key in ("mean", "std", "min", "max")}


def statistics(recorder: _gsprof.Recorder, kind: int, name: str) -> Dict[str, Any]:
    """Returns all statistics of a series."""
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
