# SPDX-License-Identifier: Apache-2.0
"""Tracks the memory of the process, and of the device if there is one."""

from __future__ import annotations

import math
import pickle
from bisect import bisect_left
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from .. import _gsprof, _sites
from . import _device, _residence, _text

PROCESS = "process"
# Unexplained changes of resident memory below this are ignored: small blocks cause them.
_UNEXPLAINED_BYTES_MIN = 1 << 20


class _Sample(NamedTuple):
    """A sample of the extension: bytes, None if not known."""

    at_ns: int
    resident: Optional[int]
    reserved: Optional[int]
    device: Optional[int]
    nonfile: Optional[int]  # resident, without pages of files


def _greatest(*numbers: Optional[int]) -> Optional[int]:
    known = [number for number in numbers if number is not None]
    return max(known) if known else None


def _change(first: Optional[int], last: Optional[int]) -> Optional[int]:
    return None if first is None or last is None else last - first


def _rows(stats: Dict[str, Any]) -> List[List[str]]:
    """Returns the sites as rows of a table."""
    return [
        [
            _text.plain(f"{site['file']}:{site['line']}" if site["line"] else site["file"]),
            _text.byte_count(site["allocated_bytes"]),
            "-" if site["allocated_blocks"] is None else str(site["allocated_blocks"]),
            _text.byte_count(site["held_bytes"]),
        ]
        for site in stats["sites"]
    ]


class _TorchMemory:
    """PyTorch's own statistics of its memory on the device."""

    def __init__(self, torch: Any, device: int) -> None:
        self._cuda = torch.cuda
        self._device = device
        self._first_count = 0
        memory = getattr(torch.cuda, "memory", None)
        self.snapshot: Optional[Callable[[], Any]] = getattr(memory, "_snapshot", None)

    def begin(self) -> None:
        self._cuda.reset_peak_memory_stats(self._device)
        self._first_count = self._allocations()

    def _allocations(self) -> int:
        stats = self._cuda.memory_stats(self._device)
        return int(stats.get("allocation.all.allocated", 0))

    def allocated(self) -> int:
        return int(self._cuda.memory_allocated(self._device))

    def reserved(self) -> int:
        return int(self._cuda.memory_reserved(self._device))

    def peak_allocated(self) -> int:
        return int(self._cuda.max_memory_allocated(self._device))

    def peak_reserved(self) -> int:
        return int(self._cuda.max_memory_reserved(self._device))

    def count(self) -> int:
        return self._allocations() - self._first_count


