# SPDX-License-Identifier: Apache-2.0
"""`gsprof inject`, `eval` and `eject` are killed: most of them while they hold a thread of the
target, the others at random moments of their run time. The target notices nothing, and the next
command works."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import threading
import time
from typing import Dict, List, Mapping, Tuple

from support import EXIT_NOFILE, GSPROF
from targets import NO_STOPS, Batch, Busy, Fault, run_gsprof
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
# At which moment a command is killed. Held: it is frozen at random moments until it traces a thread
# of the target. Inside: that thread runs too, which it does only for the borrowed call.
INSIDE = "inside the call"
HELD = "while it held a stopped thread"
ANY = "at any time"
WEIGHTS = [0.6, 0.2, 0.2]
INSIDE_REQUIRED = 2_000
POLL_S = 0.0003  # between two times at which the threads are read
HOLD_S = 0.003  # longest time from such a read to the kill
SETTLED = 0.3  # share of the moments with a stopped thread that are used in place of a running one
STOPPED = 0.1  # share of the kills at which the target is stopped by its user
COMMANDS: Dict[str, List[str]] = {
    "inject": ["inject", "--timeout", "60s"],
    "eval": ["eval", "--yes", "--timeout", "60s"],
    "eject": ["eject", "--timeout", "60s"],
}
CODE = "sum(1.0 / n for n in range(1, 2000))"
VALUE = repr(sum(1.0 / n for n in range(1, 2000)))


def is_reached(count: int, details: Mapping[str, float]) -> bool:
    return count >= REQUIRED and details.get(f"killed {INSIDE}", 0) >= INSIDE_REQUIRED


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


class Injector:
    """A command in the background."""

    def __init__(self, command: str, target: Busy) -> None:
        self.target = target
        self.process = subprocess.Popen(
            [str(GSPROF), *argv(command, target)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self, seconds: float) -> bool:
        """Lets it run. Returns false if it has ended."""
        try:
            self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return True
        return False

    def freeze(self) -> bool:
        """Stops it. Returns false if it has ended."""
        self.process.send_signal(signal.SIGSTOP)
        if self.process.returncode is not None:  # noticed by send_signal()
            return False
        seen = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        return seen is not None and seen.si_code == os.CLD_STOPPED

    def held(self) -> List[str]:
        """The states of the threads that it traces."""
        found: List[str] = self.target.traced_by(self.process.pid)
        return found

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> bool:
        """Returns false if it had ended."""
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL


def freeze_holding(injector: Injector, rng: random.Random, is_inside: bool) -> str:
    """Freezes the command at a random moment at which it holds a thread; if is_inside, at one at
    which that thread also runs. Returns how the thread was held, or "" if the command ended."""
    while injector.wait(POLL_S):
        if not injector.held():
            continue
        if not injector.wait(rng.uniform(0, HOLD_S)) or not injector.freeze():
            return ""
        states = injector.held()
        # A traced thread that is not stopped runs the borrowed call.
        runs = any(state != "t" for state in states)
        if states and (runs or not is_inside or rng.random() < SETTLED):
            return INSIDE if runs else HELD
        injector.go_on()
    return ""


def kill_one(command: str, target: Busy, rng: random.Random, longest_s: float) -> str:
    """Starts a command and kills it. Returns at which moment; "" if it was faster than the kill."""
    injector = Injector(command, target)
    signals = rng.randint(0, SIGNALS)
    kind = rng.choices([INSIDE, HELD, ANY], WEIGHTS)[0]
    stops = False
    try:
        if kind == ANY:
            for left in range(signals, 0, -1):
                injector.wait(rng.uniform(0, longest_s) / left / 2)
                target.send_any_signal()
            injector.wait(rng.uniform(0, longest_s))
            moment = ANY
        else:
            # Some signals arrive before the command holds a thread, the others meanwhile.
            for _ in range(signals // 2):
                target.send_any_signal()
            moment = freeze_holding(injector, rng, kind == INSIDE)
            # A thread that is traced by a frozen process cannot stop.
            for _ in range(signals - signals // 2):
                target.send_any_signal(may_stop=False)
        stops = target.state not in NO_STOPS and rng.random() < STOPPED
        if stops:
            os.kill(target.pid, signal.SIGSTOP)
    finally:
        is_killed = injector.kill()
    if stops:
        target.wait_until_stopped()  # it stays stopped until its user continues it
        target.go_on()
    return moment if is_killed else ""


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
        moment = ""
        try:
            moment = kill_one(command, target, rng, clock.longest(command, target))
            before = target.interrupted
            target.check(is_killed=True)
            if target.interrupted > before:
                batch.count("EINTR of waits that any stop ends")
        except Fault as fault:
            batch.count(str(target.python), is_trial=True)
            raise Fault(f"{command} killed {moment}: {fault}") from fault
        if not moment:
            batch.count("ended before the kill")
            continue
        batch.count(f"killed {moment}")
        batch.count(str(target.python), is_trial=True)
        batch.count(f"state {target.state}")
        batch.count(f"killed {command}")


def run(context: Context, count: int, seconds: float) -> Result:
    clock = Clock()
    return Batch(context, count, seconds).run(
        lambda batch, target, rng: use(batch, target, rng, clock)
    )
