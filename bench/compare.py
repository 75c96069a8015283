# SPDX-License-Identifier: Apache-2.0
"""The time that gsprof compare takes for two large runs."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import List

from common import Bench, Row, run, shown
from made_runs import make_run
from support import GSPROF

STEPS = 100_000
MODULES = 2_000
CALLS = 100
WALL_BAR_S = 1.5


def main(bench: Bench) -> None:
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        sides = [
            make_run(Path(folder) / name, seed, STEPS, modules=MODULES, calls=CALLS)
            for seed, name in enumerate(("base", "new"))
        ]
        argv = [GSPROF, "compare", *sides, "-f", "json"]
        walls: List[float] = []
        cpu: List[float] = []
        for _ in range(bench.rounds(9)):
            cost = run(argv)
            if cost.status:
                raise RuntimeError(f"gsprof compare: {cost.out[:2000]}")
            walls.append(cost.wall_s)
            cpu.append(cost.cpu_s)
    value = statistics.median(walls)
    what = f"two runs of {STEPS:,} steps and {MODULES:,} modules"
    note = f"least {min(walls):.2f} s, {min(cpu):.2f} s CPU; {CALLS} calls per module"
    ok = value <= WALL_BAR_S
    bench.add(Row("compare", what, value, "s", f"<= {WALL_BAR_S:g}", ok, shown(argv), note))
