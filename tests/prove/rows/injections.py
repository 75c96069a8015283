# SPDX-License-Identifier: Apache-2.0
"""The agent is put into targets of all interpreters in all states, and taken out again."""

from __future__ import annotations

import random
import time

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
LONGEST_S = 0.1  # time in which they are sent, about that of an injection


def send_signals(target: Busy, rng: random.Random) -> None:
    for _ in range(rng.randint(0, SIGNALS)):
        time.sleep(rng.uniform(0, LONGEST_S / SIGNALS))
        target.send_any_signal(may_stop=False)  # gsprof refuses a stopped process


def use(batch: Batch, target: Busy, rng: random.Random) -> None:
    for _ in range(rng.randint(1, EACH)):
        if not batch.next_trial():
            return
        for command in (["inject", "--timeout", "60s"], ["eject", "--timeout", "60s"]):
            status, said = run_gsprof(
                [*command, target.pid], during=lambda: send_signals(target, rng)
            )
            if status != 0:
                batch.fail(f"{target}: {command[0]} exited with status {status}: {said}")
            target.check()
        batch.count(str(target.python), is_trial=True)
        batch.count(f"state {target.state}")


def run(context: Context, count: int, seconds: float) -> Result:
    return Batch(context, count, seconds).run(use)
