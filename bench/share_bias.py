#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the shares of functions are from the truth while the program runs on: against recordings
with --blocking, which stop it for each stack.  Programs that call and return as fast as Python can
(tests/integration/programs/adversary.py); the greatest difference of a function's own share.

  bench/share_bias.py                every interpreter at hand
  bench/share_bias.py --seconds 10 --kinds siblings 3.11 3.15
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Dict, List

from common import FULL_SPEED_HZ, Bench, Row, gsprof_argv, need, run, shown
from support import Python, find_pythons, probe
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
    """The greatest, in points."""
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


def main(bench: Bench) -> None:
    python = probe(bench.python)
    assert python is not None, bench.python
    for kind in KINDS:
        one_kind(bench, python, kind, bench.seconds(6))


def alone() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6, help="of a recording (%(default)g)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="%(default)s")
    parser.add_argument("versions", nargs="*", help="beginnings of versions, as 3.11; all of them")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gsprof-bench-"))
    bench = Bench("", False, folder)
    try:
        for python in find_pythons()[0]:
            if not args.versions or any(str(python).startswith(v) for v in args.versions):
                bench.python = python.path
                for kind in args.kinds.split(","):
                    one_kind(bench, python, kind, args.seconds)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(alone())
