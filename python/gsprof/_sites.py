# SPDX-License-Identifier: Apache-2.0
"""Finds the lines that allocate within a block, and those that hold more memory at its end."""

from __future__ import annotations

import os
import threading
import tracemalloc
from functools import lru_cache
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import _gsprof, _memory

_SITES_MAX = 10
# Less is noise, such as a cache of regular expressions.
_BYTES_MIN = 4096
# Least size of an allocation that is an event of the timeline.
EVENT_BYTES = 64 << 10
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


class Counts(NamedTuple):
    """Counters of one line: live memory, and all allocations so far. The latter are None with
    tracemalloc, which drops freed blocks."""

    held_bytes: int
    held_blocks: int
    allocated_bytes: Optional[int]
    allocated_blocks: Optional[int]


Lines = Dict[Tuple[str, int], Counts]


class Change(NamedTuple):
    """A line's allocations within a block, and the change of its live memory."""

    file: str
    line: int
    held_bytes: int
    held_blocks: int
    allocated_bytes: Optional[int]
    allocated_blocks: Optional[int]


class GrowthSite(NamedTuple):
    """A line of the program, and the memory it holds more than before."""

    file: str
    line: int
    bytes: int
    blocks: int


class _Uncounted:
    """Excludes this thread's allocations from the counts."""

    def __enter__(self) -> None:
        _gsprof.memory_pause(True)

    def __exit__(self, *error: object) -> None:
        _gsprof.memory_pause(False)


class Tracer:
    """Counts allocations of Python and of libraries with the memory engine, or with tracemalloc if
    the engine cannot start (unsupported interpreter, no shared memory). All blocks share one; it
    runs while a block is open, and longer if it was already running."""

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
        """Returns the number of the next allocation, for events(); None if single allocations are
        not recorded."""
        return _gsprof.memory_events(EVENT_BYTES) if self._has_events else None

    def events(self, number: int) -> List[Tuple[int, int, int]]:
        """Returns time, size and address of the allocations since then, and of the frees, with a
        negative size."""
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

    def _read(self) -> Lines:
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

    def begin(self) -> Lines:
        """Returns the counters that so_far() and end() compare with."""
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._start()
        with _Uncounted():
            return self._read()

    def so_far(self, before: Lines) -> List[Change]:
        """Returns the lines that have allocated or freed since, without gsprof's own."""
        with _Uncounted():
            return _compare(before, self._read())

    def end(self, before: Lines) -> List[Change]:
        """Ends the block; returns the same as so_far()."""
        changes = self.so_far(before)
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._stop()
        return changes


def _counted() -> Lines:
    found: Lines = {}
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


def _compare(before: Lines, after: Lines) -> List[Change]:
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
    """Returns the lines that hold more than before, greatest first."""
    sites = [GrowthSite(*change[:4]) for change in changes if change.held_bytes >= _BYTES_MIN]
    sites.sort(key=lambda site: -site.bytes)
    return sites[:_SITES_MAX]


def busiest(changes: List[Change]) -> List[Change]:
    """Returns the lines that allocated the most, greatest first; if that is not known, those that
    hold the most."""

    def size(change: Change) -> int:
        known = change.allocated_bytes
        return change.held_bytes if known is None else known

    return sorted((change for change in changes if size(change) > 0), key=size, reverse=True)[
        :_SITES_MAX
    ]


def allocations(changes: List[Change]) -> Optional[int]:
    """Returns the number of blocks allocated, None if not known."""
    counts = [change.allocated_blocks for change in changes]
    return None if None in counts else sum(max(0, count or 0) for count in counts)


TRACER = Tracer()
