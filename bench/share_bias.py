#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bias: compares the shares of functions in ordinary recordings with those by --blocking, which
stops the target for each stack. The targets call and return as fast as Python can
(tests/integration/programs/adversary.py). The result is the largest difference of a function's own
share.

  bench/share_bias.py                every interpreter
  bench/share_bias.py --seconds 10 --kinds siblings 3.11 3.15
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Dict, List

from common import FULL_SPEED_HZ, Bench, Row, for_each_python, gsprof_argv, need, run, shown
from support import Python, probe
from torn import gsprof_stacks

BLOCKING_HZ = 1000
RATES_HZ = (1000, FULL_SPEED_HZ)
KINDS = ("siblings", "recursion", "wrappers")


def own_counts(bench: Bench, pid: int, rate_hz: int, seconds: float, *more: str) -> Counter[str]:
    path = bench.fresh(".gsp")
    argv = [*gsprof_argv(pid, rate_hz, seconds, path), *more]
    need(run(argv), argv)
    found: Counter[str] = Counter()
    for names, count in gsprof_stacks(path):
        found[names[-1]] += count
    path.unlink()
    return found


def difference(one: Counter[str], other: Counter[str]) -> float:
    """The largest difference of a share, in percentage points."""
    totals = max(1, sum(one.values())), max(1, sum(other.values()))
    return max(100 * abs(one[n] / totals[0] - other[n] / totals[1]) for n in {**one, **other})


def one_kind(bench: Bench, python: Python, kind: str, seconds: float) -> None:
    target = bench.target("adversary.py", kind)
    blocking: List[Counter[str]] = []
    running: Dict[int, Counter[str]] = {rate_hz: Counter() for rate_hz in RATES_HZ}
    try:
        for _ in range(2):
            blocking.append(own_counts(bench, target.pid, BLOCKING_HZ, seconds, "--blocking"))
            for rate_hz, counts in running.items():
                counts += own_counts(bench, target.pid, rate_hz, seconds / 2)
    finally:
        target.end()
    truth = blocking[0] + blocking[1]
    command = shown(gsprof_argv(0, FULL_SPEED_HZ, seconds / 2, Path("p.gsp")))
    rows = {f"{r} Hz" if r < FULL_SPEED_HZ else "full speed": c for r, c in running.items()}
    apart = difference(*blocking)
    bench.add(Row("bias", f"{python}, {kind}: --blocking against itself", apart, "points"))
    for label, counts in rows.items():
        bench.add(
            Row(
                "bias",
                f"{python}, {kind}: {label} against --blocking",
                difference(counts, truth),
                "points",
                command=command,
                note=f"{sum(counts.values())} samples, {sum(truth.values())} with --blocking",
            )
        )


def one_python(bench: Bench, python: Python, kinds: List[str], seconds: float) -> None:
    for kind in kinds:
        one_kind(bench, python, kind, seconds)


def main(bench: Bench) -> None:
    python = probe(bench.python)
    assert python is not None, bench.python
    one_python(bench, python, list(KINDS), bench.seconds(6))


if __name__ == "__main__":
    SECONDS = ("seconds", 6.0, "duration of a recording")
    sys.exit(for_each_python(__doc__, KINDS, SECONDS, one_python))
