# SPDX-License-Identifier: Apache-2.0
"""gsprof.profiler: measuring one's own code.

>>> from gsprof.profiler import MetricsCollector, Reporter
>>> collector = MetricsCollector()
>>> for batch in ([1, 2, 3], [4, 5, 6]):
...     collector.record("batch_size", len(batch))
...     with collector.measure_time("iteration"):
...         total = sum(batch)
>>> report = collector.generate_report()
>>> sorted(report)
['memory', 'throughput', 'timing']

CUDATimer takes times, of a GPU by its events; MemoryTracker follows memory; MetricsCollector keeps
times and numbers and says where the time goes; Reporter writes them down; StreamProfiler shows how
streams overlap; compare_runs tells whether a run is faster than another, and how surely."""

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
