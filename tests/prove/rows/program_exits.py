# SPDX-License-Identifier: Apache-2.0
"""Programs end with the agent and memory counting active as they do alone.

Uses the cases of tests/exits/exits.py. One program in ten runs under `gsprof run`, the others with
the same environment but without the recorder outside, which has no part in their exit and takes
seconds. A program runs alone once per interpreter, and again if it ends differently with the agent,
because its ending may vary."""

from __future__ import annotations

import random
import shutil
import struct
import sys
import threading
import traceback
from pathlib import Path
from typing import List

from support import PACKAGE, ROOT, Python
from trials import Context, Result, in_threads

sys.path.insert(0, str(ROOT / "tests" / "exits"))

from exits import CASES, Case, build_native, compare, fits  # noqa: E402

NAME = "program_exits"
ORDER = 40
TITLE = "program exits with the agent and memory counting active"
REQUIRED = 10_000
REQUIREMENT = "identical exit status and output"
SHORT = 8

WHOLE = 0.1  # share of the programs under `gsprof run`
SLOW_WEIGHT = 0.15  # of a case that takes seconds, relative to the others
TOTALS_AT = 176  # offset of `total` in struct gsp_memory_head
ALLOCATORS = 5
WORKERS = 2  # per job: the programs wait half of the time


def allocations(path: Path) -> int:
    """Returns how many allocations a process has counted: the sum of the totals of its file of
    counters, whose layout is in src/wire/memory.h."""
    head = path.read_bytes()[:4096]
    if head[:8] != b"GSPMEM01":
        return 0
    return sum(struct.unpack_from("<Q", head, TOTALS_AT + 32 * n + 8)[0] for n in range(ALLOCATORS))


class Batch:
    """The programs of a batch, which several threads share."""

    def __init__(self, context: Context, count: int, seconds: float) -> None:
        self.context = context
        self.seconds = seconds
        self.left = count
        self.cases = [case for case in CASES if case.is_short or not context.is_short]
        self.weights = [1.0 if case.every == 1 else SLOW_WEIGHT for case in self.cases]
        self.result = Result()
        self.lock = threading.Lock()
        self.pythons: List[Python] = context.pythons
        self.native = build_native(context.folder)

    def stop(self) -> None:
        self.left = 0

    def next(self) -> bool:
        with self.lock:
            if self.left <= 0 or self.context.is_over(self.seconds):
                return False
            self.left -= 1
            return True

    def add(self, case: Case, python: Python, difference: str, varies: bool) -> None:
        with self.lock:
            self.result.count += 1
            self.result.add(str(python))
            if varies:
                self.result.add("ending varies alone")
            if difference:
                command = f"tests/exits/exits.py --python {python.path} --only '{case.name}'"
                what = f"{case.name} on {python}: {difference}"
                self.result.failures.append(
                    self.context.failure(what, self.result.count - 1, command)
                )

    def work(self, number: int) -> None:
        rng = random.Random(f"{self.context.row} {self.context.seed} {number}")
        folder = self.context.folder / str(number)
        folder.mkdir()
        while self.next():
            python, case = rng.choice(self.pythons), rng.choices(self.cases, self.weights)[0]
            while not fits(case, python):
                case = rng.choices(self.cases, self.weights)[0]
            self.end_one(case, python, folder, rng)

    def end_one(self, case: Case, python: Python, folder: Path, rng: random.Random) -> None:
        seen = folder / "seen"  # each process with the agent adds a line
        runtime = folder / "run"  # and leaves its rings and counters
        shutil.rmtree(runtime, ignore_errors=True)
        runtime.mkdir(mode=0o700)
        agent = {
            "XDG_RUNTIME_DIR": str(runtime),
            "PYTHONPATH": str(PACKAGE / "start"),
            "GSPROF": "nested",
            "GSPROF_FOLLOW": "0",
            "GSPROF_MEMORY": rng.choice(["exact", "sampled"]),
            # Bytes between samples. With the default, a small program may end before the first.
            "GSPROF_MEMORY_INTERVAL": "4096",
            "GSPROF_TORCH_PROFILING": "on",
            "GSPROF_RUN_FILE": str(seen),
        }
        is_whole = rng.random() < WHOLE
        seen.write_text("")
        try:
            given = None if is_whole else agent
            outcome = compare(case, python.path, folder, self.native, given)
            difference = outcome.difference
            # A line with more than a process id says why the agent is not active, for example in a
            # sub-interpreter.
            lines = seen.read_text().splitlines()
            if not is_whole and not any(line.isdigit() for line in lines):
                difference += f"the agent was not active: {lines}"
            if not is_whole and not any(map(allocations, runtime.glob("gsprof/*/memory"))):
                difference += f"no allocation was counted: {sorted(runtime.rglob('*'))[:20]}"
            self.add(case, python, difference, outcome.varies)
            with self.lock:
                how = "under `gsprof run`" if is_whole else f"memory {agent['GSPROF_MEMORY']}"
                self.result.add(how)
        except Exception:
            self.add(case, python, traceback.format_exc(), False)


def run(context: Context, count: int, seconds: float) -> Result:
    batch = Batch(context, count, seconds)
    in_threads(WORKERS * context.jobs, batch.work, batch.stop)
    return batch.result
