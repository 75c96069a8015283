# SPDX-License-Identifier: Apache-2.0
"""The cost of recording a tree of processes."""

from __future__ import annotations

from typing import List

from common import Bench, Row, need, report_of, run, shown, steady
from support import GSPROF

PROCESSES = 200
RATE_HZ = 20
# Attaching and reading names happen once, at the start.
START_S = 2.0


def follow(bench: Bench, pause_s: float, what: str) -> None:
    target = bench.target("workers.py", PROCESSES - 1, pause_s)
    seconds = bench.seconds(9)
    window = (START_S, START_S + seconds)
    path = bench.fresh(".gsp")
    argv: List[object] = [GSPROF, "record", "-p", target.pid, "-s", "-r", RATE_HZ, "--idle"]
    argv += ["-d", window[1] + 1, "-o", path]
    short = [*argv[:7], "--idle", "-d", 0.5, "-o", bench.fresh(".gsp")]
    try:
        first = need(run(short), short)
        whole = need(steady(argv, window), argv)
    finally:
        target.end()
    facts = report_of(path)
    value = 100 * whole.cpu_s / whole.wall_s
    note = (
        f"{facts['processes']} processes, {facts['samples']} samples, "
        f"{facts['losses']['late']} ticks late; without the first {START_S:g} s; "
        f"the first half second takes {first.cpu_s:.2f} s of CPU"
    )
    followed = facts["processes"] == PROCESSES
    bench.add(
        Row(
            "tree",
            f"{PROCESSES} processes at {RATE_HZ} Hz, {what}",
            value,
            "% of a core",
            "<= 5 %",
            value <= 5 and followed,
            shown(argv),
            note,
        )
    )


def main(bench: Bench) -> None:
    follow(bench, 1, "each awake once a second")
    follow(bench, 0.02, "all awake between two ticks")
