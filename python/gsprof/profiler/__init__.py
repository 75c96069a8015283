# SPDX-License-Identifier: Apache-2.0
"""gsprof.profiler: measures parts of a program.

>>> from gsprof.profiler import MetricsCollector, Reporter
>>> collector = MetricsCollector()
>>> for batch in ([1, 2, 3], [4, 5, 6]):
...     collector.record("batch_size", len(batch))
...     with collector.measure_time("iteration"):
...         total = sum(batch)
>>> report = collector.generate_report()
>>> sorted(report)
['memory', 'throughput', 'timing']

CUDATimer measures times, on a GPU with events. MemoryTracker follows memory. MetricsCollector keeps
times and values and finds bottlenecks. Reporter writes them to files. StreamProfiler measures how
streams overlap. compare_runs tests whether one run is faster than another."""

from __future__ import annotations

from ._compare import Comparison, compare_runs
from ._memory import MemoryTracker
from ._metrics import MetricsCollector, Report
from ._reporter import Reporter
from ._streams import StreamProfiler
from ._timer import CUDATimer

__all__ = [
    "CUDATimer",
    "Comparison",
    "MemoryTracker",
    "MetricsCollector",
    "Report",
    "Reporter",
    "StreamProfiler",
    "compare_runs",
]
