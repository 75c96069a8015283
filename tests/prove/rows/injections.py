# SPDX-License-Identifier: Apache-2.0
"""The agent is put into targets of all interpreters in all states, and taken out again."""

from __future__ import annotations

import random

from targets import Batch, Busy, run_gsprof
from trials import Context, Result

NAME = "injections"
ORDER = 20
TITLE = "injections, all interpreters and thread states"
REQUIRED = 10_000
REQUIREMENT = "0 failures, 0 dead targets; signals, signal masks and results as before"
SHORT = 5

EACH = 12  # injections into one target
SIGNALS = 5  # to the target during each


def use(batch: Batch, target: Busy, rng: random.Random) -> None:
    for _ in range(rng.randint(1, EACH)):
        if batch.is_over():
            return
        for command in (["inject", "--timeout", "60s"], ["eject", "--timeout", "60s"]):
            for _ in range(rng.randint(0, SIGNALS)):
                target.send_signal()
            status, said = run_gsprof([*command, target.pid])
            if status != 0:
                batch.fail(f"{target}: {command[0]} exited with status {status}: {said}")
            target.check()
        batch.count(str(target.python), is_trial=True)
        batch.count(f"state {target.state}")


def run(context: Context, count: int, seconds: float) -> Result:
    return Batch(context, count, seconds).run(use)
