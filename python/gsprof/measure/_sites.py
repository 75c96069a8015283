# SPDX-License-Identifier: Apache-2.0
"""Which lines hold more memory at a block's end than at its begin."""

from __future__ import annotations

import os
import threading
import tracemalloc
from typing import Any, List, NamedTuple

_SITES_MAX = 10
# Less is noise: a cache of regular expressions, say.
_BYTES_MIN = 4096
_FOLDER = os.path.dirname(os.path.abspath(__file__))


class GrowthSite(NamedTuple):
    """A line of the program and what more it holds."""

    file: str
    line: int
    bytes: int
    blocks: int


class Tracer:
    """Memory that Python and NumPy allocate, by Python's own tracer.  One for all blocks; it runs
    while one is open, or while whoever else began it wants it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._is_ours = False

    def begin(self) -> Any:
        """What end() wants to have back."""
        with self._lock:
            self._open += 1
            if not tracemalloc.is_tracing():
                tracemalloc.start()
                self._is_ours = True
        return tracemalloc.take_snapshot()

    def end(self, before: Any) -> List[GrowthSite]:
        """The lines that hold more than before, the greatest first."""
        sites: List[GrowthSite] = []
        if tracemalloc.is_tracing():
            sites = _compare(before, tracemalloc.take_snapshot())
        with self._lock:
            self._open -= 1
            if self._open == 0 and self._is_ours:
                tracemalloc.stop()
                self._is_ours = False
        return sites


def _compare(before: Any, after: Any) -> List[GrowthSite]:
    filters = [
        tracemalloc.Filter(False, tracemalloc.__file__),
        tracemalloc.Filter(False, os.path.join(_FOLDER, "*")),
    ]
    differences = after.filter_traces(filters).compare_to(before.filter_traces(filters), "lineno")
    grown = [difference for difference in differences if difference.size_diff >= _BYTES_MIN]
    grown.sort(key=lambda difference: -int(difference.size_diff))
    return [
        GrowthSite(
            found.traceback[0].filename,
            found.traceback[0].lineno,
            found.size_diff,
            found.count_diff,
        )
        for found in grown[:_SITES_MAX]
    ]


TRACER = Tracer()
