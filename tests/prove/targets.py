# SPDX-License-Identifier: Apache-2.0
"""Targets that are attached to again and again, in all states and under all interpreters, and the
check that nothing has changed for them."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from support import GSPROF, Lines, Python
from trials import HERE, TOOLS, Context, Result, in_threads

BUSY = HERE / "programs" / "busy.py"
PROBE = TOOLS / "libprove_probe.so"
STATES = ["python", "c", "c_upward", "gil", "allocate", "sleep", "lock", "epoll", "select", "read"]
STATES += ["forks", "start_threads", "alarms", "alarms_c", "many", "vectors"]
STATES += ["poll", "recv", "epoll_c", "sigwait", "context_stack", "thread_stack"]
# After any stop, such as SIGSTOP and SIGCONT, these system calls end with EINTR: signal(7). gsprof
# repeats them, except if it is killed in the first microseconds of a stop.
NO_STOPS = ["epoll_c", "sigwait"]

# Limit for a target to be as before. Only a machine under heavy load comes near it.
SETTLE_S = 60.0
DUMP_S = 30.0  # limit for the stacks of a target that hangs
DUMP_CHARS = 3000  # of them that a failure includes
WORKERS = 2  # per job
STATUS = 7  # with which the program exits
LAYOUT = {"stop": 0, "signals": 8, "alarms": 16, "wrong": 24, "computed": 32, "eintr": 40}
LAYOUT.update({"SIGFPE": 48, "SIGTRAP": 56, "SIGSEGV": 64})
SLOTS_AT = 128
FAULTS = ["SIGFPE", "SIGTRAP", "SIGSEGV"]
# The signals that a borrowed thread blocks. A fault that another process sends is blocked too, when
# it arrives; no test sends the other three. SIGKILL and SIGSTOP cannot be blocked.
SENT_FAULTS = sum(1 << (getattr(signal, name) - 1) for name in FAULTS)
BORROWED = (1 << 64) - 1
for number in (signal.SIGBUS, signal.SIGILL, signal.SIGSYS, signal.SIGKILL, signal.SIGSTOP):
    BORROWED &= ~(1 << (number - 1))
HOLD_S = 0.003  # for which a stopped target must not run
SYS_TGKILL = {"x86_64": 234, "aarch64": 131}.get(os.uname().machine, 0)


class Fault(Exception):
    """A target is not as before."""


def until(condition: Callable[[], Any], what: str, limit_s: float = SETTLE_S) -> Any:
    """Returns the first true value of condition(); otherwise raises Fault."""
    deadline = time.monotonic() + limit_s
    pause_s = 0.0005
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Fault(what)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.005)


class Busy:
    """A running programs/busy.py."""

    def __init__(self, python: Python, state: str, folder: Path, rng: random.Random) -> None:
        self.python = python
        self.state = state
        self.rng = rng
        self.path = folder / f"{state}-{python}-{rng.getrandbits(48):x}"
        self.path.write_bytes(bytes(4096))
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 4096)
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "GSPROF_FOLLOW": "0"}
        argv = [python.path, str(BUSY), str(PROBE), str(self.path), state]
        self.error_path = Path(f"{self.path}.err")
        with open(self.error_path, "wb") as errors:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=env
            )
        assert self.process.stdout is not None
        self.lines = Lines(self.process.stdout.fileno())
        self.sent = 0
        self.interrupted = 0  # accepted system calls that ended with EINTR
        self.faults = dict.fromkeys(FAULTS, 0)
        try:
            self.slots = int(self.lines.next() or 0)
            self.wait_for_progress()
            self.masks = self.masks_now()
        except BaseException:
            self.kill()
            raise

    def __str__(self) -> str:
        return f"{self.state} on {self.python}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def number(self, name: str) -> int:
        at = LAYOUT[name]
        return int.from_bytes(self.memory[at : at + 8], "little")

    def progress(self) -> List[int]:
        end = SLOTS_AT + 8 * self.slots
        return list(memoryview(self.memory[SLOTS_AT:end]).cast("Q"))

    def check_alive(self) -> None:
        status = self.process.poll()
        if status is not None:
            raise Fault(f"the target ended with status {status}{self.errors()}")

    def errors(self) -> str:
        text = self.error_path.read_text(encoding="utf-8", errors="replace")
        return f": {text[-2000:]}" if text else ""

    def native_stacks(self) -> str:
        """The stacks of a target that hangs, or why there are none."""
        if self.process.poll() is not None:
            return ""
        try:
            args = ["dump", "--native", "--pid", self.pid]
            text = run_gsprof(args, DUMP_S)[1]
        except (OSError, subprocess.SubprocessError) as error:
            text = f"no dump: {error}"
        return f"\n{text[:DUMP_CHARS]}"

    def wait_for_progress(self) -> None:
        """Waits until each thread has continued."""
        before = self.progress()

        def has_continued() -> bool:
            self.check_alive()
            return all(new > old for new, old in zip(self.progress(), before))

        try:
            until(has_continued, f"threads do not continue: {before}, threads {self.threads()}")
        except Fault as fault:
            raise Fault(f"{fault}{self.native_stacks()}") from fault

    def held_by(self, tracer: int) -> List[Tuple[str, bool]]:
        """The threads that this process traces: the state of each, and whether it is borrowed. The
        injector blocks all signals of a borrowed thread but those of faults, which no program does.
        """
        mark = b"\nTracerPid:\t%d\n" % tracer
        found = []
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{tid}/status", "rb", buffering=0) as file:
                    text = file.read(4096)
            except OSError:
                continue
            if mark in text:
                blocked = int(text.split(b"\nSigBlk:\t")[1][:16], 16)
                state = text.split(b"\nState:\t")[1][:1].decode()
                found.append((state, blocked | SENT_FAULTS == BORROWED))
        return found

    def threads(self) -> Dict[str, Dict[str, str]]:
        """The status of each thread as the kernel describes it."""
        found = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                text = (task / "status").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            found[task.name] = dict(re.findall(r"^(State|TracerPid|SigBlk):\t(.*)$", text, re.M))
        return found

    def masks_now(self) -> Dict[str, str]:
        return {tid: fields.get("SigBlk", "") for tid, fields in self.threads().items()}

    def are_masks_kept(self) -> bool:
        """Whether each thread has the mask of the start. A thread that has ended has none; a thread
        that exists only for a moment was not there at the start."""
        now = self.masks_now()
        if self.state in ("start_threads", "thread_stack"):
            return now.get(str(self.pid)) == self.masks[str(self.pid)]
        return all(now.get(tid) == mask for tid, mask in self.masks.items())

    def is_free(self) -> bool:
        """Whether no thread is stopped or traced."""
        return all(
            fields["State"][0] not in "Tt" and fields["TracerPid"] == "0"
            for fields in self.threads().values()
            if fields
        )

    def send_signal(self) -> None:
        """Queues a real-time signal: the program has to receive each. Half of them are sent to the
        main thread and half to the process."""
        self.sent += self.send(signal.SIGRTMIN + self.rng.choice([3, 4]))

    def send_any_signal(self, may_stop: bool = True) -> None:
        """Sends a real-time signal, a signal that usually reports a fault of the program, or
        SIGSTOP, and SIGCONT when it has stopped."""
        chance = self.rng.random()
        name = self.rng.choice(FAULTS)
        if chance < 0.1 and may_stop and self.state not in NO_STOPS:
            self.stop()
            self.go_on()
        elif chance < 0.5 and self.number(name) == self.faults[name]:
            # Two signals of one kind may arrive as one: the last has to arrive first.
            self.faults[name] += self.send(getattr(signal, name))
        else:
            self.send_signal()

    def send(self, number: int) -> bool:
        """Sends a signal to the main thread or to the process."""
        if SYS_TGKILL and self.rng.random() < 0.5:
            libc = ctypes.CDLL(None, use_errno=True)
            return bool(libc.syscall(SYS_TGKILL, self.pid, self.pid, int(number)) == 0)
        os.kill(self.pid, number)
        return True

    def is_stopped(self) -> bool:
        """Whether all threads are stopped, and stay so for some time."""
        self.check_alive()
        for _ in range(2):
            before = self.progress()
            if any(fields["State"][0] not in "Tt" for fields in self.threads().values() if fields):
                return False
            time.sleep(HOLD_S)
        return self.progress() == before

    def stop(self) -> None:
        """Stops the program as its user does."""
        os.kill(self.pid, signal.SIGSTOP)
        self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        try:
            until(self.is_stopped, "SIGSTOP does not stop the target")
        except Fault as fault:
            raise Fault(f"{fault}: {self.threads()}") from fault

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def check(self, is_killed: bool = False) -> None:
        """Raises Fault unless the target runs as before. If gsprof was killed, a system call that
        any stop ends with EINTR may have ended so."""
        self.check_alive()
        until(self.is_free, f"a thread is stopped or traced: {self.threads()}")
        self.wait_for_progress()
        until(
            lambda: self.number("signals") == self.sent,
            f"{self.sent} signals were sent, {self.number('signals')} arrived",
        )
        for name, sent in self.faults.items():
            until(lambda: self.number(name) >= sent, f"{name} was lost: {sent} sent")  # noqa: B023
            if self.number(name) != sent:
                raise Fault(f"{sent} {name} were sent, {self.number(name)} arrived")
        until(
            self.are_masks_kept,
            f"the signal masks were {self.masks} and are {self.masks_now()}",
        )
        if self.state.startswith("alarms"):
            before = self.number("alarms")
            until(lambda: self.number("alarms") > before, "the timer does not fire any more")
        if self.number("wrong"):
            raise Fault(f"{self.number('wrong')} results of C code are wrong")
        if is_killed and self.state in NO_STOPS:
            self.interrupted = self.number("eintr")
        if self.number("eintr") > self.interrupted:
            raise Fault(f"{self.number('eintr')} system calls ended with EINTR without a signal")

    def finish(self) -> None:
        """Lets the program end and checks how it does."""
        self.memory[0:8] = (1).to_bytes(8, "little")
        try:
            wrong = self.lines.next(SETTLE_S)
            status = self.process.wait(SETTLE_S)
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            what = f"the program does not end: {self.threads()}{self.native_stacks()}"
            raise Fault(what) from error
        found = (status, wrong, self.number("wrong"), self.number("eintr"))
        if found != (STATUS, "0", 0, self.interrupted):
            raise Fault(f"status {status}, {wrong} results are wrong{self.errors()}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.memory.close()
        self.path.unlink()
        self.error_path.unlink()


def run_gsprof(
    args: Sequence[object], timeout_s: float = 120.0, during: Callable[[], None] = lambda: None
) -> Tuple[int, str]:
    """Runs a command to its end, and calls during() meanwhile. Returns its exit status and
    output."""
    process = subprocess.Popen(
        [str(GSPROF), *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        during()
        out = process.communicate(timeout=timeout_s)[0]
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    return process.returncode, out.decode("utf-8", "replace")


class Batch:
    """The trials of a batch, which several threads share. Each thread uses one target at a time,
    for a number of trials."""

    def __init__(self, context: Context, count: int, seconds: float) -> None:
        self.context = context
        self.seconds = seconds
        self.left = count  # trials that may still start
        self.is_stopped = False
        self.result = Result()
        self.lock = threading.Lock()
        self.targets = 0
        self.pythons: List[Python] = context.pythons

    def is_over(self) -> bool:
        return self.is_stopped or self.left <= 0 or self.context.is_over(self.seconds)

    def stop(self) -> None:
        self.is_stopped = True

    def next_trial(self) -> bool:
        """Returns whether another trial may start, and counts it as started."""
        with self.lock:
            if self.is_over():
                return False
            self.left -= 1
            return True

    def was_no_trial(self) -> None:
        """What next_trial() permitted did not become a trial."""
        with self.lock:
            self.left += 1

    def count(self, key: str, is_trial: bool = False, number: float = 1) -> None:
        with self.lock:
            self.result.add(key, number)
            if is_trial:
                self.result.count += 1

    def fail(self, what: str) -> None:
        with self.lock:
            self.result.failures.append(self.context.failure(what, self.result.count))

    def next_rng(self) -> random.Random:
        with self.lock:
            self.targets += 1
            return random.Random(f"{self.context.row} {self.context.seed} {self.targets}")

    def work(self, use: Callable[["Batch", Busy, random.Random], None], states: List[str]) -> None:
        while not self.is_over():
            rng = self.next_rng()
            self.use_target(use, rng.choice(self.pythons), rng.choice(states), rng)

    def use_target(
        self,
        use: Callable[["Batch", Busy, random.Random], None],
        python: Python,
        state: str,
        rng: random.Random,
    ) -> None:
        target: Optional[Busy] = None
        try:
            target = Busy(python, state, self.context.folder, rng)
            use(self, target, rng)
            target.finish()
            self.count("targets")
        except Fault as fault:
            self.fail(f"{state} on {python}: {fault}")
            with self.lock:
                self.left -= 1  # a target that never starts does not fail forever
        finally:
            if target:
                target.kill()

    def run(
        self,
        use: Callable[["Batch", Busy, random.Random], None],
        states: Optional[List[str]] = None,
    ) -> Result:
        """Calls use() with one target after another until the batch is over."""
        # The trials wait most of the time.
        in_threads(
            WORKERS * self.context.jobs, lambda _: self.work(use, states or STATES), self.stop
        )
        return self.result


def answer_of(text: str) -> Dict[str, Any]:
    """The JSON of a command."""
    found: Dict[str, Any] = json.loads(text)
    return found
