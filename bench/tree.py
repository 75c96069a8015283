# SPDX-License-Identifier: Apache-2.0
"""What it costs to follow a tree of processes."""

from __future__ import annotations

from typing import List

from common import Bench, Row, need, report_of, run, shown
from support import GSPROF

PROCESSES = 200
RATE_HZ = 20
# Attaching and learning names is paid once, at the beginning.
START_S = 2.0


def follow(bench: Bench, pause_s: float, what: str, bar: bool) -> None:
    target = bench.target("workers.py", PROCESSES - 1, pause_s)
    seconds = bench.seconds(9)
    argv: List[object] = [GSPROF, "record", "-p", target.pid, "-s", "-r", RATE_HZ, "--idle"]
    path = bench.fresh(".gsp")
    short = [*argv, "-d", START_S, "-o", bench.fresh(".gsp")]
    argv += ["-d", START_S + seconds, "-o", path]
    try:
        first = need(run(short), short)
        whole = need(run(argv), argv)
    finally:
        target.end()
    facts = report_of(path)
    value = 100 * (whole.cpu_s - first.cpu_s) / seconds
    note = (
        f"{facts['processes']} processes, {facts['samples']} samples, "
        f"{facts['losses']['late']} ticks late; the first {START_S:g} s take "
        f"{first.cpu_s:.2f} s of CPU"
    )
    followed = facts["processes"] == PROCESSES
    bench.add(
        Row(
            "tree",
            f"{PROCESSES} processes at {RATE_HZ} Hz, {what}",
            value,
            "% of a core",
            "<= 5 %" if bar else "",
            (value <= 5 and followed) if bar else None,
            shown(argv),
            note,
        )
    )


def main(bench: Bench) -> None:
    follow(bench, 1, "each awake once a second", True)
    follow(bench, 0.02, "all awake between two ticks", False)
