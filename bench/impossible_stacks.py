#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Impossible stacks: samples programs that call and return as fast as Python can
(tests/integration/programs/adversary.py) at three rates, and counts stacks that the program cannot
have.

  bench/impossible_stacks.py               every interpreter, 300,000 samples each
  bench/impossible_stacks.py --samples 30000 3.11 3.15
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import List

from common import (
    FULL_SPEED_HZ,
    Bench,
    Row,
    for_each_python,
    gsprof_argv,
    need,
    report_of,
    run,
    shown,
)
from greenlets import environment
from impossible import KINDS, Legal, Stack
from support import Python, probe
from torn import gsprof_stacks

LIMIT_PCT = 0.001
RATES_HZ = (1000, 10000, FULL_SPEED_HZ)
# Shares of the samples of one kind. A slow rate takes long; the fastest is the hardest.
SHARES = {1000: 0.1, 10000: 0.3, FULL_SPEED_HZ: 0.6}
# Samples per second on a quiet machine. A busy machine needs several recordings.
SPEED = {1000: 900, 10000: 8000, FULL_SPEED_HZ: 40000}
# The mark of the garbage collector in a folded stack, which is not a function of the program.
GARBAGE = "(garbage"
RECORDINGS_MAX = 12
LEAST_S = 1.0


class Count:
    """Counts over all recordings of one interpreter."""

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


def one_python(bench: Bench, python: Python, kinds: List[str], samples: float) -> None:
    count = Count()
    for kind in kinds:
        one_kind(bench, python, kind, int(samples) // len(kinds), count)
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
            f"{python}: torn samples",
            100.0 * count.torn / max(1, count.total + count.torn),
            "%",
        )
    )
    for stack, times in count.bad.most_common(8):
        print(f"      {times} {' > '.join(stack)}")


def main(bench: Bench) -> None:
    python = probe(bench.python)
    assert python is not None, bench.python
    one_python(bench, python, list(KINDS), 60000)


if __name__ == "__main__":
    SAMPLES = ("samples", 300000, "samples per interpreter")
    sys.exit(for_each_python(__doc__, list(KINDS), SAMPLES, one_python))
