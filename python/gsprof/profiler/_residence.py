# SPDX-License-Identifier: Apache-2.0
"""Which changes of resident memory the known allocations cannot explain."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from typing import Dict, List, NamedTuple, Optional, Sequence


class Event(NamedTuple):
    """An allocation, or with a size below 0 a free, as the extension gives it."""

    at_ns: int
    size: int
    address: int


def _pages(size: int) -> int:
    """The most that a block and its allocator's head can have resident."""
    return (size // mmap.PAGESIZE + 2) * mmap.PAGESIZE


class _Account:
    """Pages are resident once they are touched, which can be long after the allocation; after the
    free they stay as long as the allocator likes.  So two sums are held, each at the most that it
    can be: live bytes that may yet be touched explain a rise, freed bytes that may still be
    resident explain a fall."""

    def __init__(self) -> None:
        self._untouched = 0
        self._kept = 0
        self._sizes: Dict[int, int] = {}
        self._live = 0
        # Since the last sample: a block may be over before the next.
        self._most_live = 0
        # By how much known blocks changed resident memory so far.
        self._explained = 0
        # Of known blocks that may have been resident at the first sample, which are not in that.
        self._older = 0

    def _forget(self, event: Event) -> bool:
        whole = self._sizes.pop(event.address, None)
        if whole is None:
            return False
        self._live -= _pages(whole)
        if 0 < -event.size < whole:
            # munmap() of the first part.
            self._sizes[event.address - event.size] = whole + event.size
            self._live += _pages(whole + event.size)
        return True

    def take(self, event: Event, is_early: bool) -> None:
        """Each event, in order; early are those up to the first sample."""
        is_known = self._forget(event)
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
        """Of a change between two samples, after the events up to the second.  That may have seen
        what events did up to the third, so they lend."""
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
    """For each sample, by how much resident memory changed since the one before that no event
    explains."""
    account = _Account()
    found = []
    event_times = [event.at_ns for event in events]
    # Events up to the first sample, up to the second and so on; those after the last are its next.
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
