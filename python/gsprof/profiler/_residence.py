# SPDX-License-Identifier: Apache-2.0
"""Finds changes of resident memory that the known allocations do not explain."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from typing import Dict, List, NamedTuple, Optional, Sequence


class Event(NamedTuple):
    """An allocation, or a free if size is negative."""

    at_ns: int
    size: int
    address: int


def _pages(size: int) -> int:
    """Returns the most bytes that a block and its header can have resident."""
    return (size // mmap.PAGESIZE + 2) * mmap.PAGESIZE


class _Account:
    """Pages become resident when they are touched, possibly long after the allocation; after a free
    the allocator may keep them. So the account has two upper bounds: live bytes not yet touched,
    which may explain a rise, and freed bytes still resident, which may explain a fall."""

    def __init__(self) -> None:
        self._untouched = 0
        self._kept = 0
        self._sizes: Dict[int, int] = {}
        self._live = 0
        # Most live bytes since the last sample: a block may be freed before the next one.
        self._most_live = 0
        # Change of resident memory that known blocks have explained so far.
        self._explained = 0
        # Bytes of known blocks that may have been resident at the first sample; not in _explained.
        self._older = 0

    def _remove(self, event: Event) -> bool:
        whole = self._sizes.pop(event.address, None)
        if whole is None:
            return False
        self._live -= _pages(whole)
        if 0 < -event.size < whole:
            # munmap() of the first part.
            self._sizes[event.address - event.size] = whole + event.size
            self._live += _pages(whole + event.size)
        return True

    def add(self, event: Event, is_early: bool) -> None:
        """Adds the next event; is_early: it is not later than the first sample."""
        is_known = self._remove(event)
        size = _pages(abs(event.size))
        if event.size > 0:
            self._sizes[event.address] = event.size
            self._live += size
            self._most_live = max(self._most_live, self._live)
            self._untouched += size
        else:
            self._kept += size
        if is_early if event.size > 0 else not is_known:
            self._older += size

    def unexplained(self, change: int, allocated_next: int, freed_next: int) -> int:
        """Returns the unexplained part of a change between two samples; the events up to the second
        have been added. The second sample may include later events up to the third, so those
        explain too."""
        if change > 0:
            explained = min(change, max(0, self._untouched + allocated_next))
            self._untouched -= explained
        else:
            explained = max(change, -max(0, self._kept + freed_next))
            self._kept += explained
        self._explained += explained
        self._untouched = min(self._untouched, self._most_live)
        self._kept = min(self._kept, max(0, self._explained + self._older))
        self._most_live = self._live
        return change - explained


def unexplained(
    times_ns: Sequence[int], resident: Sequence[Optional[int]], events: Sequence[Event]
) -> List[int]:
    """Returns, for each sample, the change of resident memory since the previous one that no event
    explains."""
    account = _Account()
    found = []
    event_times = [event.at_ns for event in events]
    # Number of events up to each sample, then of all events.
    ends = [bisect_right(event_times, at_ns) for at_ns in times_ns] + [len(events)]
    before: Optional[int] = None
    first = 0
    for now, end, end_of_next in zip(resident, ends, ends[1:]):
        for event in events[first:end]:
            account.add(event, is_early=before is None)
        first = end
        sizes = [event.size for event in events[end:end_of_next]]
        if before is None or now is None:
            found.append(0)
        else:
            allocated = sum(_pages(size) for size in sizes if size > 0)
            freed = sum(_pages(-size) for size in sizes if size < 0)
            found.append(account.unexplained(now - before, allocated, freed))
        before = before if now is None else now
    return found
