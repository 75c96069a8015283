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
from targets import NO_STOPS, STATES, Batch, Busy, Fault, run_gsprof
from trials import TOOLS, Context, Result

NAME = "injector_killed"
ORDER = 30
TITLE = "injector killed (`inject`, `eval` and `eject`)"
REQUIRED = 10_000
REQUIREMENT = (
    "no target dies, hangs, loses a signal or keeps one blocked; results bit for bit the same"
)
SHORT = 5

EACH = 8  # kills per target: many targets, so that each state is often used
SIGNALS = 5  # to the target around each kill
# At which moment a command is killed. Inside: a thread is borrowed, which shows in its blocked
# signals, and runs. Both are read right before the kill, while the command is frozen. Held: the
# thread is only traced, or its call is over. tests/tools/kill_aim.c aims at these two.
INSIDE = "while the call ran"
HELD = "while it held a stopped thread"
ANY = "at any time"
WEIGHTS = [0.6, 0.1, 0.15, 0.15]  # call, pause, step, any
INSIDE_REQUIRED = 2_000
# What kill_aim counts, and how often it happens at least.
AIMS = {"call": 14, "pause": 14, "step": 40}
LATER_US = 300  # longest time for which a call runs before the kill
LONGEST_S = 0.05  # time in which signals are sent, about that of a command
STOPPED = 0.1  # share of the kills at which the target is stopped by its user
KILL_AIM = TOOLS / "kill_aim"
# A killed command leaves the thread to a signal frame that the injector has made. These states
# show whether all registers are restored from it.
FRAMED = ["vectors"] * 9 + ["c_upward"] * 2 + ["c"] * 2
COMMANDS: Dict[str, List[str]] = {
    "inject": ["inject", "--timeout", "60s"],
    "eval": ["eval", "--yes", "--timeout", "60s"],
    "eject": ["eject", "--timeout", "60s"],
}
CODE = "sum(n * n % 7 for n in range(1, 20_000))"
VALUE = str(sum(n * n % 7 for n in range(1, 20_000)))


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


class Aimed:
    """A command that is killed at a certain moment."""

    def __init__(self, command: str, target: Busy, what: str, rng: random.Random) -> None:
        # Few parts of a borrowed call take nearly all of its time: after a late moment there may be
        # none left.
        number = int(AIMS[what] * rng.random() ** (1 if what == "step" else 5))
        later_us = 0 if what == "step" else rng.choice([0, 0, 0, rng.randint(1, LATER_US)])
        self.process = subprocess.Popen(
            [KILL_AIM, what, str(number), str(later_us), str(GSPROF), *argv(command, target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def answer(self) -> List[str]:
        """Waits for the moment: "killed", "frozen" and the process id, or "ended"."""
        assert self.process.stdout is not None
        words = self.process.stdout.readline().decode().split()
        if not words:
            raise RuntimeError(f"{KILL_AIM} ended with status {self.process.wait()}")
        return words

    def kill(self) -> None:
        self.process.communicate(b"\n")


def moment_of(target: Busy, tracer: int) -> str:
    """Returns at which moment the command is that traces the target."""
    held = target.held_by(tracer)
    if any(is_borrowed and state not in "tT" for state, is_borrowed in held):
        return INSIDE
    return HELD if held else ANY


def stop_at_kill(target: Busy, rng: random.Random) -> bool:
    """Sometimes the target is stopped by its user, and stays so after the kill."""
    stops = target.state not in NO_STOPS and rng.random() < STOPPED
    if stops:
        os.kill(target.pid, signal.SIGSTOP)
    return stops


def kill_aimed(command: str, target: Busy, rng: random.Random, what: str) -> Tuple[str, bool]:
    """Kills a command at a certain moment. Returns which it was, "" if the command was faster, and
    whether the target was stopped."""
    signals = rng.randint(0, SIGNALS)
    before = signals if what == "call" else signals // 2
    moment, stops = "", False
    aimed = Aimed(command, target, what, rng)
    try:
        # A thread that is traced by a frozen process cannot stop.
        for _ in range(before):
            time.sleep(rng.uniform(0, LONGEST_S) / SIGNALS)
            target.send_any_signal(may_stop=False)
        said = aimed.answer()
        if said[0] == "killed":
            moment = INSIDE
        elif said[0] == "frozen":
            for _ in range(signals - before):
                target.send_any_signal(may_stop=False)
            stops = stop_at_kill(target, rng)
            moment = moment_of(target, int(said[1]))
    finally:
        aimed.kill()
    return moment, stops


def kill_any(command: str, target: Busy, rng: random.Random, longest_s: float) -> Tuple[str, bool]:
    """Kills a command at a random moment of its run time. Returns the same as kill_aimed()."""
    process = subprocess.Popen(
        [str(GSPROF), *argv(command, target)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stops = False
    try:
        for left in range(rng.randint(0, SIGNALS), 0, -1):
            wait(process, rng.uniform(0, longest_s) / left / 2)
            target.send_any_signal()
        wait(process, rng.uniform(0, longest_s))
        stops = stop_at_kill(target, rng)
    finally:
        process.kill()
        is_killed = process.wait() == -signal.SIGKILL
    return ANY if is_killed else "", stops


def wait(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Lets a command run."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass


def kill_one(command: str, target: Busy, rng: random.Random, longest_s: float) -> str:
    """Starts a command and kills it. Returns at which moment; "" if it was faster than the kill."""
    what = rng.choices(["call", "pause", "step", "any"], WEIGHTS)[0]
    if what == "any":
        moment, stops = kill_any(command, target, rng, longest_s)
    else:
        moment, stops = kill_aimed(command, target, rng, what)
    if stops:
        target.wait_until_stopped()  # it stays stopped until its user continues it
        target.go_on()
    return moment


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
        if not batch.next_trial():
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
            batch.was_no_trial()
            batch.count("ended before the kill")
            continue
        batch.count(f"killed {moment}")
        batch.count(str(target.python), is_trial=True)
        batch.count(f"state {target.state}")
        batch.count(f"killed {command}")


def run(context: Context, count: int, seconds: float) -> Result:
    clock = Clock()
    return Batch(context, count, seconds).run(
        lambda batch, target, rng: use(batch, target, rng, clock), [*STATES, *FRAMED]
    )
