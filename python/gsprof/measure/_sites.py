# SPDX-License-Identifier: Apache-2.0
"""Which lines hold more memory at a block's end than at its begin."""

from __future__ import annotations

import os
import threading
import tracemalloc
from typing import Dict, List, NamedTuple, Tuple

from .. import _gsprof, _memory

_SITES_MAX = 10
# Less is noise: a cache of regular expressions, say.
_BYTES_MIN = 4096
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")

# Bytes and blocks that a line holds.
Held = Dict[Tuple[str, int], Tuple[int, int]]


class GrowthSite(NamedTuple):
    """A line of the program and what more it holds."""

    file: str
    line: int
    bytes: int
    blocks: int


class Tracer:
    """Memory that Python and libraries allocate, by the memory engine; where that cannot be (an
    interpreter it does not know, no shared memory) by Python's own tracer.  One for all blocks; it
    runs while one is open, or while whoever else began it wants it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._is_ours = False
        self._is_agents_start_ours = False
        self._by_engine = True

    def _start(self) -> None:
        self._by_engine = True
        if _memory.is_on():
            return
        was_on = _gsprof.is_on()
        try:
            _memory.start("exact")
            self._is_ours, self._is_agents_start_ours = True, not was_on
        except RuntimeError:
            self._by_engine = False
            if not tracemalloc.is_tracing():
                tracemalloc.start()
                self._is_ours = True

    def _stop(self) -> None:
        if self._is_ours and self._by_engine:
            _memory.stop()
            if self._is_agents_start_ours:
                _gsprof.stop()
        elif self._is_ours:
            tracemalloc.stop()
        self._is_ours = self._is_agents_start_ours = False

    def _look(self) -> Held:
        if self._by_engine:
            return {row[:2]: row[2:4] for row in _memory.snapshot().by_line()}
        if not tracemalloc.is_tracing():
            return {}
        return {
            (found.traceback[0].filename, found.traceback[0].lineno): (found.size, found.count)
            for found in tracemalloc.take_snapshot().statistics("lineno")
        }

    def begin(self) -> Held:
        """What end() wants to have back."""
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._start()
        return self._look()

    def end(self, before: Held) -> List[GrowthSite]:
        """The lines that hold more than before, the greatest first."""
        sites = _compare(before, self._look())
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._stop()
        return sites


def _is_own(file: str) -> bool:
    return file == tracemalloc.__file__ or os.path.abspath(file).startswith(_FOLDER)


def _compare(before: Held, after: Held) -> List[GrowthSite]:
    grown = []
    for (file, line), (size, count) in after.items():
        old_size, old_count = before.get((file, line), (0, 0))
        if size - old_size >= _BYTES_MIN and not _is_own(file):
            grown.append(GrowthSite(file, line, size - old_size, count - old_count))
    grown.sort(key=lambda site: -site.bytes)
    return grown[:_SITES_MAX]


TRACER = Tracer()
