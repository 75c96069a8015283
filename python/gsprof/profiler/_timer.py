# SPDX-License-Identifier: Apache-2.0
"""Times by name, measured by events on a GPU or by the host's clock."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from .. import _gsprof
from . import _device, _series, _text

Statistics = Dict[str, Any]


def _count(what: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{what} must be at least {least}, not {value}")
    return value


class CUDATimer(_gsprof.TimeRecorder):
    """Measures named parts of a program, in milliseconds.

    >>> timer = CUDATimer()
    >>> with timer.measure("forward_pass"):
    ...     total = sum(range(1000))
    >>> timer.get_elapsed("forward_pass") > 0
    True
    >>> timer.time(sum, range(1000))["count"]
    10

    `clock` names the clock: "torch.cuda" or "cuda driver" (events on the GPU), or "host". With
    synchronize, a measurement waits for the GPU before it begins and before it ends; without, the
    times are read when they are needed. Names may repeat and nest. Threads may share a timer."""

    def __init__(
        self,
        synchronize: bool = True,
        warmup: int = 3,
        repeat: int = 10,
        *,
        device: int = 0,
    ) -> None:
        self.synchronize = bool(synchronize)
        self.warmup = _count("warmup", warmup, 0)
        self.repeat = _count("repeat", repeat, 1)
        self._clock: Optional[_device.EventClock] = None
        self._found, events = _device.find_events(_count("device", device, 0))
        if events is not None:
            self._clock = _device.EventClock(events, self.synchronize)
            self._set_clock(self._clock)

    @property
    def clock(self) -> str:
        """The clock of the times: "torch.cuda", "cuda driver" or "host"."""
        return self._found if self._clock and self._clock.usable() else _device.HOST

    def _settle(self) -> None:
        if self._clock is not None:
            for name, took_ms, began_ns in self._clock.settle():
                self._add(name, took_ms, began_ns)

    def get_elapsed(self, name: str) -> float:
        """Returns the latest time of that name, in ms."""
        self._settle()
        stats = _series.raw(self, _series.TIMES, name)
        if stats["count"] == 0:
            raise ValueError(f"{name!r} has not ended yet")
        return float(stats["last"])

    def get_stats(self, name: str) -> Statistics:
        """Returns count, total, mean, std, min, max, median, p95, p99 and last, in ms.

        >>> timer = CUDATimer()
        >>> for _ in range(3):
        ...     with timer.measure("step"):
        ...         pass
        >>> timer.get_stats("step")["count"]
        3
        """
        self._settle()
        return _series.statistics(self, _series.TIMES, name)

    get_result = get_stats

    @property
    def results(self) -> Dict[str, Statistics]:
        """get_stats() of every name, in order of first use."""
        self._settle()
        return {name: self.get_stats(name) for name in self._names(_series.TIMES)}

    def time(self, func: Any, *args: Any, name: Optional[str] = None, **kwargs: Any) -> Any:
        """Calls func(*args, **kwargs) `warmup` times, then measures `repeat` calls and returns
        their statistics. If func is a str, it is measure(func)."""
        if isinstance(func, str):
            return self.measure(func)
        if not callable(func):
            raise TypeError(f"{type(func).__name__} is not callable")
        if name is None:
            name = str(getattr(func, "__qualname__", type(func).__name__))
        return self._iterate(name, lambda: func(*args, **kwargs), self.warmup, self.repeat)

    def time_iterations(
        self, name: str, func: Callable[[], Any], iterations: int = 100, warmup: int = 10
    ) -> Statistics:
        """Does the same as time(), with the given counts."""
        return self._iterate(
            name, func, _count("warmup", warmup, 0), _count("iterations", iterations, 1)
        )

    def _iterate(self, name: str, func: Callable[[], Any], warmup: int, repeat: int) -> Statistics:
        self._settle()
        for _ in range(warmup):
            func()
        # A separate recorder: the result must not include earlier measurements of this name.
        alone = _gsprof.Recorder()
        for _ in range(repeat):
            with self.measure(name) as timing:
                func()
            if timing.elapsed is not None:
                alone._add(name, timing.elapsed, 0)
        for known, took_ms, began_ns in self._clock.settle() if self._clock else ():
            self._add(known, took_ms, began_ns)
            if known == name:
                alone._add(name, took_ms, began_ns)
        return _series.statistics(alone, _series.TIMES, name)

    def clear(self) -> None:
        """Discards all measurements."""
        self._settle()
        self._clear()

    def summary(self) -> str:
        """Returns a table of all names."""
        keys = ("mean", "std", "min", "p95", "max")
        rows = []
        for name, stats in self.results.items():
            cells = [_text.milliseconds(stats[key]) for key in keys]
            rows.append([name, str(stats["count"]), *cells])
        return "\n".join([f"clock: {self.clock}", *_text.table(("name", "count", *keys), rows)])

    def __repr__(self) -> str:
        return f"<CUDATimer of {len(self._names(_series.TIMES))} names, clock: {self.clock}>"
