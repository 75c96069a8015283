# SPDX-License-Identifier: Apache-2.0
"""Which lines allocate within a block, and hold more memory at its end than at its begin."""

from __future__ import annotations

import os
import threading
import tracemalloc
from functools import lru_cache
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import _gsprof, _memory

_SITES_MAX = 10
# Less is noise: a cache of regular expressions, say.
_BYTES_MIN = 4096
# Allocations of at least so many bytes are events of a timeline.
EVENT_BYTES = 64 << 10
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


class Counts(NamedTuple):
    """Of one line.  What is held is not free again; what was allocated in all is None where only
    Python's own tracer is there, which forgets what is freed."""

    held_bytes: int
    held_blocks: int
    allocated_bytes: Optional[int]
    allocated_blocks: Optional[int]


Look = Dict[Tuple[str, int], Counts]


class Change(NamedTuple):
    """What a line allocated within a block, and what more it holds."""

    file: str
    line: int
    held_bytes: int
    held_blocks: int
    allocated_bytes: Optional[int]
    allocated_blocks: Optional[int]


class GrowthSite(NamedTuple):
    """A line of the program and what more it holds."""

    file: str
    line: int
    bytes: int
    blocks: int


class _Uncounted:
    """What this thread allocates is not of the program."""

    def __enter__(self) -> None:
        _gsprof.memory_pause(True)

    def __exit__(self, *error: object) -> None:
        _gsprof.memory_pause(False)


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
        self._has_events = False

    def _start(self) -> None:
        self._by_engine = True
        if _memory.is_on():
            self._first_event()
            return
        was_on = _gsprof.is_on()
        try:
            _memory.start("exact")
            self._is_ours, self._is_agents_start_ours = True, not was_on
            self._first_event()
        except RuntimeError:
            self._by_engine = False
            if not tracemalloc.is_tracing():
                tracemalloc.start()
                self._is_ours = True

    def _first_event(self) -> None:
        if _gsprof.memory_mode() == "exact":
            self._has_events = True
            _gsprof.memory_events(EVENT_BYTES)

    def event(self) -> Optional[int]:
        """The number of the next allocation, for events(); None where they are not seen one by
        one."""
        return _gsprof.memory_events(EVENT_BYTES) if self._has_events else None

    def events(self, number: int) -> List[Tuple[int, int, int]]:
        """When, how many bytes and where, of allocations and (below 0) of frees since then."""
        with _Uncounted():
            return _gsprof.memory_events_since(number)

    def _stop(self) -> None:
        if self._has_events:
            _gsprof.memory_events(None)
            self._has_events = False
        if self._is_ours and self._by_engine:
            _memory.stop()
            if self._is_agents_start_ours:
                _gsprof.stop()
        elif self._is_ours:
            tracemalloc.stop()
        self._is_ours = self._is_agents_start_ours = False

    def _look(self) -> Look:
        if self._by_engine:
            return _counted()
        if not tracemalloc.is_tracing():
            return {}
        return {
            (found.traceback[0].filename, found.traceback[0].lineno): Counts(
                found.size, found.count, None, None
            )
            for found in tracemalloc.take_snapshot().statistics("lineno")
        }

    def begin(self) -> Look:
        """What so_far() and end() want to have back."""
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._start()
        with _Uncounted():
            return self._look()

    def so_far(self, before: Look) -> List[Change]:
        """The lines that allocated or freed since; not of gsprof's own."""
        with _Uncounted():
            return _compare(before, self._look())

    def end(self, before: Look) -> List[Change]:
        """The same, and the block is over."""
        changes = self.so_far(before)
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._stop()
        return changes


def _counted() -> Look:
    found: Look = {}
    for site in _memory.snapshot().sites:
        held_bytes, held_blocks, allocated, blocks = found.get(site.line, (0, 0, 0, 0))
        found[site.line] = Counts(
            held_bytes + site.live_bytes,
            held_blocks + site.live_count,
            (allocated or 0) + site.alloc_bytes,
            (blocks or 0) + site.alloc_count,
        )
    return found


@lru_cache(maxsize=4096)
def _is_own(file: str) -> bool:
    return file == tracemalloc.__file__ or os.path.abspath(file).startswith(_FOLDER)


def _more(now: Optional[int], before: Optional[int]) -> Optional[int]:
    return None if now is None else now - (before or 0)


def _compare(before: Look, after: Look) -> List[Change]:
    nothing = Counts(0, 0, 0, 0)
    changes = []
    for (file, line), now in after.items():
        old = before.get((file, line), nothing)
        if now == old or _is_own(file):
            continue
        changes.append(
            Change(
                file,
                line,
                now.held_bytes - old.held_bytes,
                now.held_blocks - old.held_blocks,
                _more(now.allocated_bytes, old.allocated_bytes),
                _more(now.allocated_blocks, old.allocated_blocks),
            )
        )
    return changes


def grown(changes: List[Change]) -> List[GrowthSite]:
    """The lines that hold more than before, the greatest first."""
    sites = [GrowthSite(*change[:4]) for change in changes if change.held_bytes >= _BYTES_MIN]
    sites.sort(key=lambda site: -site.bytes)
    return sites[:_SITES_MAX]


def busiest(changes: List[Change]) -> List[Change]:
    """The lines that allocated the most, the greatest first; where that is not known, those that
    hold the most."""

    def size(change: Change) -> int:
        known = change.allocated_bytes
        return change.held_bytes if known is None else known

    return sorted((change for change in changes if size(change) > 0), key=size, reverse=True)[
        :_SITES_MAX
    ]


def allocations(changes: List[Change]) -> Optional[int]:
    """How many blocks were allocated; None: not known."""
    counts = [change.allocated_blocks for change in changes]
    return None if None in counts else sum(max(0, count or 0) for count in counts)


TRACER = Tracer()
