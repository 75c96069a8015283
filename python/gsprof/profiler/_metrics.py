# SPDX-License-Identifier: Apache-2.0
"""Collects times and values of a run, and finds bottlenecks."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from .. import _gsprof
from . import _device, _series, _text

BATCH_SIZE = "batch_size"

# Likely names of a whole iteration, the likeliest first.
ITERATIONS = ("iteration", "full_iteration", "step", "train_step", "training_step", "batch")

# Phases, and the parts of names that select them; the first match counts.
PHASES = (
    ("optimizer", ("optim", "zero_grad", "update", "sched")),
    ("backward", ("backward", "bwd", "grad")),
    ("forward", ("forward", "fwd", "inference", "predict")),
    ("transfer", ("transfer", "h2d", "d2h", "to_device", "to_gpu", "copy", "upload", "download")),
    ("data loading", ("data", "load", "fetch", "dataset", "batch_prep", "augment")),
    ("communication", ("all_reduce", "allreduce", "gather", "broadcast", "comm")),
    ("checkpoint", ("checkpoint", "save")),
    ("evaluation", ("eval", "valid", "metric")),
)

REASONS = {
    "data loading": "the program waits for data: more workers, prefetching or a faster format",
    "forward": "the forward pass: a smaller or compiled model, lower precision, larger batches",
    "backward": "the backward pass: lower precision, or recompute less of the forward pass",
    "transfer": "copies between host and device: pinned memory, non-blocking copies",
    "optimizer": "the optimizer's step: a fused one, or fewer of them",
    "communication": "waiting for other ranks: overlap it with the backward pass",
    "checkpoint": "writing checkpoints: less often, or in the background",
    "evaluation": "evaluation: less often, or on less data",
    "idle": "no measurement covers this time: measure the code in between",
}


def phase_of(name: str) -> str:
    """
    >>> phase_of("data_loading"), phase_of("h2d copy"), phase_of("iteration")
    ('data loading', 'transfer', 'other')
    """
    lower = name.lower()
    for phase, words in PHASES:
        if any(word in lower for word in words):
            return phase
    return "other"


class Report(Dict[str, Any]):
    """The data of a collector: timing, memory, throughput, and metrics if any were recorded. str()
    of it is a table; values_by_name has the kept values."""

    def __init__(self, sections: Dict[str, Any], collector: "MetricsCollector") -> None:
        super().__init__(sections)
        self.values_by_name: Dict[str, List[float]] = {}
        for kind in (_series.TIMES, _series.VALUES):
            for name in collector._names(kind):
                self.values_by_name.setdefault(name, _series.values(collector, kind, name))
        self._text = collector.summary()

    def __str__(self) -> str:
        return self._text


class MetricsCollector(_gsprof.MetricRecorder):
    """Collects values and times by name.

    >>> collector = MetricsCollector()
    >>> for size in (8, 8):
    ...     collector.record("batch_size", size)
    ...     with collector.measure_time("iteration"):
    ...         with collector.measure_time("forward"):
    ...             total = sum(range(10000))
    >>> collector.get_stats("batch_size")["mean"]
    8.0
    >>> collector.analyze_bottlenecks()["bottleneck"] in ("forward", "idle", "iteration")
    True

    Up to 100,000 values of a name are kept; beyond that, a uniform random choice of them. count,
    mean, std, min and max are of all values. NaN and infinities are counted but not included in the
    statistics. Threads may share a collector. memory=False switches memory sampling off."""

    def __init__(self, *, memory: bool = True, memory_interval: float = 100) -> None:
        self._sampler: Optional[_gsprof.MemorySampler] = None
        if memory:
            self._sampler = _gsprof.MemorySampler(memory_interval)
            self._sampler.start(True)

    def names(self) -> List[str]:
        """Returns all names, times first."""
        return self._names(_series.TIMES) + self._names(_series.VALUES)

    def _kind(self, name: str) -> int:
        if name in self._names(_series.TIMES):
            return _series.TIMES
        if name in self._names(_series.VALUES):
            return _series.VALUES
        raise KeyError(f"no series is named {name!r}; known: {_series.listed(self.names())}")

    def get_stats(self, name: str) -> Dict[str, Any]:
        """Returns count, total, mean, std, min, max, median, p95, p99 and last; times in ms."""
        return _series.statistics(self, self._kind(name), name)

    def get_values(self, name: str) -> List[float]:
        """Returns the kept values in time order."""
        return _series.values(self, self._kind(name), name)

    # ------------------------------------------------------------------ throughput

    def _iteration(self) -> Optional[str]:
        names = self._names(_series.TIMES)
        return next((name for name in ITERATIONS if name in names), None)

    def _span_s(self, *chosen: Tuple[int, str]) -> float:
        """Returns the seconds from the first start to the last end of some series."""
        stats = [self._stats(kind, name) for kind, name in chosen]
        stats = [one for one in stats if one["count"] + one["nonfinite"] > 0]
        if not stats:
            return 0.0
        first = min(one["first_ns"] for one in stats)
        return float(max(one["last_ns"] for one in stats) - first) / 1e9

    @property
    def throughput(self) -> Dict[str, Optional[float]]:
        """samples_per_sec, if batch_size was recorded, and iterations_per_sec: over the whole time
        from the start of the first iteration to the end of the last."""
        iteration = self._iteration()
        has_batches = BATCH_SIZE in self._names(_series.VALUES)
        chosen: List[Tuple[int, str]] = []
        if has_batches:
            chosen.append((_series.VALUES, BATCH_SIZE))
        if iteration is not None:
            chosen.append((_series.TIMES, iteration))
        elif has_batches:
            chosen += [(_series.TIMES, name) for name in self._names(_series.TIMES)]
        took_s = self._span_s(*chosen)
        found: Dict[str, Optional[float]] = {"samples_per_sec": None, "iterations_per_sec": None}
        if took_s <= 0:
            return found
        if has_batches:
            batches = self._stats(_series.VALUES, BATCH_SIZE)
            found["samples_per_sec"] = batches["sum"] / took_s
            found["iterations_per_sec"] = batches["count"] / took_s
        if iteration is not None:
            found["iterations_per_sec"] = self._stats(_series.TIMES, iteration)["count"] / took_s
        return found

    # ---------------------------------------------------------------------- memory

    @property
    def memory(self) -> Dict[str, Optional[int]]:
        """peak_allocated and peak_reserved in bytes: of PyTorch on the device if it uses one, else
        of the process since the collector was created."""
        torch = _device.torch_cuda()
        if torch is not None:
            return {
                "peak_allocated": int(torch.cuda.max_memory_allocated()),
                "peak_reserved": int(torch.cuda.max_memory_reserved()),
            }
        if self._sampler is None:
            return {"peak_allocated": None, "peak_reserved": None}
        seen, now = self._sampler.peak(), _gsprof.memory_now()
        return {
            "peak_allocated": max(seen[1] or 0, now[1] or 0) or None,
            "peak_reserved": max(seen[2] or 0, now[2] or 0) or None,
        }

    # --------------------------------------------------------------------- reports

    def generate_report(self) -> Report:
        """Returns timing (ms), memory (bytes) and throughput; metrics, if any besides batch_size
        were recorded."""
        sections: Dict[str, Any] = {
            "timing": {
                name: _series.basics(self, _series.TIMES, name)
                for name in self._names(_series.TIMES)
            },
            "memory": self.memory,
            "throughput": self.throughput,
        }
        metrics = {}
        for name in self._names(_series.VALUES):
            if name != BATCH_SIZE:
                metrics[name] = _series.basics(self, _series.VALUES, name)
                odd = self._stats(_series.VALUES, name)["nonfinite"]
                if odd:
                    metrics[name]["nonfinite"] = odd
        if metrics:
            sections["metrics"] = metrics
        return Report(sections, self)

    def _rows(self, kind: int) -> List[List[str]]:
        show = _text.milliseconds if kind == _series.TIMES else _text.number
        rows = []
        for name in self._names(kind):
            stats = _series.statistics(self, kind, name)
            cells = [show(stats[key]) for key in ("mean", "std", "min", "p95", "max")]
            rows.append([name, str(stats["count"]), *cells])
        return rows

    def notes(self) -> List[str]:
        """Returns remarks on the figures."""
        found = []
        for kind in (_series.TIMES, _series.VALUES):
            for name in self._names(kind):
                stats, shown = self._stats(kind, name), _text.plain(name)
                every = stats["count"] + stats["nonfinite"]
                if stats["nonfinite"]:
                    found.append(f"{shown}: {stats['nonfinite']} of {every} values are not finite")
                if stats["lost"]:
                    found.append(f"{shown}: {stats['lost']} values are only in the statistics")
        return found

    def summary(self) -> str:
        """Returns tables of times and metrics, memory and throughput."""
        lines: List[str] = []
        keys = ("count", "mean", "std", "min", "p95", "max")
        for kind, title in ((_series.TIMES, "time"), (_series.VALUES, "metric")):
            rows = self._rows(kind)
            if rows:
                lines += [*_text.table((title, *keys), rows), ""]
        memory, speed = self.memory, self.throughput
        lines.append(
            f"memory: peak {_text.byte_count(memory['peak_allocated'])} allocated, "
            f"{_text.byte_count(memory['peak_reserved'])} reserved"
        )
        if any(value is not None for value in speed.values()):
            lines.append(
                f"throughput: {_text.number(speed['samples_per_sec'])} samples/s, "
                f"{_text.number(speed['iterations_per_sec'])} iterations/s"
            )
        return "\n".join(lines + [f"note: {note}" for note in self.notes()])

    def clear(self) -> None:
        """Discards all values and restarts memory sampling."""
        self._clear()
        if self._sampler is not None:
            self._sampler.start(True)

    # ----------------------------------------------------------------- bottlenecks

    def _wall_ms(self) -> Tuple[float, Optional[float]]:
        """Returns the time from the first start to the last end, and the part that no measurement
        covers; None for the latter if several threads measured in parallel."""
        names = self._names(_series.TIMES)
        wall_ms = self._span_s(*((_series.TIMES, name) for name in names)) * 1e3
        stats = [self._stats(_series.TIMES, name) for name in names]
        threads = {one["thread"] for one in stats if one["count"]}
        if len(threads) > 1 or any(one["several"] for one in stats):
            return wall_ms, None
        return wall_ms, max(0.0, wall_ms - sum(one["outer"] for one in stats))

    def get_phase_breakdown(self) -> Dict[str, float]:
        """Returns the milliseconds of each phase, found by the names; nested measurements count
        once."""
        found: Dict[str, float] = {}
        for name in self._names(_series.TIMES):
            phase = phase_of(name)
            found[phase] = found.get(phase, 0.0) + self._stats(_series.TIMES, name)["self"]
        return found

    def analyze_bottlenecks(self) -> Dict[str, Any]:
        """Returns where the time goes: bottleneck (a name, or "idle"), phase, share, shares of all
        names and of idle (each moment counts once, for the innermost measurement), phases, reasons,
        idle_ms, total_ms and throughput."""
        own = {
            name: float(self._stats(_series.TIMES, name)["self"])
            for name in self._names(_series.TIMES)
        }
        wall_ms, idle_ms = self._wall_ms()
        phases = self.get_phase_breakdown()
        if idle_ms is not None and wall_ms > 0:
            own["idle"] = own.get("idle", 0.0) + idle_ms
            phases["idle"] = phases.get("idle", 0.0) + idle_ms
        total_ms = sum(own.values())
        found: Dict[str, Any] = {
            "bottleneck": None,
            "phase": None,
            "share": None,
            "shares": {},
            "phases": {},
            "reasons": ["nothing was measured: put measure_time() around the parts"],
            "idle_ms": idle_ms if own else None,
            "total_ms": total_ms,
            "throughput": self.throughput,
        }
        if total_ms <= 0:
            return found
        name = max(own.items(), key=lambda item: item[1])[0]
        phase = "idle" if name == "idle" else phase_of(name)
        found.update(
            bottleneck=name,
            phase=phase,
            share=own[name] / total_ms,
            shares={key: value / total_ms for key, value in own.items()},
            phases={key: value / total_ms for key, value in phases.items()},
        )
        found["reasons"] = self._reasons(found)
        return found

    def _reasons(self, found: Dict[str, Any]) -> List[str]:
        share = _text.percent(found["share"])
        reasons = [
            f"{found['bottleneck']} takes {share} of {_text.milliseconds(found['total_ms'])}"
        ]
        if found["phase"] in REASONS:
            reasons.append(REASONS[found["phase"]])
        phases: Dict[str, float] = found["phases"]
        for phase, part in sorted(phases.items(), key=lambda item: -item[1]):
            if phase != found["phase"] and phase != "other" and part >= 0.2:
                reasons.append(f"{phase} takes {_text.percent(part)}: {REASONS[phase]}")
        if found["idle_ms"] is None:
            reasons.append("idle is not known: several threads measured in parallel")
        return reasons
