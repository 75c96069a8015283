#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks that a program cannot have: programs that call and return as fast as Python can
(tests/integration/programs/adversary.py), every interpreter, three rates.

  bench/impossible_stacks.py               every interpreter at hand, 300,000 samples each
  bench/impossible_stacks.py --samples 30000 3.11 3.15
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import List

from common import FULL_SPEED_HZ, Bench, Row, gsprof_argv, need, report_of, run, shown
from greenlets import environment
from impossible import KINDS, Legal, Stack
from support import Python, find_pythons, probe
from torn import gsprof_stacks

LIMIT_PCT = 0.001
RATES_HZ = (1000, 10000, FULL_SPEED_HZ)
# Of the samples of one kind: a slow rate takes long, and the fast one is the hardest.
SHARES = {1000: 0.1, 10000: 0.3, FULL_SPEED_HZ: 0.6}
# Samples a second that a recording of a quiet machine takes; a busy one needs several of them.
SPEED = {1000: 900, 10000: 8000, FULL_SPEED_HZ: 40000}
# The mark of the garbage collector, as a folded stack has it: no function of the program.
GARBAGE = "(garbage"
RECORDINGS_MAX = 12
LEAST_S = 1.0


class Count:
    """What the recordings of one interpreter had."""

    def __init__(self) -> None:
        self.total = self.torn = 0
        self.bad: Counter[Stack] = Counter()

    def add(self, bench: Bench, pid: int, legal: Legal, rate_hz: int, seconds: float) -> None:
        path = bench.fresh(".gsp")
        argv = gsprof_argv(pid, rate_hz, seconds, path)
        need(run(argv), argv)
        stacks = (([n for n in names if n != GARBAGE], n) for names, n in gsprof_stacks(path))
        bad, total = legal.impossible(stacks)
        losses = report_of(path)["losses"]
        path.unlink()
        self.bad += bad
        self.total += total
        self.torn += int(losses["torn"]) + int(losses["failed"])


def one_kind(bench: Bench, python: Python, kind: str, samples: int, count: Count) -> None:
    try:
        env = environment(python) if kind == "greenlets" else {}
    except LookupError as error:
        print(f"      {kind}: {error}")
        return
    target = bench.target("adversary.py", kind, env=env)
    try:
        legal = Legal(target.facts)
        before = count.total, sum(count.bad.values()), count.torn
        for rate_hz in RATES_HZ:
            enough = count.total + samples * SHARES[rate_hz]
            for _ in range(RECORDINGS_MAX):
                seconds = max(LEAST_S, (enough - count.total) / SPEED[rate_hz])
                count.add(bench, target.pid, legal, rate_hz, seconds)
                if count.total >= enough:
                    break
        total = count.total - before[0]
        bad = sum(count.bad.values()) - before[1]
        torn = count.torn - before[2]
        print(f"      {kind:<15} {bad:>5} of {total:>8}, {torn} torn", flush=True)
    finally:
        target.end()


def one_python(bench: Bench, python: Python, samples: int, kinds: List[str]) -> None:
    bench.python = python.path
    count = Count()
    for kind in kinds:
        one_kind(bench, python, kind, samples // len(kinds), count)
    bad = sum(count.bad.values())
    value = 100.0 * bad / max(1, count.total)
    bench.add(
        Row(
            "impossible",
            f"{python}: impossible stacks",
            value,
            "%",
            f"<= {LIMIT_PCT:g} %",
            value <= LIMIT_PCT,
            shown(gsprof_argv(0, FULL_SPEED_HZ, 1, Path("p.gsp"))),
            f"{bad} of {count.total}",
        )
    )
    bench.add(
        Row(
            "impossible",
            f"{python}: samples given up as torn",
            100.0 * count.torn / max(1, count.total + count.torn),
            "%",
        )
    )
    for stack, times in count.bad.most_common(8):
        print(f"      {times} {' > '.join(stack)}")


def main(bench: Bench) -> None:
    python = probe(bench.python)
    assert python is not None, bench.python
    one_python(bench, python, 60000, list(KINDS))


def alone() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=300000, help="of each interpreter")
    parser.add_argument("--kinds", default=",".join(KINDS), help="%(default)s")
    parser.add_argument("versions", nargs="*", help="beginnings of versions, as 3.11; all of them")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gsprof-bench-"))
    bench = Bench("", False, folder)
    try:
        for python in find_pythons()[0]:
            if not args.versions or any(str(python).startswith(v) for v in args.versions):
                one_python(bench, python, args.samples, args.kinds.split(","))
    finally:
        shutil.rmtree(folder)
    return 1 if any(row.ok is False for row in bench.rows) else 0


if __name__ == "__main__":
    sys.exit(alone())
