# SPDX-License-Identifier: Apache-2.0
"""The cost of profiling lines, compared with line_profiler: the same code and interpreter, in
turns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import List

from common import Bench, Row, need, run, shown
from support import GSPROF

BAR = 0.7

# The minimum of many rounds, because other load can only add time.
PROGRAM = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
rounds, steps = int(sys.argv[2]), 2000
from gsprof.measure import PerformanceProfiler
from line_profiler import LineProfiler


def loop(n):
    total = 0
    for i in range(n):
        a = i * 2
        b = a + 1
        if b % 3:
            total += b
        total -= add(a, b)
    return total


def add(a, b):
    c = a + b
    return c


def took():
    begin = time.perf_counter_ns()
    loop(steps)
    return (time.perf_counter_ns() - begin) / steps


ours = PerformanceProfiler(enable_line_profiling=True, track_gpu=False)
theirs = LineProfiler(loop, add)
best = {}
for _ in range(rounds):
    found = {"plain": took()}
    with ours.profile("lines"):
        found["ours"] = min(took(), took())
    theirs.enable_by_count()
    found["theirs"] = min(took(), took())
    theirs.disable_by_count()
    for name, value in found.items():
        best[name] = min(best.get(name, value), value)
print(json.dumps(best))
"""


def main(bench: Bench) -> None:
    what = "time added by profiling lines / by line_profiler"
    peer = bench.peers.get("kernprof")
    if peer is None:
        why = bench.missing.get("kernprof", "line_profiler is not installed")
        bench.add(Row("lines", what, None, "", f"<= {BAR}", None, note=why))
        return
    package = GSPROF.parent.parent.parent / "python"
    path = bench.fresh(".py")
    path.write_text(PROGRAM)
    python = Path(peer).parent / "python"
    argv: List[object] = [python, path, os.fspath(package), bench.rounds(200)]
    best = json.loads(need(run(argv), argv).out)
    ours, theirs = best["ours"] - best["plain"], best["theirs"] - best["plain"]
    note = f"{ours:.0f} ns and {theirs:.0f} ns per step of 8 lines and a call"
    share = ours / theirs
    bench.add(Row("lines", what, share, "", f"<= {BAR}", share <= BAR, shown(argv), note))
