# SPDX-License-Identifier: Apache-2.0
"""gsprof.measure: time, memory, computation and energy of blocks of code.

    from gsprof.measure import PerformanceProfiler

    profiler = PerformanceProfiler()
    with profiler.profile("training"):
        ...
    print(profiler.get_metrics().summary())
"""

from __future__ import annotations

from .._sites import GrowthSite
from ._lines import Line, LineStats
from ._metrics import (
    ComputeMetrics,
    EnergyMetrics,
    MemoryMetrics,
    PerformanceMetrics,
    SystemMetrics,
    TimingMetrics,
)
from ._profiler import PerformanceProfiler

__all__ = [
    "ComputeMetrics",
    "EnergyMetrics",
    "GrowthSite",
    "Line",
    "LineStats",
    "MemoryMetrics",
    "PerformanceMetrics",
    "PerformanceProfiler",
    "SystemMetrics",
    "TimingMetrics",
]
