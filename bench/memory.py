# SPDX-License-Identifier: Apache-2.0
"""The cost of counting allocations for a loop that does little else, and for a training step: CPU
time in one process, which alternates between counting and not counting. Also measures tracemalloc,
memray and heaptrack on the same loop, and the noise without counting."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Dict, List, Tuple

from common import Bench, Row, median, need, run, shown
from support import GSPROF

LOOP_BARS = {"sampled": 1.03, "exact": 3.0}
STEP_BAR = 1.01

PROGRAM = """
import json, os, sys, time, tracemalloc
sys.path.insert(0, sys.argv[1])
rounds, workload, ways = int(sys.argv[2]), sys.argv[3], sys.argv[4].split(",")
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads that wait for each other add noise


class Point:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


def loop():
    for i in range(20000):
        point = Point(i, str(i))
        kept = {"k": [i, point, (i,)]}
    return kept


def make_step():
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        torch.set_num_threads(1)
        model = torch.nn.Sequential(
            torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        x, y = torch.randn(64, 256), torch.randn(64, 64)

        def step():
            for _ in range(20):
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()

        return step
    import numpy as np

    random = np.random.default_rng(1)
    x, y = random.random((64, 256)), random.random((64, 64))
    w = [random.random((256, 256)) / 256, random.random((256, 64)) / 256]

    def step():
        for _ in range(2):
            hidden = np.maximum(x @ w[0], 0)
            error = hidden @ w[1] - y
            back = (error @ w[1].T) * (hidden > 0)
            w[1] -= 1e-6 * (hidden.T @ error)
            w[0] -= 1e-6 * (x.T @ back)

    return step


def memray():
    import memray

    path = sys.argv[5]
    tracker = memray.Tracker(
        destination=memray.FileDestination(path, overwrite=True), trace_python_allocators=True
    )
    tracker.__enter__()
    return lambda: tracker.__exit__(None, None, None)


def begin(way):
    if way in ("sampled", "exact"):
        from gsprof import _memory

        _memory.start(way)
        return _memory.stop
    if way.startswith("tracemalloc"):
        tracemalloc.start(int(way[len("tracemalloc") :]))
        return tracemalloc.stop
    return memray() if way == "memray" else lambda: None


work = loop if workload == "loop" else make_step()


def took():
    # The minimum, because other load can only add time.
    found = []
    for _ in range(5):
        begun = time.process_time_ns()
        work()
        found.append(time.process_time_ns() - begun)
    return min(found)


took()
ratios = {way: [] for way in ways}
before = took()
for _ in range(rounds):
    for way in ways:
        end = begin(way)
        try:
            work()  # creates tables and stacks, which happens once per program
            counted = took()
        finally:
            end()
        after = took()
        ratios[way].append(2 * counted / (before + after))
        before = after
print(json.dumps(ratios))
"""

ALONE = """
import time
class Point:
    __slots__ = ("a", "b")
    def __init__(self, a, b):
        self.a = a
        self.b = b
begun = time.process_time()
for i in range(200000):
    point = Point(i, str(i))
    kept = {"k": [i, point, (i,)]}
print("took", time.process_time() - begun)
"""


def measure(
    bench: Bench, python: object, workload: str, ways: List[str], rounds: int
) -> Tuple[Dict[str, float], str]:
    package = GSPROF.parent.parent.parent / "python"
    path = bench.fresh(".py")
    path.write_text(PROGRAM)
    argv: List[object] = [python, path, os.fspath(package), bench.rounds(rounds), workload]
    argv += [",".join(ways), bench.fresh(".bin")]
    done = run(argv)
    # memray prints warnings and may crash at exit, after the results are printed.
    results = [line for line in done.out.splitlines() if line.startswith("{")]
    ratios: Dict[str, List[float]] = json.loads(results[-1] if results else need(done, argv).out)
    return {way: median(found) for way, found in ratios.items()}, shown(argv)


def heaptrack(bench: Bench, python: object) -> None:
    what = "loop: heaptrack, PYTHONMALLOC=malloc / alone"
    exe = shutil.which("heaptrack")
    if exe is None:
        bench.add(Row("memory", what, None, "x", note="heaptrack is not installed"))
        return
    path = bench.fresh(".py")
    path.write_text(ALONE)
    output = bench.fresh("")
    plain: List[object] = [python, path]
    argv: List[object] = ["env", "PYTHONMALLOC=malloc", exe, "-o", output, python, path]
    ratios = []
    for _ in range(bench.rounds(3)):
        times = []
        for words in (plain, argv):
            lines = need(run(words), words).out.splitlines()
            times.append(next(float(line.split()[1]) for line in lines if line.startswith("took")))
        ratios.append(times[1] / times[0])
    bench.add(Row("memory", what, median(ratios), "x", command=shown(argv)))


def main(bench: Bench) -> None:
    peer = bench.peers.get("memray")
    python: object = Path(peer).parent / "python" if peer else bench.python
    ways = ["none", "sampled", "exact"]
    found, command = measure(bench, python, "loop", ways, 90)
    others = ["tracemalloc1", "tracemalloc25"] + (["memray"] if peer else [])
    found.update(measure(bench, python, "loop", others, 9)[0])
    for way, ratio in found.items():
        bar = LOOP_BARS.get(way)
        row = Row("memory", f"loop: {way} / alone", ratio, "x", command=command)
        if bar is not None:
            row.bar, row.ok = f"<= {bar} x", ratio <= bar
        bench.add(row)
    if not peer:
        why = bench.missing.get("memray", "not installed")
        bench.add(Row("memory", "loop: memray / alone", None, "x", note=why))
    heaptrack(bench, python)
    step, command = measure(bench, bench.python, "step", ["none", "sampled"], 90)
    ratio = step["sampled"]
    note = f"noise without counting {step['none']:.4f}"
    row = Row("memory", "training step: sampled / alone", ratio, "x", f"<= {STEP_BAR} x")
    row.ok, row.command, row.note = ratio <= STEP_BAR, command, note
    bench.add(row)
