# SPDX-License-Identifier: Apache-2.0
"""The cost of the agent for a training job, compared with torch.profiler and hooks in Python. One
process alternates between intervals with and without the agent, and only adjacent intervals are
compared."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import torch_call
from common import ROOT, Bench, Row, cache_folder
from support import GSPROF, Target

PROGRAM = Path(__file__).resolve().parent / "programs" / "agent_target.py"
SECONDS = 0.5
PAIRS = 10
PAIRS_MIN = 7
STACKS_HZ = 10

# A mode, its description, and its limit in per cent of the steps.
Mode = Tuple[str, str, Optional[float]]
MODES: Dict[str, List[Mode]] = {
    "transformer": [
        ("plain", "noise: no agent against no agent", None),
        ("idle", "agent loaded, nothing enabled", 0.1),
        ("basic", "metrics, stacks at 10 Hz, steps", 0.5),
        ("full", "every module, every step", 2.0),
        ("backward", "every module, with backward rows", 5.0),
        ("vars", "every module, with a variable", 4.0),
        ("hooks", "hooks in Python", None),
        ("profiler", "torch.profiler", None),
    ],
    "mlp": [
        ("full", "every module, every step", 3.0),
        ("backward", "every module, with backward rows", 5.0),
        ("vars", "every module, with a variable", 10.0),
        ("hooks", "hooks in Python", None),
        ("profiler", "torch.profiler", None),
    ],
}
CALL_BAR_US = 0.15
# Two-sided 95 % quantiles of Student's t, by the number of pairs.
T_95 = {7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.20}


def package_folder() -> Optional[Path]:
    """The built Python package: GSPROF_PYTHON_DIR, or beside the binary."""
    setting = os.environ.get("GSPROF_PYTHON_DIR")
    for folder in [Path(setting)] if setting else [GSPROF.parents[2] / "python"]:
        if (folder / "gsprof" / "_gsprof.abi3.so").exists():
            return folder
    return None


def pythons() -> List[str]:
    """Interpreters with PyTorch: a current one and Debian's."""
    found = []
    for path in (
        cache_folder().parent / "bench-torch" / "bin" / "python",
        Path("/usr/bin/python3"),
    ):
        probe = [
            str(path),
            "-c",
            "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))",
        ]
        if path.exists() and subprocess.run(probe, check=False).returncode == 0:
            found.append(str(path))
    return found


@dataclass
class Costs:
    """The cost of a mode in each pair, in per cent of wall time and of CPU time."""

    wall: List[float] = field(default_factory=list)
    cpu: List[float] = field(default_factory=list)


@dataclass
class Pace:
    """Steps per second of one interval."""

    wall: float
    cpu: float

    def between(self, other: "Pace") -> "Pace":
        return Pace(2 / (1 / self.wall + 1 / other.wall), 2 / (1 / self.cpu + 1 / other.cpu))


def chunk(target: Target, mode: str, seconds: float) -> Pace:
    """Runs one interval, with stacks sampled from outside if the mode includes them."""
    follower = None
    if mode == "basic":
        follower = subprocess.Popen(
            [str(GSPROF), "-q", "follow", str(target.pid), "--rate", str(STACKS_HZ)]
        )
    assert target.process.stdin is not None
    target.process.stdin.write(f"{mode} {seconds}\n".encode())
    target.process.stdin.flush()
    answer = target.read_facts()
    if follower:
        follower.terminate()
        follower.wait()
    return Pace(float(answer["steps_per_s"]), float(answer["steps_per_cpu_s"]))


def interval(costs: List[float]) -> Tuple[float, float, float]:
    """Mean and 95 % interval, in per cent."""
    mean = statistics.fmean(costs)
    half = T_95.get(len(costs), 2.2) * statistics.stdev(costs) / math.sqrt(len(costs))
    return mean, mean - half, mean + half


def measure(bench: Bench, target: Target, model: str) -> Dict[str, Costs]:
    """Runs each mode between two intervals without the agent."""
    costs: Dict[str, Costs] = {mode: Costs() for mode, _what, _bar in MODES[model]}
    seconds = bench.seconds(SECONDS)
    before = chunk(target, "plain", seconds)
    for _ in range(max(bench.rounds(PAIRS), PAIRS_MIN)):
        for mode, one in costs.items():
            with_it = chunk(target, mode, seconds)
            after = chunk(target, "plain", seconds)
            plain = before.between(after)
            one.wall.append(100 * (plain.wall / with_it.wall - 1))
            one.cpu.append(100 * (plain.cpu / with_it.cpu - 1))
            before = after
    return costs


def add_rows(bench: Bench, model: str, target: Target, label: str) -> None:
    costs = measure(bench, target, model)
    for mode, what, bar in MODES[model]:
        mean, low, high = interval(costs[mode].wall)
        # If the interval contains the limit, the result is undecided.
        ok = None if bar is None else True if high <= bar else False if low > bar else None
        bench.add(
            Row(
                "agent",
                f"{label}, {model}: {what}",
                mean,
                "%",
                "" if bar is None else f"<= {bar} %",
                ok,
                note=f"95 % interval {low:.2f} to {high:.2f} %, {len(costs[mode].wall)} pairs; "
                f"{statistics.median(costs[mode].cpu):.2f} % of the CPU time (median)",
            )
        )


def add_call(bench: Bench, python: str, package: Path, label: str) -> None:
    """Measures a single call, without the variation of a whole step."""
    found = torch_call.measure(python, package)
    call_us = (found["traced"] - found["original"]) / 1e3 if found else None
    bench.add(
        Row(
            "agent",
            f"{label}: one call of a module",
            call_us,
            "us",
            f"<= {CALL_BAR_US} us",
            None if call_us is None else call_us <= CALL_BAR_US,
            note="inside an empty module; the fastest of "
            f"{torch_call.ROUNDS} rounds, minus the same without the agent",
        )
    )


def main(bench: Bench) -> None:
    package = package_folder()
    found = pythons()
    if not package or not found:
        why = "the build has no Python package" if found else "no interpreter has PyTorch"
        bench.add(Row("agent", "cost of the agent", None, "%", note=why))
        return
    for python in found:
        label = ""
        for model in MODES:
            target = Target([python, str(PROGRAM), model, str(package)], cwd=ROOT)
            try:
                label = "torch " + str(target.facts["torch"]).split("+", maxsplit=1)[0]
                add_rows(bench, model, target, label)
            finally:
                target.end()
        add_call(bench, python, package, label)
