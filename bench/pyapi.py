# SPDX-License-Identifier: Apache-2.0
"""The cost of gsprof.profiler for the program that uses it, compared with two calls of
time.perf_counter() and with a timer written in Python, in turns in one process."""

from __future__ import annotations

import json
import os
from typing import Dict

from common import Bench, Row, need, run, shown
from support import GSPROF, Json

BAR_NS = 250

# The minimum of many short rounds, because other load can only add time.
PROGRAM = '''
import json, sys, time
sys.path.insert(0, sys.argv[1])
rounds, calls = int(sys.argv[2]), 400
from gsprof.profiler import CUDATimer, MetricsCollector


class PythonTimer:
    """A typical timer in Python: a dictionary of starts, a list of results."""

    class Use:
        def __init__(self, timer, name):
            self.timer, self.name = timer, name

        def __enter__(self):
            self.timer.start(self.name)

        def __exit__(self, *error):
            self.timer.stop(self.name)

    def __init__(self):
        self.starts, self.results = {}, {}

    def start(self, name):
        self.starts[name] = time.perf_counter()

    def stop(self, name):
        took = time.perf_counter() - self.starts.pop(name)
        self.results.setdefault(name, []).append(took * 1000)

    def measure(self, name):
        return PythonTimer.Use(self, name)


timer, collector, plain = CUDATimer(), MetricsCollector(), PythonTimer()


def nothing():
    for _ in range(calls):
        pass

def pair():
    for _ in range(calls):
        begin = time.perf_counter()
        took = time.perf_counter() - begin

def measure():
    for _ in range(calls):
        with timer.measure("x"):
            pass

def start_stop():
    for _ in range(calls):
        timer.start("x")
        timer.stop("x")

def record():
    for _ in range(calls):
        collector.record("x", 1.5)

def python_measure():
    for _ in range(calls):
        with plain.measure("x"):
            pass
    plain.results.clear()


best = {}
for _ in range(rounds):
    for part in (nothing, pair, measure, start_stop, record, python_measure):
        begin = time.perf_counter_ns()
        part()
        took = (time.perf_counter_ns() - begin) / calls
        best[part.__name__] = min(best.get(part.__name__, took), took)
empty = best.pop("nothing")
print(json.dumps({name: took - empty for name, took in best.items()}))
'''


def main(bench: Bench) -> None:
    package = GSPROF.parent.parent.parent / "python"
    path = bench.fresh(".py")
    path.write_text(PROGRAM)
    argv = [bench.python, path, os.fspath(package), bench.rounds(3000)]
    found: Json = json.loads(need(run(argv), argv).out)
    cost: Dict[str, float] = {name: float(value) for name, value in found.items()}
    beside = f"two calls of perf_counter() take {cost['pair']:.0f} ns"
    rows = (
        ("with timer.measure(): entering and leaving, each", cost["measure"] / 2),
        ("timer.start() and stop(), each", cost["start_stop"] / 2),
        ("collector.record()", cost["record"]),
    )
    for what, value in rows:
        bench.add(
            Row(
                "pyapi",
                what,
                value,
                "ns",
                f"<= {BAR_NS} ns",
                value <= BAR_NS,
                shown(argv),
                beside,
            )
        )
    bench.add(
        Row(
            "pyapi",
            "a timer written in Python, entering and leaving, each",
            cost["python_measure"] / 2,
            "ns",
            command=shown(argv),
        )
    )
