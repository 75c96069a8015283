# SPDX-License-Identifier: Apache-2.0
"""Writes the data of a collector to files and as text."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, Dict, List, Tuple

from . import _html, _series, _text
from ._compare import compare_runs
from ._metrics import MetricsCollector


# What spreadsheets take for the start of a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


class Reporter:
    """Writes the data of a collector.

    >>> import os, tempfile
    >>> collector = MetricsCollector()
    >>> with collector.measure_time("forward_pass"):
    ...     pass
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "profile.json")
    ...     Reporter(collector).save_json(path)
    ...     "forward_pass" in open(path).read()
    True

    Files are written atomically; OSError names the path that cannot be written."""

    def __init__(self, collector: MetricsCollector) -> None:
        if not isinstance(collector, MetricsCollector):
            raise TypeError(f"collector must be a MetricsCollector, not {type(collector).__name__}")
        self.collector = collector

    def save_json(self, path: _text.Path, values: bool = False) -> None:
        """Writes timing, memory, throughput, and metrics if any were recorded. With values=True
        also every kept value, which compare_runs() needs for its tests. NaN and infinities are
        null; a metric's "nonfinite" is their number."""
        report = self.collector.generate_report()
        whole: Dict[str, Any] = dict(report)
        if values:
            for section in ("timing", "metrics"):
                for name, stats in whole.get(section, {}).items():
                    stats["values"] = report.values_by_name[name]
        text = json.dumps(_text.finite(whole), indent=2, allow_nan=False, ensure_ascii=False)
        # A lone surrogate in a name cannot be encoded in UTF-8.
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        _text.write_whole(path, text + "\n")

    def _samples(self) -> List[Tuple[int, str, str, float]]:
        rows = []
        for kind, label in ((_series.TIMES, "time"), (_series.VALUES, "metric")):
            for name in self.collector._names(kind):
                for at_ns, value in self.collector._samples(kind, name):
                    rows.append((at_ns, label, name, value))
        rows.sort(key=lambda row: row[0])
        return rows

    def save_csv(self, path: _text.Path, raw: bool = False) -> None:
        """Writes a row for each kept value: time_s since the first, kind ("time" or "metric"),
        name, value and unit ("ms" for times). A name that a spreadsheet takes for a formula gets a
        leading apostrophe, except with raw=True."""
        rows = self._samples()
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("time_s", "kind", "name", "value", "unit"))
        for at_ns, kind, name, value in rows:
            unit = "ms" if kind == "time" else ""
            shown = name.encode("utf-8", "backslashreplace").decode("utf-8")
            if not raw and shown.startswith(FORMULA_STARTS):
                shown = "'" + shown
            writer.writerow((f"{(at_ns - rows[0][0]) / 1e9:.9f}", kind, shown, repr(value), unit))
        _text.write_whole(path, out.getvalue())

    def save_html(self, path: _text.Path, baseline: Any = None) -> None:
        """Writes a self-contained page: figures, charts, tables and the timeline; with a baseline,
        which is any run that compare_runs() accepts, also the comparison with it."""
        comparison = None if baseline is None else compare_runs(baseline, self.collector)
        _text.write_whole(path, _html.page(self.collector, comparison))

    def print_summary(self) -> None:
        """Prints tables of times and metrics, and the bottleneck."""
        print(self.collector.summary())
        found = self.collector.analyze_bottlenecks()
        if found["bottleneck"] is not None:
            print(f"bottleneck: {found['reasons'][0]}")