class MemoryTracker:
    """Tracks memory while it is entered.

    >>> tracker = MemoryTracker(interval=10)
    >>> with tracker:
    ...     block = bytearray(32 << 20)
    >>> stats = tracker.get_stats()
    >>> stats["peak_allocated"] >= 32 << 20
    True
    >>> [event["action"] for event in tracker.get_allocation_timeline()][0]
    'start'

    `source` names the memory: "torch.cuda" (allocated by PyTorch on the device), "cuda driver" (in
    use on the device, by all processes) or "process". For a process, "allocated" is resident
    memory; "reserved" adds writable memory that was requested but not used yet. Names that begin
    with process_ are always about the process.

    With track_timeline a thread that never needs the GIL samples every `interval` ms; without it,
    only the start and the end are known. track_allocations provides the events of
    get_allocation_timeline(), and counts every allocation of the process by line; if memory is
    already counted (GSPROF_MEMORY, gsprof mem record), those counts are used."""

    def __init__(
        self,
        track_allocations: bool = True,
        track_timeline: bool = True,
        interval: float = 100,
        *,
        device: int = 0,
    ) -> None:
        if isinstance(interval, bool) or not isinstance(interval, (int, float)):
            raise TypeError(f"interval must be a number of ms, not {type(interval).__name__}")
        if not (math.isfinite(interval) and 0 < interval <= 3600000):
            raise ValueError(f"interval must be above 0 ms and at most an hour, not {interval}")
        self.track_allocations = bool(track_allocations)
        self.track_timeline = bool(track_timeline)
        self.interval = interval
        self._depth = 0
        self._torch: Optional[_TorchMemory] = None
        torch = _device.torch_cuda()
        driver = _device.find_driver(device)
        self.source = PROCESS
        if torch is not None:
            self._torch = _TorchMemory(torch, device)
            self.source = _device.TORCH
        elif driver is not None:
            self.source = _device.DRIVER
        self._driver = driver
        self._sampler = self._new_sampler()
        self._started = False
        self._start_allocated: Optional[int] = None
        self._end: Dict[str, Optional[int]] = {}
        self._before: _sites.Lines = {}
        self._changes: List[_sites.Change] = []
        self._first_event: Optional[int] = None
        self._seen: Optional[List[_residence.Event]] = None

    def _new_sampler(self) -> _gsprof.MemorySampler:
        if self._driver is None:
            return _gsprof.MemorySampler(self.interval)
        self._driver.enter()
        return _gsprof.MemorySampler(
            self.interval,
            self._driver.address("cuCtxSetCurrent"),
            self._driver.address("cuMemGetInfo_v2"),
            self._driver.context.value or 0,
        )

    def start(self) -> "MemoryTracker":
        """Starts tracking, as `with` does; discards earlier data."""
        self._depth += 1
        if self._depth == 1:
            if self._torch is not None:
                self._torch.begin()
                self._start_allocated = self._torch.allocated()
            self._started = True
            if self.track_allocations:
                # Before the sampler, so that the tracer's own tables do not count.
                self._before = _sites.TRACER.begin()
                self._first_event = _sites.TRACER.event()
                self._seen = None
            self._sampler.start(self.track_timeline)
        return self

    def stop(self) -> None:
        """Stops tracking; ValueError if it was not started."""
        if self._depth == 0:
            raise ValueError("stop() without start()")
        self._depth -= 1
        if self._depth == 0:
            self._sampler.stop()
            if self.track_allocations:
                self._seen = self._events_seen()
                self._changes = _sites.TRACER.end(self._before)
                self._before = {}
            if self._torch is not None:
                self._end = self._torch_now()

    def __enter__(self) -> "MemoryTracker":
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _torch_now(self) -> Dict[str, Optional[int]]:
        assert self._torch is not None
        return {
            "peak_allocated": self._torch.peak_allocated(),
            "peak_reserved": self._torch.peak_reserved(),
            "current_allocated": self._torch.allocated(),
            "current_reserved": self._torch.reserved(),
            "count": self._torch.count(),
        }

    def _samples(self) -> List[_Sample]:
        if not self._started:
            raise RuntimeError("nothing was tracked yet: use `with tracker:` around the code")
        samples = [_Sample(*sample) for sample in self._sampler.samples()]
        if self._depth > 0:
            at_ns, resident, reserved, _, nonfile = _gsprof.memory_now()
            device = self._driver.memory()[0] if self._driver is not None else None
            samples.append(_Sample(at_ns, resident, reserved, device, nonfile))
        return samples

    def _allocated(self, sample: _Sample) -> Optional[int]:
        return sample.resident if self.source == PROCESS else sample.device

    def _reserved(self, sample: _Sample) -> Optional[int]:
        return sample.reserved if self.source == PROCESS else sample.device

    def get_stats(self) -> Dict[str, Any]:
        """Returns, in bytes, peak_allocated, peak_reserved, current_allocated, current_reserved,
        start_allocated, change (from the start to now or to the end) and process_*; count, the
        number of allocations (of PyTorch, else of the process, else of rises in the samples);
        sites, the lines that allocated the most memory of the process, each with file, line,
        held_bytes and held_blocks (more than at the start), allocated_bytes and allocated_blocks
        (None: not known); source, samples and duration_ms. count and sites are None without
        track_allocations."""
        samples = self._samples()
        first, last = samples[0], samples[-1]
        peak = _Sample(*self._sampler.peak())
        found: Dict[str, Any] = {
            "source": self.source,
            "peak_allocated": _greatest(self._allocated(peak), self._allocated(last)),
            "peak_reserved": _greatest(self._reserved(peak), self._reserved(last)),
            "current_allocated": self._allocated(last),
            "current_reserved": self._reserved(last),
            "start_allocated": self._allocated(first),
            "count": None,
            "sites": None,
        }
        if self.track_allocations:
            changes = _sites.TRACER.so_far(self._before) if self._depth else self._changes
            found["count"] = self._count(samples, changes)
            found["sites"] = [change._asdict() for change in _sites.busiest(changes)]
        if self._torch is not None:
            found.update(self._torch_now() if self._depth else self._end)
            found["start_allocated"] = self._start_allocated
        found["change"] = _change(found["start_allocated"], found["current_allocated"])
        found["process_peak"] = _greatest(peak.resident, last.resident)
        found["process_current"] = last.resident
        found["process_start"] = first.resident
        found["samples"] = len(samples)
        found["duration_ms"] = (last.at_ns - first.at_ns) / 1e6
        return found

    def _count(self, samples: List[_Sample], changes: List[_sites.Change]) -> int:
        counted = _sites.allocations(changes) if self.source == PROCESS else None
        if counted is not None:
            return counted
        events = self._events(self._timeline(samples))
        return sum(1 for event in events if event["action"] == "alloc")

    def _timeline(self, samples: List[_Sample]) -> List[Dict[str, Any]]:
        return [
            {
                "time_ms": (sample.at_ns - samples[0].at_ns) / 1e6,
                "allocated": self._allocated(sample),
                "reserved": self._reserved(sample),
                "process": sample.resident,
            }
            for sample in samples
        ]

    def _events_seen(self) -> Optional[List[_residence.Event]]:
        """Returns the single allocations; None if only samples are known."""
        if self.source != PROCESS or self._first_event is None:
            return None
        if self._seen is not None:
            return self._seen
        return [_residence.Event(*event) for event in _sites.TRACER.events(self._first_event)]

    def _events(self, timeline: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """Derives events from the samples."""
        events: List[Dict[str, Any]] = []
        before: Optional[int] = None
        is_going_on = False
        for sample in timeline:
            size = _change(before, sample["allocated"])
            before = sample["allocated"] if sample["allocated"] is not None else before
            if events and not size:
                is_going_on = False
                continue
            action = "start" if not events else "alloc" if (size or 0) > 0 else "free"
            # A process touches the pages of one block over several samples.
            if is_going_on and action == events[-1]["action"] and self.source == PROCESS:
                began_ms, sum_bytes = events[-1]["time_ms"], events[-1]["size"]
                events[-1] = {**events[-1], **sample, "time_ms": began_ms}
                events[-1]["size"] = sum_bytes + abs(size or 0)
            else:
                size = abs(size or 0)
                is_going_on = bool(events)
                events.append({**sample, "action": action, "size": size, "exact": False})
        return events

    def _merged(self, samples: List[_Sample], seen: List[_residence.Event]) -> List[Dict[str, Any]]:
        """Merges the single allocations with those changes in the samples that no allocation
        explains: memory mapped by the interpreter itself, and small blocks. Pages of files do not
        count: the kernel loads and drops the code of libraries at any time."""
        timeline = self._timeline(samples)
        times = [sample.at_ns for sample in samples]
        resident = [
            sample.resident if sample.nonfile is None else sample.nonfile for sample in samples
        ]
        unexplained = _residence.unexplained(times, resident, seen)
        events = [{**timeline[0], "action": "start", "size": 0, "exact": True}]
        changes = [(event.at_ns, event.size, True) for event in seen]
        changes += [
            (ns, size, False)
            for ns, size in zip(times, unexplained)
            if abs(size) >= _UNEXPLAINED_BYTES_MIN
        ]
        # At the same time, allocations come before changes of samples.
        changes.sort(key=lambda event: (event[0], not event[2]))
        for at_ns, size, is_exact in changes:
            if not times[0] <= at_ns <= times[-1]:
                continue
            # "allocated" and "reserved" are of the sample before.
            then = timeline[max(0, bisect_left(times, at_ns) - 1)]
            event = {
                "time_ms": (at_ns - times[0]) / 1e6,
                "action": "alloc" if size > 0 else "free",
                "size": abs(size),
                "exact": is_exact,
            }
            events.append({**then, **event})
        return events

    def get_timeline(self) -> List[Dict[str, Any]]:
        """Returns every sample: time_ms since the start; allocated, reserved, process in bytes."""
        return self._timeline(self._samples())

    def get_allocation_timeline(self) -> List[Dict[str, Any]]:
        """Returns allocations and frees, each with time_ms, action ("start", "alloc", "free"),
        size, allocated and reserved of the last sample before, and exact. For a process, every
        allocation of 64 KiB or more is an event, and so is its free; changes of resident memory
        (without pages of files) that they do not explain are events derived from samples, with
        exact False. All events of a device are derived from samples, and those of an interpreter in
        which single allocations are not recorded; there, a rise over several samples is one event.
        Without track_allocations, returns the samples."""
        samples = self._samples()
        if not self.track_allocations:
            return self._timeline(samples)
        seen = self._events_seen()
        return (
            self._events(self._timeline(samples)) if seen is None else self._merged(samples, seen)
        )

    def save_device_snapshot(self, path: _text.Path) -> None:
        """Writes the segments and blocks of PyTorch's allocator as a pickle for PyTorch's memory
        viewer, with the stacks of allocations if torch.cuda.memory._record_memory_history() was
        called before. Raises RuntimeError if PyTorch uses no device or has no snapshots."""
        snapshot = None if self._torch is None else self._torch.snapshot
        if snapshot is None:
            raise RuntimeError("no snapshot: PyTorch uses no device, or does not support snapshots")
        content = pickle.dumps(snapshot())
        with open(path, "wb") as file:
            file.write(content)

    def clear(self) -> None:
        """Discards all data; RuntimeError while it is entered."""
        if self._depth:
            raise RuntimeError("the tracker is entered")
        self._sampler = self._new_sampler()
        self._started = False
        self._changes = []
        self._first_event = self._seen = None

    def summary(self) -> str:
        stats = self.get_stats()
        rows = []
        for key in (
            "peak_allocated",
            "peak_reserved",
            "current_allocated",
            "current_reserved",
            "change",
            "process_peak",
            "process_current",
        ):
            rows.append([key.replace("_", " "), _text.byte_count(stats[key])])
        rows.append(["allocations", "-" if stats["count"] is None else str(stats["count"])])
        took = _text.milliseconds(stats["duration_ms"])
        head = f"memory ({stats['source']}), {stats['samples']} samples in {took}"
        lines = [head, *_text.table(("what", "bytes"), rows)]
        if stats["sites"]:
            lines += ["", *_text.table(("allocated at", "bytes", "blocks", "held"), _rows(stats))]
        return "\n".join(lines)

    def print_summary(self) -> None:
        print(self.summary())
