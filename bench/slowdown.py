# SPDX-License-Identifier: Apache-2.0
"""The slowdown of the target. One target repeats the same piece of work, alone and sampled in
turns. The noise is measured the same way, without a profiler."""

from __future__ import annotations

import os
import subprocess
from typing import Dict, List

from common import Bench, Row, gsprof_argv, median, shown
from support import Target, program

RATES = (100, 1000)
LIMIT = 1.005


def piece(target: Target) -> float:
    """Wall time of one piece of work, in seconds."""
    return float(target.go()["wall_ns"]) / 1e9


def start_profiler(argv: List[str], cpu: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["taskset", "-c", str(cpu), *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    process.stderr.readline()
    return process


def main(bench: Bench) -> None:
    if (os.cpu_count() or 1) < 2:
        bench.add(Row("slowdown", "target slowdown", None, "x", note="needs two CPUs"))
        return
    target = Target(["taskset", "-c", "0", bench.python, program("chunks.py"), "3500"])
    ratios: Dict[int, List[float]] = {rate: [] for rate in RATES}
    noise: List[float] = []
    command: Dict[int, str] = {}
    try:
        before = piece(target)
        for _ in range(bench.rounds(36)):
            for rate in RATES:
                argv = gsprof_argv(target.pid, rate, 60, bench.fresh(".gsp"))
                command[rate] = shown(argv)
                profiler = start_profiler(argv, 1)
                sampled = piece(target)
                profiler.terminate()
                profiler.communicate()
                after = piece(target)
                ratios[rate].append(sampled / ((before + after) / 2))
                again = piece(target)
                last = piece(target)
                noise.append(again / ((after + last) / 2))
                before = last
    finally:
        target.end()
    bench.add(
        Row(
            "slowdown",
            "noise: alone / alone",
            median(noise),
            "x",
            note=f"interquartile range {spread(noise):.4f}",
        )
    )
    for rate in RATES:
        ratio = median(ratios[rate])
        bench.add(
            Row(
                "slowdown",
                f"target's time, sampled at {rate} Hz / alone",
                ratio,
                "x",
                f"<= {LIMIT} x",
                ratio <= LIMIT,
                command[rate],
                f"interquartile range {spread(ratios[rate]):.4f}",
            )
        )


def spread(values: List[float]) -> float:
    """The interquartile range."""
    ordered = sorted(values)
    return ordered[len(ordered) * 3 // 4] - ordered[len(ordered) // 4]
