# SPDX-License-Identifier: Apache-2.0
"""A recorder that stops threads is killed while at least one thread is stopped.

To be sure of that, the recorder is frozen with SIGSTOP at a random moment. If no thread of the
target is stopped by it then, it continues, and the next moment is tried."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path
from typing import List

from support import GSPROF
from targets import Batch, Busy, Fault
from trials import Context, Result

NAME = "recorder_killed"
ORDER = 10
TITLE = "recorder killed while threads are stopped (`--blocking`, `--native`)"
REQUIRED = 10_000
REQUIREMENT = "0 targets left stopped or traced"
SHORT = 12

EACH = 60  # kills per target
SIGNALS = 3  # to the target during each recording
MOMENTS = 300  # tried per recorder
LATEST_S = 0.06  # after the start, of the first moment
GAP_S = 0.002  # longest time between two moments
EARLY = 0.15  # share of the recorders that are killed whatever they do, while they start
STATES = ["python", "c", "gil", "sleep", "lock", "forks", "start_threads", "alarms", "many"]
MODES = [["--blocking"], ["--native", "--native-capture", "stop"], ["--blocking", "--native"]]


class Recorder:
    """A recording in the background."""

    def __init__(self, target: Busy, mode: List[str], rng: random.Random, path: Path) -> None:
        self.target = target
        rate = rng.choice([500, 1000, 2000, 5000])
        command = ["record", "-p", target.pid, "-o", path, "-r", rate, "--force", "-q", "--idle"]
        self.process = subprocess.Popen(
            [str(GSPROF), *map(str, command), *mode],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def wait(self, seconds: float) -> bool:
        """Lets it run. Returns false if it has ended."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def freeze(self) -> bool:
        """Stops it. Returns false if it has ended."""
        self.process.send_signal(signal.SIGSTOP)
        flags = os.WEXITED | os.WSTOPPED | os.WNOWAIT
        seen = os.waitid(os.P_PID, self.process.pid, flags)
        return seen is not None and seen.si_code == os.CLD_STOPPED

    def is_holding(self) -> bool:
        """Whether a thread of the target is stopped by it."""
        mine = str(self.process.pid)
        return any(
            fields and fields["State"][0] == "t" and fields["TracerPid"] == mine
            for fields in self.target.threads().values()
        )

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> int:
        self.process.kill()
        status = self.process.wait()
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read().decode("utf-8", "replace")
        self.process.stderr.close()
        return status


def kill_holding(recorder: Recorder, rng: random.Random) -> str:
    """Kills the recorder at a moment at which a thread is stopped. Returns what was killed."""
    for number in range(MOMENTS):
        longest_s = GAP_S if number else LATEST_S
        if not recorder.wait(rng.uniform(0, longest_s)) or not recorder.freeze():
            recorder.kill()
            raise Fault(f"the recorder ended: {recorder.errors}")
        if recorder.is_holding():
            recorder.kill()
            return "stopped"
        recorder.go_on()
    recorder.kill()
    return "no thread was stopped"


def use(batch: Batch, target: Busy, rng: random.Random) -> None:
    path = batch.context.folder / f"{target.pid}.gsp"
    for _ in range(EACH):
        if not batch.next_trial():
            return
        mode = rng.choice(MODES)
        recorder = Recorder(target, mode, rng, path)
        for _ in range(rng.randint(0, SIGNALS)):
            target.send_signal()
        try:
            if rng.random() < EARLY:
                recorder.wait(rng.uniform(0, 0.04))
                recorder.kill()
                what = "while it starts"
            else:
                what = kill_holding(recorder, rng)
        finally:
            if recorder.process.poll() is None:
                recorder.kill()
        is_trial = what == "stopped"
        try:
            target.check()
        except Fault as fault:
            batch.count(str(target.python), is_trial=True)
            raise Fault(f"recorder with {' '.join(mode)} killed ({what}): {fault}") from fault
        if is_trial:
            batch.count(str(target.python), is_trial=True)
            batch.count(f"state {target.state}")
            batch.count(f"mode {' '.join(mode)}")
        else:
            batch.was_no_trial()
            batch.count(f"also killed: {what}")


def run(context: Context, count: int, seconds: float) -> Result:
    return Batch(context, count, seconds).run(use, STATES)
