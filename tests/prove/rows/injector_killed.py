# SPDX-License-Identifier: Apache-2.0
"""`gsprof inject`, `eval` and `eject` are killed at random moments of their run time. The target
notices nothing, and the next command works."""

from __future__ import annotations

import random
import statistics
import subprocess
import threading
import time
from typing import Dict, List, Tuple

from support import EXIT_NOFILE, GSPROF
from targets import Batch, Busy, Fault, run_gsprof
from trials import Context, Result

NAME = "injector_killed"
ORDER = 30
TITLE = "injector killed (`inject`, `eval` and `eject`)"
REQUIRED = 10_000
REQUIREMENT = (
    "no target dies, hangs, loses a signal or keeps one blocked; results bit for bit the same"
)
SHORT = 5

EACH = 20  # kills per target
SIGNALS = 5  # to the target around each kill
COMMANDS: Dict[str, List[str]] = {
    "inject": ["inject", "--timeout", "60s"],
    "eval": ["eval", "--yes", "--timeout", "60s"],
    "eject": ["eject", "--timeout", "60s"],
}
CODE = "sum(1.0 / n for n in range(1, 2000))"
VALUE = repr(sum(1.0 / n for n in range(1, 2000)))


class Clock:
    """How long commands take, by command and version. A kill may be at any time of it."""

    def __init__(self) -> None:
        self.times: Dict[Tuple[str, str], List[float]] = {}
        self.lock = threading.Lock()

    def add(self, command: str, target: Busy, seconds: float) -> None:
        with self.lock:
            self.times.setdefault((command, str(target.python)), []).append(seconds)

    def longest(self, command: str, target: Busy) -> float:
        """The last tenth of the runs is longer: those on a machine that was busy."""
        with self.lock:
            known = sorted(self.times.get((command, str(target.python)), [])[-50:])
        return statistics.median(known) * 1.2 if known else 0.0


def argv(command: str, target: Busy) -> List[str]:
    code = [CODE] if command == "eval" else []
    return [*COMMANDS[command], str(target.pid), *code]


def complete(command: str, target: Busy, clock: Clock, *accepted: int) -> None:
    """Runs a command to its end. It has to work, whatever was killed before."""
    began_s = time.monotonic()
    status, said = run_gsprof(argv(command, target))
    if status not in (0, *accepted):
        raise Fault(f"{command} after a kill exited with status {status}: {said}")
    if command == "eval" and said.strip() != VALUE:
        raise Fault(f"eval after a kill printed {said!r}")
    if status == 0:
        clock.add(command, target, time.monotonic() - began_s)


def kill_one(command: str, target: Busy, rng: random.Random, longest_s: float) -> bool:
    """Starts a command and kills it. Returns false if it was faster than the kill."""
    signals = rng.randint(0, SIGNALS)
    process = subprocess.Popen(
        [str(GSPROF), *argv(command, target)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end_s = time.monotonic() + rng.uniform(0, longest_s)
    try:
        for left in range(signals, 0, -1):
            process.wait(max(0.0, (end_s - time.monotonic()) / left * rng.random()))
    except subprocess.TimeoutExpired:
        pass
    for _ in range(signals):
        target.send_signal()
    try:
        process.wait(max(0.0, end_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    process.kill()
    return process.wait() < 0


def prepare(command: str, target: Busy, clock: Clock) -> None:
    """inject needs a target without the agent, eject one with it."""
    if command == "inject":
        complete("eject", target, clock, EXIT_NOFILE)
    elif command == "eject":
        complete("inject", target, clock)


def use(batch: Batch, target: Busy, rng: random.Random, clock: Clock) -> None:
    if not all(clock.longest(command, target) for command in COMMANDS):
        for command in COMMANDS:
            complete(command, target, clock)
    for _ in range(EACH):
        if batch.is_over():
            return
        command = rng.choice(["inject", "inject", "inject", "eval", "eval", "eject"])
        prepare(command, target, clock)
        is_killed = kill_one(command, target, rng, clock.longest(command, target))
        try:
            target.check()
        except Fault as fault:
            batch.count(str(target.python), is_trial=True)
            raise Fault(f"{command} killed: {fault}") from fault
        if not is_killed:
            batch.count("ended before the kill")
            continue
        batch.count(str(target.python), is_trial=True)
        batch.count(f"state {target.state}")
        batch.count(f"killed {command}")


def run(context: Context, count: int, seconds: float) -> Result:
    clock = Clock()
    return Batch(context, count, seconds).run(
        lambda batch, target, rng: use(batch, target, rng, clock)
    )
