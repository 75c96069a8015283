# SPDX-License-Identifier: Apache-2.0
"""What it costs to follow a tree of processes."""

from __future__ import annotations

from common import Bench, Row, need, report_of, run, shown
from support import GSPROF

PROCESSES = 200
RATE_HZ = 20


def main(bench: Bench) -> None:
    target = bench.target("workers.py", PROCESSES - 1)
    seconds = bench.seconds(10)
    path = bench.fresh(".gsp")
    argv = [GSPROF, "record", "-p", target.pid, "-s", "--idle", "-r", RATE_HZ, "-d", seconds]
    argv += ["-o", path]
    idle = bench.fresh(".gsp")
    short = [*argv[:-1], idle]
    short[short.index("-d") + 1] = 0.5
    try:
        # Attaching is paid once: what a short recording costs is not counted.
        first = need(run(short), short)
        whole = need(run(argv), argv)
    finally:
        target.end()
    facts = report_of(path)
    value = 100 * (whole.cpu_s - first.cpu_s) / (seconds - 0.5)
    note = (
        f"{facts['processes']} processes, {facts['samples']} samples, "
        f"{facts['losses']['late']} ticks late; attaching to all takes {first.cpu_s:.2f} s of CPU"
    )
    bench.add(
        Row(
            "tree",
            f"following {PROCESSES} processes at {RATE_HZ} Hz, one core",
            value,
            "%",
            "<= 5 %",
            value <= 5 and facts["processes"] == PROCESSES,
            shown(argv),
            note,
        )
    )
