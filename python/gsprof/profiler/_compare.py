# SPDX-License-Identifier: Apache-2.0
"""Compares two runs: how much faster one is, and whether the difference is significant."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from .. import _gsprof
from . import _series, _text
from ._metrics import BATCH_SIZE, ITERATIONS, MetricsCollector, Report
from ._timer import CUDATimer

CONFIDENCE = 0.95
ROUNDS = 2000

TIME, RATE, OTHER = "time", "rate", "other"

_RATE_WORDS = ("per_sec", "/s", "throughput", "samples_s", "fps", "qps", "tokens_s")
_TIME_WORDS = ("time", "_ms", "_s", "_us", "_ns", "latency", "duration", "elapsed", "seconds")
# Names of metrics that are not speeds.
_OTHER_WORDS = ("loss", "accuracy", "memory", "bytes", "peak", "batch_size", "error", "score", "lr")


class _Metric(NamedTuple):
    kind: str
    mean: float
    values: List[float]  # empty: only the mean is known


_Run = Dict[str, _Metric]


def _kind_of(name: str) -> str:
    """Guesses the kind of a number without a section from its name."""
    lower = name.lower()
    if any(word in lower for word in _RATE_WORDS):
        return RATE
    if any(word in lower for word in _OTHER_WORDS):
        return OTHER
    if lower in ITERATIONS or any(word in lower for word in _TIME_WORDS):
        return TIME
    return OTHER


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _metric(kind: str, value: Any) -> Optional[_Metric]:
    """Returns the metric of a number, a list of numbers, or statistics with a mean; else None."""
    if _is_number(value):
        return _Metric(kind, float(value), []) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        found = _metric(kind, value.get("mean"))
        values = value.get("values")
        every = _metric(kind, values) if isinstance(values, list) else None
        return found._replace(values=every.values) if found and every else found or every
    if isinstance(value, (list, tuple)):
        numbers = [float(one) for one in value if _is_number(one) and math.isfinite(one)]
        return _Metric(kind, math.fsum(numbers) / len(numbers), numbers) if numbers else None
    return None


def _of_recorder(recorder: _gsprof.Recorder) -> _Run:
    if isinstance(recorder, CUDATimer):
        recorder._settle()
    found: _Run = {}
    for kind, label in ((_series.TIMES, TIME), (_series.VALUES, OTHER)):
        for name in recorder._names(kind):
            metric = _metric(label, _series.values(recorder, kind, name))
            if metric is not None:
                mean = recorder._stats(kind, name)["mean"]
                found.setdefault(name, metric._replace(mean=mean))
    if isinstance(recorder, MetricsCollector):
        _add_section(found, RATE, recorder.throughput)
    return found


def _add_section(found: _Run, kind: str, section: object) -> None:
    for name, value in section.items() if isinstance(section, Mapping) else ():
        metric = _metric(kind, value)
        if metric is not None:
            found.setdefault(str(name), metric)


def _of_mapping(mapping: Mapping[str, Any]) -> _Run:
    found: _Run = {}
    known = {"timing": TIME, "throughput": RATE, "memory": OTHER, "metrics": OTHER}
    for section, kind in known.items():
        if isinstance(mapping.get(section), Mapping):
            _add_section(found, kind, mapping[section])
    if isinstance(mapping, Report):
        for name, values in mapping.values_by_name.items():
            metric = _metric(found[name].kind, values) if name in found else None
            if metric is not None:
                found[name] = metric._replace(mean=found[name].mean)
    if found:
        return found
    for name, value in mapping.items():
        metric = _metric(_kind_of(str(name)), value)
        if metric is not None:
            found[str(name)] = metric
    # If the kind of no name is known, treat the numbers as times.
    if found and not any(metric.kind in (TIME, RATE) for metric in found.values()):
        for name, metric in found.items():
            if not any(word in name.lower() for word in _OTHER_WORDS):
                found[name] = metric._replace(kind=TIME)
    return found


def _run_of(what: str, run: Any) -> _Run:
    if isinstance(run, _gsprof.Recorder):
        return _of_recorder(run)
    collector = getattr(run, "collector", None)
    if isinstance(collector, _gsprof.Recorder):
        return _of_recorder(collector)
    if isinstance(run, (str, os.PathLike)):
        with open(run, encoding="utf-8") as file:
            try:
                run = json.load(file)
            except ValueError as error:
                raise ValueError(f"{os.fspath(file.name)} is not JSON: {error}") from None
    if isinstance(run, Mapping):
        return _of_mapping(run)
    raise TypeError(
        f"run {what} must be a report, a collector, a timer, a mapping or the path of a JSON file, "
        f"not {type(run).__name__}"
    )


# -------------------------------------------------------------------- the statistics


def _difference(a: _Metric, b: _Metric) -> Dict[str, Any]:
    """Returns bounds of the difference of the means, and p; all None for single numbers."""
    found: Dict[str, Any] = {"ci_low": None, "ci_high": None, "p_value": None, "method": None}
    if len(a.values) < 2 or len(b.values) < 2:
        return found
    low, high, p, exact = _gsprof.compare(a.values, b.values, ROUNDS, CONFIDENCE)
    if not math.isfinite(p):
        return found  # the values are so correlated that they count as one
    method = "bootstrap, exact permutation" if exact else "bootstrap, permutation"
    found.update(ci_low=low, ci_high=high, p_value=p, method=method)
    return found


def _ratio(above: float, below: float) -> float:
    if above == below:
        return 1.0
    return above / below if below else math.inf


def _row(a: _Metric, b: _Metric) -> Dict[str, Any]:
    found: Dict[str, Any] = {
        "kind": a.kind,
        "a": a.mean,
        "b": b.mean,
        "difference": b.mean - a.mean,
        "difference_pct": (b.mean / a.mean - 1) * 100 if a.mean else None,
        "count_a": len(a.values) or None,
        "count_b": len(b.values) or None,
        "speedup": None,
    }
    if a.kind == TIME:
        found["speedup"] = _ratio(a.mean, b.mean)
    elif a.kind == RATE:
        found["speedup"] = _ratio(b.mean, a.mean)
    found.update(_difference(a, b))
    p = found["p_value"]
    # Significant only if both the bounds and p say so.
    found["significant"] = bool(
        p is not None and p < 1 - CONFIDENCE and not found["ci_low"] <= 0 <= found["ci_high"]
    )
    found["verdict"] = _verdict(found)
    return found


def _verdict(row: Dict[str, Any]) -> str:
    if row["difference"] == 0:
        return "the same"
    if row["p_value"] is None:
        return "not tested: single numbers"
    if not row["significant"]:
        return "no significant difference"
    if row["speedup"] is None:
        return "higher" if row["difference"] > 0 else "lower"
    return "faster" if row["speedup"] > 1 else "slower"


def _leading(rows: Dict[str, Dict[str, Any]]) -> Optional[str]:
    """Returns the metric that represents the whole run; None if the times have to be added up."""
    times = [name for name, row in rows.items() if row["kind"] == TIME]
    for name in (*ITERATIONS, "total", "time", "total_time", "epoch", "wall_time"):
        if name in times:
            return name
    if len(times) == 1:
        return times[0]
    if not times:
        return next((name for name, row in rows.items() if row["kind"] == RATE), None)
    return None


class Comparison(Dict[str, Any]):
    """The result of compare_runs(); str() of it is a table with a verdict."""

    def __str__(self) -> str:
        rows = []
        for name, row in self["metrics"].items():
            pct = row["difference_pct"]
            cells = [_text.number(row["a"]), _text.number(row["b"])]
            cells.append("-" if pct is None else f"{pct:+.1f} %")
            cells.append("-" if row["p_value"] is None else f"{row['p_value']:.3g}")
            rows.append([name, *cells, row["verdict"]])
        lines = _text.table(("metric", "a", "b", "change", "p", "verdict"), rows)
        for key, what in (("only_in_a", "a"), ("only_in_b", "b")):
            if self[key]:
                lines.append(f"only in {what}: {_text.plain(', '.join(self[key]))}")
        return "\n".join([*lines, "", self["verdict"]])


def compare_runs(a: Any, b: Any) -> Comparison:
    """Compares run b with run a. A run is a report, a collector, a timer, a JSON file of a
    Reporter, or a mapping of numbers or lists of numbers.

    >>> before = {"step_ms": [10.0, 10.2, 9.9, 10.1]}
    >>> found = compare_runs(before, {"step_ms": [5.0, 5.1, 4.9, 5.0]})
    >>> round(found["speedup"], 2), found["significant"]
    (2.01, True)

    speedup is above 1 if b is faster; it is that of the iteration if it was measured, else of all
    common times together. metrics has a row for each common name: a, b, difference, its 95 % bounds
    (ci_low, ci_high; bootstrap), p_value (permutation), significant, verdict. Single numbers are
    compared but not tested."""
    runs = (_run_of("a", a), _run_of("b", b))
    common = [name for name in runs[0] if name in runs[1] and name != BATCH_SIZE]
    if not common:
        raise ValueError(
            f"the runs have no metric in common: a has {_series.listed(runs[0])}, "
            f"b has {_series.listed(runs[1])}"
        )
    rows = {name: _row(runs[0][name], runs[1][name]) for name in common}
    name = _leading(rows)
    times = [row for row in rows.values() if row["kind"] == TIME]
    found: Dict[str, Any] = {"metric": name, "significant": False, "p_value": None}
    if name is not None:
        found["speedup"] = rows[name]["speedup"]
        found["significant"] = rows[name]["significant"]
        found["p_value"] = rows[name]["p_value"]
    else:
        before = math.fsum(row["a"] for row in times)
        found["speedup"] = _ratio(before, math.fsum(row["b"] for row in times)) if times else 1.0
        found["significant"] = any(row["significant"] for row in times)
    found["confidence"] = CONFIDENCE
    found["metrics"] = rows
    found["only_in_a"] = [one for one in runs[0] if one not in runs[1]]
    found["only_in_b"] = [one for one in runs[1] if one not in runs[0]]
    found["verdict"] = _sentence(found, bool(times) or name is not None)
    return Comparison(found)


def _sentence(found: Dict[str, Any], has_speed: bool) -> str:
    if not has_speed:
        return "no times in common: only the metrics can be compared"
    what = _text.plain(found["metric"] or "all common times together")
    speedup = found["speedup"]
    row = found["metrics"].get(found["metric"]) if found["metric"] else None
    if speedup == 1.0:
        return f"b is as fast as a ({what})"
    shown = f"{speedup:.2f}x" if speedup >= 1 else f"{1 / speedup if speedup else math.inf:.2f}x"
    way = "faster" if speedup > 1 else "slower"
    if found["significant"]:
        certainty = f"p = {row['p_value']:.2g}" if row else "significant in some of them"
    elif row is not None and row["p_value"] is None:
        certainty = "single numbers: not tested"
    else:
        certainty = "not significant"
    return f"b is {shown} {way} than a ({what}; {certainty})"
