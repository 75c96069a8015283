# SPDX-License-Identifier: Apache-2.0
"""Injection: how often it fails, how long it takes and how long it stops the target. Each injection
has a new target; all interpreters and several program states take turns."""

from __future__ import annotations

import itertools
import json
from typing import Dict, List, Tuple

from common import Bench, Row, median, run, shown
from support import GSPROF, Python, Target, find_pythons, program

STATES = ["sleep", "loop", "sort", "zlib", "threads", "epoll"]
FULL = 1000
QUICK = 60
TOTAL_BAR_MS = 50.0
STOPPED_BAR_MS = 5.0


def once(python: Python, state: str) -> Tuple[str, float, float]:
    """The error ("" if none), the time it took, and the time for which a thread was stopped."""
    # Cache compiled imports, as for any program.
    env = {"PYTHONDONTWRITEBYTECODE": ""}
    target = Target([python.path, program("inject_states.py"), state], env=env)
    try:
        done = run([GSPROF, "inject", target.pid, "--json"])
        if done.status != 0:
            return f"{python} {state}: {done.out.strip().splitlines()[:1]}", 0.0, 0.0
        result = json.loads(done.out)
        # The target continues and checks its own results.
        if target.go()["bad"]:
            return f"{python} {state}: {target.facts['bad']}", 0.0, 0.0
        return "", result["total_ms"], result["stopped_ms"]
    except (AssertionError, TimeoutError, ValueError) as error:
        return f"{python} {state}: {error}", 0.0, 0.0
    finally:
        target.end()


def high(values: List[float]) -> float:
    """The 95th percentile."""
    return sorted(values)[int(len(values) * 0.95)] if values else 0.0


def main(bench: Bench) -> None:
    pythons, _ = find_pythons()
    count = QUICK if bench.quick else FULL
    faults: List[str] = []
    totals: Dict[str, List[float]] = {state: [] for state in STATES}
    stops: Dict[str, List[float]] = {state: [] for state in STATES}
    for python in pythons:
        once(python, "sleep")
    cases = itertools.cycle(itertools.product(STATES, pythons))
    for state, python in itertools.islice(cases, count):
        fault, total_ms, stopped_ms = once(python, state)
        if fault:
            faults.append(fault)
            continue
        totals[state].append(total_ms)
        stops[state].append(stopped_ms)
    command = shown([GSPROF, "inject", "PID"])
    what = f"{count} injections, {len(pythons)} interpreters"
    failed = float(len(faults))
    note = "; ".join(faults[:3])
    bench.add(Row("inject", f"{what}: failed", failed, "", "0", not faults, command, note))
    for state in STATES:
        if not totals[state]:
            continue
        for name, values, bar in (
            ("time", totals[state], TOTAL_BAR_MS),
            ("target stopped", stops[state], STOPPED_BAR_MS),
        ):
            value = high(values)
            note = f"median {median(values):.2f}, max {max(values):.2f}, of {len(values)}"
            what = f"in {state}: {name}, p95"
            row = Row("inject", what, value, "ms", f"<= {bar:g} ms", value <= bar, command, note)
            bench.add(row)
