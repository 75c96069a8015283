# SPDX-License-Identifier: Apache-2.0
"""PerformanceProfiler measures blocks of code."""

from __future__ import annotations

import math
import os
import threading
from typing import Any, Dict, List, Optional, Tuple, Union

from .. import _gsprof, _sites
from .._spans import wrap
from . import _lines, _trend
from ._blas import BlasBlock
from ._flops import FlopBlock
from ._metrics import (
    ComputeMetrics,
    EnergyMetrics,
    MemoryMetrics,
    PerformanceMetrics,
    SystemMetrics,
    TimingMetrics,
)

_MB = float(1 << 20)
_JOULES_PER_KWH = 3.6e6
# About the carbon intensity of the world's electricity around 2023.
_WORLD_G_PER_KWH = 475.0
# First interval of memory samples if leaks are tested for, or if the kernel's high-water mark
# cannot be reset. The interval grows to memory_interval during a block, so that short blocks are
# resolved too.
_FIRST_INTERVAL_S = 0.001
_RESET_FILE = "/proc/self/clear_refs"


def _check_bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return value


def _check_number(name: str, value: object, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not math.isfinite(value) or value < least:
        raise ValueError(f"{name} must be at least {least:g}, not {value!r}")
    return float(value)


class PerformanceProfiler:
    """Measures blocks of code. Disabled measurements cost nothing; a thread that never needs the
    GIL does the sampling.

    >>> profiler = PerformanceProfiler(track_gpu=False)
    >>> with profiler.profile("sum"):
    ...     total = sum(range(1000))
    >>> profiler.get_metrics("sum").timing.wall_time_s > 0
    True
    >>> list(profiler.get_timing_breakdown())
    ['sum']
    """

    def __init__(
        self,
        track_gpu: bool = True,
        track_carbon: bool = False,
        detailed_memory: bool = False,
        memory_interval: float = 0.5,
        enable_line_profiling: bool = False,
        estimate_flops: bool = False,
        *,
        carbon_intensity_g_per_kwh: float = _WORLD_G_PER_KWH,
        cpu_tdp_watts: Optional[float] = None,
        reset_peak: bool = True,
    ) -> None:
        """memory_interval is in seconds. cpu_tdp_watts, of all processors, improves the estimate of
        energy on machines without counters. reset_peak lets a block reset the kernel's high-water
        mark of resident memory, which makes the block's peak exact."""
        self.track_gpu = _check_bool("track_gpu", track_gpu)
        self.track_carbon = _check_bool("track_carbon", track_carbon)
        self.detailed_memory = _check_bool("detailed_memory", detailed_memory)
        self.memory_interval = _check_number("memory_interval", memory_interval, 0.001)
        self.enable_line_profiling = _check_bool("enable_line_profiling", enable_line_profiling)
        self.estimate_flops = _check_bool("estimate_flops", estimate_flops)
        self.carbon_intensity_g_per_kwh = _check_number(
            "carbon_intensity_g_per_kwh", carbon_intensity_g_per_kwh, 0.0
        )
        tdp = 0.0
        if cpu_tdp_watts is not None:
            tdp = _check_number("cpu_tdp_watts", cpu_tdp_watts, 0.001)
        self.reset_peak = _check_bool("reset_peak", reset_peak)
        is_exact = self.reset_peak and os.access(_RESET_FILE, os.W_OK)
        first = min(_FIRST_INTERVAL_S, self.memory_interval)
        if is_exact and not self.detailed_memory:
            first = self.memory_interval
        self._sampler = _gsprof.Sampler(self.memory_interval, first, self.track_gpu, tdp, is_exact)
        self._lock = threading.Lock()
        self._last: Dict[str, PerformanceMetrics] = {}
        self._total_s: Dict[str, float] = {}
        self._newest: Optional[str] = None
        self._open: List[_Running] = []

    def profile(self, operation_name: str) -> "_Block":
        """Returns a block for `with` or `async with`; also a decorator for any kind of function.

        >>> profiler = PerformanceProfiler(track_gpu=False)
        >>> @profiler.profile("double")
        ... def double(x):
        ...     return 2 * x
        >>> double(4)
        8
        >>> profiler.has_results()
        True
        """
        if not isinstance(operation_name, str):
            raise TypeError(f"operation_name must be a str, not {operation_name!r}")
        return _Block(self, operation_name)

    def get_metrics(self, operation_name: Optional[str] = None) -> PerformanceMetrics:
        """Returns the metrics of the last block of that name, or of the block that ended last. If
        none has ended, those of a running block so far."""
        with self._lock:
            name = self._newest if operation_name is None else operation_name
            found = None if name is None else self._last.get(name)
            running = [
                block for block in self._open if operation_name in (None, block.operation_name)
            ]
            known = sorted({*self._last, *(block.operation_name for block in self._open)})
        if found is not None:
            return found
        if running:
            return running[-1].so_far()
        if operation_name is None:
            raise RuntimeError("nothing was profiled: use `with profiler.profile(name):` first")
        if not isinstance(operation_name, str):
            raise TypeError(f"operation_name must be a str or None, not {operation_name!r}")
        listed = ", ".join(repr(one) for one in known[:20]) or "none"
        more = ", ..." if len(known) > 20 else ""
        raise KeyError(f"no operation {operation_name!r} was profiled; known: {listed}{more}")

    def get_timing_breakdown(self) -> Dict[str, float]:
        """Returns seconds by operation, summed over its blocks, in order of first end."""
        with self._lock:
            return dict(self._total_s)

    def has_results(self) -> bool:
        """Whether a block has ended, with or without an exception."""
        with self._lock:
            return bool(self._last)

    def get_current_memory(self) -> float:
        """Returns the resident memory of this process, in MB of 2**20 bytes."""
        resident = _gsprof.memory_now()[1]
        if resident is None:
            raise RuntimeError("/proc/self/statm cannot be read")
        return float(resident) / _MB

    def get_current_gpu_memory(self) -> float:
        """Returns the used share of the fullest GPU's memory, from 0 to 1, by all processes; 0.0
        without a GPU or if track_gpu is off."""
        share: Optional[float] = self._sampler.gpu_share()
        return 0.0 if share is None else share

    def _opened(self, block: "_Running") -> None:
        with self._lock:
            self._open.append(block)

    def _ended(self, block: "_Running", metrics: PerformanceMetrics) -> None:
        with self._lock:
            if block in self._open:
                self._open.remove(block)
            self._last[metrics.name] = metrics
            self._newest = metrics.name
            total = self._total_s.get(metrics.name, 0.0)
            self._total_s[metrics.name] = total + metrics.timing.wall_time_s


class _Block:
    """The result of profile(). It may be entered several times, also while it is open."""

    def __init__(self, profiler: PerformanceProfiler, operation_name: str) -> None:
        self._profiler = profiler
        self._name = operation_name
        self._running: List[_Running] = []

    def __enter__(self) -> PerformanceProfiler:
        running = _Running(self._profiler, self._name)
        self._running.append(running)
        running.begin()
        return self._profiler

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if not self._running:
            raise RuntimeError(f"the block {self._name!r} was not entered")
        self._running.pop().end(error)

    async def __aenter__(self) -> PerformanceProfiler:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        self.__exit__(kind, error, trace)

    def again(self) -> "_Block":
        """Returns a new block, for a call of a decorated function."""
        return _Block(self._profiler, self._name)

    def __call__(self, function: Any) -> Any:
        return wrap(self, function)  # type: ignore[arg-type]


class _Running:
    """A block between begin() and end()."""

    def __init__(self, profiler: PerformanceProfiler, operation_name: str) -> None:
        self.operation_name = operation_name
        self._profiler = profiler
        self._sampler = profiler._sampler
        self._began = b""
        self._flops: Tuple[Union[FlopBlock, BlasBlock], ...] = ()
        if profiler.estimate_flops:
            self._flops = FlopBlock(), BlasBlock()
        self._sites: Any = None
        self._lines: Any = None

    def begin(self) -> None:
        profiler = self._profiler
        if profiler.detailed_memory:
            self._sites = _sites.TRACER.begin()
        for counter in self._flops:
            counter.begin()
        profiler._opened(self)
        self._began = self._sampler.begin()
        if profiler.enable_line_profiling:
            self._lines = _lines.TRACER.begin()

    def so_far(self) -> PerformanceMetrics:
        """Returns the metrics so far, without those that need the end of the block."""
        return self._metrics(self._sampler.so_far(self._began))

    def end(self, error: Optional[BaseException]) -> None:
        profiler = self._profiler
        lines = None if self._lines is None else _lines.TRACER.end(self._lines)
        points = self._sampler.memory(self._began) if profiler.detailed_memory else []
        seen = self._sampler.end(self._began)
        flops = _together([counter.end() for counter in self._flops])
        sites = [] if self._sites is None else _sites.grown(_sites.TRACER.end(self._sites))
        metrics = self._metrics(
            seen,
            flops=flops,
            lines=lines,
            sites=sites,
            trend=_trend.judge(points),
            error=None if error is None else repr(error),
        )
        profiler._ended(self, metrics)

    def _metrics(
        self,
        seen: Dict[str, Any],
        flops: Optional[Dict[str, int]] = None,
        lines: Optional[_lines.LineStats] = None,
        sites: Any = (),
        trend: Any = None,
        error: Optional[str] = None,
    ) -> PerformanceMetrics:
        wall_s: float = seen["wall_s"]
        cpu_s: float = seen["user_s"] + seen["system_s"]
        total = None if flops is None else sum(flops.values())
        growth = None if trend is None else trend.bytes_per_s
        return PerformanceMetrics(
            name=self.operation_name,
            memory=MemoryMetrics(
                initial_ram_mb=_mb(seen.get("first_bytes")),
                peak_ram_mb=_mb(seen.get("peak_bytes")),
                final_ram_mb=_mb(seen.get("last_bytes")),
                peak_gpu_mb=_mb(seen.get("gpu_peak_bytes")) if self._profiler.track_gpu else None,
                memory_leak_detected=None if trend is None else trend.is_growing,
                growth_mb_per_s=_mb(growth),
                growth_sites=list(sites),
            ),
            timing=TimingMetrics(wall_s, cpu_s, seen["user_s"], seen["system_s"]),
            compute=ComputeMetrics(
                estimated_flops=total,
                flops_per_second=total / wall_s if total is not None and wall_s > 0 else None,
                gpu_utilization_percent=(
                    seen.get("gpu_util_pct") if self._profiler.track_gpu else None
                ),
                cpu_utilization_percent=_cpu_percent(cpu_s, wall_s, seen.get("cores")),
                flops_by_operator=flops or {},
            ),
            system=SystemMetrics(
                cpu_percent=seen.get("cpu_pct"),
                memory_percent=seen.get("memory_pct"),
                disk_io_percent=seen.get("disk_pct"),
                network_io_mb=_mb(seen.get("network_bytes")),
            ),
            energy=self._energy(seen) if self._profiler.track_carbon else None,
            lines=lines,
            error=error,
        )

    def _energy(self, seen: Dict[str, Any]) -> EnergyMetrics:
        joules = seen.get("joules")
        intensity = self._profiler.carbon_intensity_g_per_kwh
        kwh = None if joules is None else joules / _JOULES_PER_KWH
        source: Optional[str] = None
        if joules is not None:
            source = "estimate" if seen["energy_estimate"] else "counters"
            if seen["energy_estimate"] and seen["energy_counters"]:
                source = "mixed"
        return EnergyMetrics(kwh, None if kwh is None else kwh * intensity, intensity, source)


def _together(counts: List[Optional[Dict[str, int]]]) -> Optional[Dict[str, int]]:
    """Merges the counts that are known; None if none is."""
    seen = [one for one in counts if one is not None]
    return {name: flops for one in seen for name, flops in one.items()} if seen else None


def _mb(count: Optional[float]) -> Optional[float]:
    return None if count is None else count / _MB


def _cpu_percent(cpu_s: float, wall_s: float, cores: Optional[float]) -> Optional[float]:
    if not cores or wall_s <= 0:
        return None
    # The resolution of the clocks may make it slightly more than 100.
    return min(100.0, 100 * cpu_s / wall_s / cores)
