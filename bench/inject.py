# SPDX-License-Identifier: Apache-2.0
"""Injection: how often it fails, how long it takes, how long the target stands still; a new process
each time, over all interpreters and over the states in which a program may be."""

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
    """What went wrong ("" for nothing), how long it took and how long a thread stood still."""
    # As any program: what it imports is compiled once and kept.
    env = {"PYTHONDONTWRITEBYTECODE": ""}
    target = Target([python.path, program("inject_states.py"), state], env=env)
    try:
        done = run([GSPROF, "inject", target.pid, "--json"])
        if done.status != 0:
            return f"{python} {state}: {done.out.strip().splitlines()[:1]}", 0.0, 0.0
        said = json.loads(done.out)
        # It goes on, and finds its own results right.
        if target.go()["bad"]:
            return f"{python} {state}: {target.facts['bad']}", 0.0, 0.0
        return "", said["total_ms"], said["stopped_ms"]
    except (AssertionError, TimeoutError, ValueError) as error:
        return f"{python} {state}: {error}", 0.0, 0.0
    finally:
        target.end()


def high(values: List[float]) -> float:
    """Nineteen of twenty are at most this."""
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
            ("took", totals[state], TOTAL_BAR_MS),
            ("stood still", stops[state], STOPPED_BAR_MS),
        ):
            value = high(values)
            note = f"median {median(values):.2f}, most {max(values):.2f}, of {len(values)}"
            what = f"in {state}: {name}, 19 of 20 within"
            row = Row("inject", what, value, "ms", f"<= {bar:g} ms", value <= bar, command, note)
            bench.add(row)
