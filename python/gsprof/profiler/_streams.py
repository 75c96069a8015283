# SPDX-License-Identifier: Apache-2.0
"""Measures how much each GPU stream is busy, and how much the streams overlap."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _device, _text


class _Work(NamedTuple):
    stream: int
    begin: Any
    end: Any


class _HostEvents:
    """The host's clock, with the interface of GPU events."""

    def record(self, stream: int = 0) -> int:
        del stream
        return time.monotonic_ns()

    def seconds(self, begin: int, end: int) -> float:
        return (end - begin) / 1e9

    def wait(self) -> None:
        pass


class _Watched:
    """The profilers that are entered, and the original methods of PyTorch's StreamContext."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.profilers: List["StreamProfiler"] = []
        self.original: Optional[Tuple[Any, Any, Any]] = None


_watched = _Watched()


def _watch(context: Any) -> None:
    """Makes `with torch.cuda.stream(s):` notify the profilers that are entered."""
    enter, leave = context.__enter__, context.__exit__

    def watched_enter(self: Any) -> Any:
        result = enter(self)
        self._gsprof_work = [
            (profiler, profiler._begin(getattr(self, "stream", None)))
            for profiler in list(_watched.profilers)
        ]
        return result

    def watched_exit(self: Any, *error: Any) -> Any:
        for profiler, work in reversed(getattr(self, "_gsprof_work", ())):
            profiler._end(work)
        self._gsprof_work = []
        return leave(self, *error)

    _watched.original = (context, enter, leave)
    context.__enter__, context.__exit__ = watched_enter, watched_exit


def _unwatch() -> None:
    if _watched.original is not None:
        context, enter, leave = _watched.original
        context.__enter__, context.__exit__ = enter, leave
        _watched.original = None


class _Use:
    """A context manager for one piece of work on a stream."""

    def __init__(self, profiler: "StreamProfiler", number: int) -> None:
        self._profiler = profiler
        self._number = number
        self._work: Any = None

    def __enter__(self) -> Any:
        handle = self._profiler.handle(self._number)
        self._work = self._profiler._begin_on(self._number, handle)
        return handle

    def __exit__(self, *error: object) -> None:
        self._profiler._end(self._work)


class StreamProfiler:
    """Measures when each stream is busy.

    >>> profiler = StreamProfiler(num_streams=2)
    >>> with profiler:
    ...     first = profiler.submit(0, sum, range(100000))
    ...     second = profiler.submit(1, sum, range(100000))
    >>> first.result() == second.result()
    True
    >>> stats = profiler.get_stats()
    >>> [stream["tasks"] for stream in stats["streams"]]
    [1, 1]

    While it is entered, every `with torch.cuda.stream(s):` is timed by events on that stream.
    Without PyTorch, `with profiler.stream(number) as handle:` provides a stream of the driver and
    times the block. Without a GPU, streams are threads: submit() starts one for each stream, and
    the host's clock measures. `clock` names the clock."""

    def __init__(self, num_streams: int = 4, *, device: int = 0) -> None:
        if isinstance(num_streams, bool) or not isinstance(num_streams, int):
            raise TypeError(f"num_streams must be an int, not {type(num_streams).__name__}")
        if num_streams < 1:
            raise ValueError(f"num_streams must be at least 1, not {num_streams}")
        self.num_streams = num_streams
        self.clock, events = _device.find_events(device)
        self._events: Any = _HostEvents() if events is None else events
        self._lock = threading.Lock()
        self._depth = 0
        self._work: List[_Work] = []
        self._numbers: Dict[object, int] = {}
        self._kept: List[Any] = []
        self._handles: Dict[int, Any] = {}
        self._threads: Dict[int, ThreadPoolExecutor] = {}
        self._first: Any = None
        self._wall: Optional[_Work] = None

    # ------------------------------------------------------------------- measuring

    def __enter__(self) -> "StreamProfiler":
        self._depth += 1
        if self._depth > 1:
            return self
        with self._lock:
            self._work, self._numbers, self._kept = [], {}, []
        torch = sys.modules.get("torch")
        context = getattr(getattr(torch, "cuda", None), "StreamContext", None)
        with _watched.lock:
            if context is not None and not _watched.profilers:
                _watch(context)
            _watched.profilers = [*_watched.profilers, self]
        self._events.wait()
        self._wall = None
        self._first = self._events.record()
        return self

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth > 0:
            return
        threads, self._threads = self._threads, {}
        for pool in threads.values():
            pool.shutdown(wait=True)
        self._events.wait()
        last = self._events.record()
        self._events.wait()
        self._wall = _Work(-1, self._first, last)
        with _watched.lock:
            _watched.profilers = [one for one in _watched.profilers if one is not self]
            if not _watched.profilers:
                _unwatch()

    def _number_of(self, stream: Any) -> int:
        """Numbers streams in order of first use; the handle identifies one, else the object."""
        key: object = getattr(stream, "cuda_stream", None)
        if key is None:
            key = id(stream)
            self._kept.append(stream)  # keeps its id from being reused
        with self._lock:
            return self._numbers.setdefault(key, len(self._numbers))

    def _record(self, handle: Any) -> Any:
        if self.clock == _device.DRIVER:
            return self._events.record(handle or 0)
        # PyTorch records the event on the current stream, which is this one.
        return self._events.record()

    def _begin_on(self, number: int, handle: Any) -> Tuple[int, Any, Any]:
        return number, handle, self._record(handle)

    def _begin(self, stream: Any) -> Tuple[int, Any, Any]:
        handle = getattr(stream, "cuda_stream", 0)
        return self._begin_on(self._number_of(stream), handle)

    def _end(self, work: Tuple[int, Any, Any]) -> None:
        number, handle, begin = work
        done = _Work(number, begin, self._record(handle))
        with self._lock:
            self._work.append(done)

    def _check(self, number: object) -> int:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"a stream number must be an int, not {type(number).__name__}")
        if not 0 <= number < self.num_streams:
            raise ValueError(f"stream {number} does not exist: {self.num_streams} streams, from 0")
        return number

    def handle(self, number: int) -> Any:
        """Returns the driver's handle of a stream; None without a driver."""
        self._check(number)
        if self.clock != _device.DRIVER:
            return None
        with self._lock:
            if number not in self._handles:
                self._handles[number] = self._events.driver.new_stream()
            return self._handles[number]

    def stream(self, number: int) -> Any:
        """Returns a context manager that assigns its block to that stream."""
        return _Use(self, self._check(number))

    def submit(self, number: int, func: Callable[..., Any], *args: Any) -> "Future[Any]":
        """Calls func(*args) on that stream. Without a GPU it runs in the stream's thread, and
        leaving the profiler waits for it; with a GPU it is called directly, since it only queues
        work."""
        self._check(number)
        if not self._depth:
            raise RuntimeError("the profiler is not entered: use `with profiler:`")

        def work() -> Any:
            with self.stream(number):
                return func(*args)

        if self.clock == _device.HOST:
            with self._lock:
                if number not in self._threads:
                    self._threads[number] = ThreadPoolExecutor(1, f"stream {number}")
                return self._threads[number].submit(work)
        done: "Future[Any]" = Future()
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)
        return done

    # --------------------------------------------------------------------- results

    def _intervals(self) -> List[Tuple[int, float, float]]:
        """Returns stream, start and end of each piece of work, in ms since the start."""
        with self._lock:
            work = list(self._work)
        found = []
        for one in work:
            begin_ms = self._events.seconds(self._first, one.begin) * 1e3
            took_ms = self._events.seconds(one.begin, one.end) * 1e3
            found.append((one.stream, begin_ms, begin_ms + took_ms))
        return found

    def get_stats(self) -> Dict[str, Any]:
        """Returns wall_ms; streams, each with tasks, busy_ms and utilization; active_ms (at least
        one stream busy), overlap_ms (at least two), overlap (its share of the active time),
        concurrency (mean number of busy streams while any was) and efficiency (busy share of all
        streams).

        Raises RuntimeError while the profiler is entered, and before."""
        if self._wall is None:
            raise RuntimeError("nothing was profiled yet: use `with profiler:` around the code")
        intervals = self._intervals()
        wall_ms = self._events.seconds(self._wall.begin, self._wall.end) * 1e3
        count = max([self.num_streams, *(stream + 1 for stream, _, _ in intervals)])
        streams = []
        for number in range(count):
            own = [(begin, end) for stream, begin, end in intervals if stream == number]
            busy_ms = covered(own)[0]
            share = busy_ms / wall_ms if wall_ms > 0 else 0.0
            streams.append(
                {"stream": number, "tasks": len(own), "busy_ms": busy_ms, "utilization": share}
            )
        merged: List[Tuple[float, float]] = []
        for number in range(count):
            merged += covered_parts([(b, e) for s, b, e in intervals if s == number])
        active_ms, overlap_ms = covered(merged)
        busy_ms = sum(stream["busy_ms"] for stream in streams)
        return {
            "clock": self.clock,
            "wall_ms": wall_ms,
            "streams": streams,
            "busy_ms": busy_ms,
            "active_ms": active_ms,
            "overlap_ms": overlap_ms,
            "overlap": overlap_ms / active_ms if active_ms > 0 else 0.0,
            "concurrency": busy_ms / active_ms if active_ms > 0 else 0.0,
            "efficiency": busy_ms / (wall_ms * count) if wall_ms > 0 else 0.0,
        }

    def summary(self) -> str:
        stats = self.get_stats()
        rows = [
            [
                f"stream {stream['stream']}",
                str(stream["tasks"]),
                _text.milliseconds(stream["busy_ms"]),
                _text.percent(stream["utilization"]),
            ]
            for stream in stats["streams"]
        ]
        return "\n".join(
            [
                f"{_text.milliseconds(stats['wall_ms'])}, clock: {stats['clock']}",
                *_text.table(("stream", "tasks", "busy", "share"), rows),
                f"overlap: {_text.percent(stats['overlap'])} of the active time; "
                f"{stats['concurrency']:.2f} streams busy on average",
                f"efficiency: {_text.percent(stats['efficiency'])} of all streams' time",
            ]
        )

    def print_stream_efficiency(self) -> None:
        print(self.summary())


def covered_parts(intervals: Sequence[Tuple[float, float]]) -> List[Tuple[float, float]]:
    """Returns the union of the intervals, as disjoint intervals.

    >>> covered_parts([(5, 6), (0, 2), (1, 3)])
    [(0, 3), (5, 6)]
    """
    found: List[Tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def covered(intervals: Sequence[Tuple[float, float]]) -> Tuple[float, float]:
    """Returns the lengths covered by at least one and by at least two intervals.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    (4.0, 1.0)
    """
    edges = sorted([(begin, 1) for begin, _ in intervals] + [(end, -1) for _, end in intervals])
    once, twice, depth, last = 0.0, 0.0, 0, 0.0
    for at, step in edges:
        once += at - last if depth >= 1 else 0.0
        twice += at - last if depth >= 2 else 0.0
        depth, last = depth + step, at
    return once, twice
