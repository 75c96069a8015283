# SPDX-License-Identifier: Apache-2.0
"""Trials in which the user stops and continues gsprof or its target (SIGSTOP, SIGCONT)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, List, Sequence, Tuple

from served import Returned, Served
from support import GSPROF, Running, Target, gsprof, main_python, program, state_of, wait_for
from trials import Context, Result

# A stopped process runs only to answer a tracer. A busy one would use all of the time.
STOPPED_RUN_NS = 20_000_000
# With a low priority on a busy machine, a command can take minutes.
SLOW_S = 600.0


def run_ns(pid: int) -> int:
    """Returns the CPU time of the first thread of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


def tracer_of(pid: int) -> str:
    text = Path(f"/proc/{pid}/status").read_text()
    return text.split("TracerPid:")[1].split()[0]


class Trials:
    """A target, and commands that watch it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.target = Target(
            [main_python(), program("deep.py"), "12"], env={"TARGET_LIFE_S": "100000"}
        )

    def end(self) -> None:
        self.target.end()

    def pause(self, process: "subprocess.Popen[bytes]", longest_s: float) -> None:
        """Waits for a random time, or until the process ends."""
        try:
            process.wait(timeout=self.context.random.uniform(0, longest_s))
        except subprocess.TimeoutExpired:
            pass

    def record_argv(self, path: Path) -> List[object]:
        ways: List[List[object]] = [[], ["--blocking"], ["--native"], ["-s"]]
        more = self.context.random.choice(ways)
        return ["record", "-p", self.target.pid, "-i", "-r", "200", "-d", "0.5", "-o", path, *more]

    def check_target(self) -> List[str]:
        """Checks that the target runs, and that nothing traces it."""
        pid = self.target.pid
        if not self.target.alive():
            return ["the target died"]
        if tracer_of(pid) != "0":
            return ["the target is still traced"]
        if state_of(pid) in "tT":
            return ["the target was left stopped"]
        before = run_ns(pid)
        wait_for(lambda: run_ns(pid) > before, "the target does not run")
        return []

    def check_file(self, path: Path, status: int, err: str) -> List[str]:
        """Checks a recording; it may have no sample."""
        if status == 1 and not path.exists():
            return []
        if status != 0:
            return [f"status {status}: {err[-300:]}"]
        shown = gsprof("report", path, status=None, timeout_s=SLOW_S)
        return [] if shown.status == 0 else [f"the file is broken: {shown.err[-300:]}"]

    # ------------------------------------------------------------------------ gsprof is stopped

    def stop_recorder(self, folder: Path) -> List[str]:
        path = folder / self.context.random.choice(["r.gsp", "r.json", "r.svg"])
        running = Running(*self.record_argv(path))
        try:
            for _ in range(self.context.random.randrange(1, 4)):
                self.pause(running.process, 0.3)
                if running.process.poll() is not None:
                    break
                running.signal(signal.SIGSTOP)
                self.pause(running.process, 0.3)
                running.signal(signal.SIGCONT)
            done = running.finish(SLOW_S)
        except BaseException:
            running.kill()
            raise
        problems = self.check_file(path, done.status, done.err) if path.suffix != ".svg" else []
        return problems + self.check_target()

    def served(self, folder: Path) -> Served:
        env = {"XDG_STATE_HOME": str(folder / "state"), "XDG_RUNTIME_DIR": str(folder / "rt")}
        (folder / "rt").mkdir(mode=0o700)
        return Served([str(GSPROF)], folder, env, ["--allow-control"], freq="10ms")

    def begin_session(self, daemon: Served) -> List[str]:
        begin = {"name": "kept", "pids": [self.target.pid], "stacks": True}
        status, answer = daemon.ask("POST", "/profiling/start", begin)
        return [] if status == 200 else [f"start: {status} {answer}"]

    def stop_daemon(self, folder: Path) -> List[str]:
        daemon = self.served(folder)
        try:
            problems = self.begin_session(daemon)
            if problems:
                return problems
            returned = Returned()
            least = 0
            for _ in range(self.context.random.randrange(1, 4)):
                daemon.frames(self.context.random.randrange(1, 10), returned)
                least = daemon.ask("GET", "/profiling/sessions/kept")[1]["frame_count"]
                daemon.process.send_signal(signal.SIGSTOP)
                self.pause(daemon.process, 0.5)
                daemon.process.send_signal(signal.SIGCONT)
            daemon.frames(2, returned)
            return self.check_session(daemon, returned, least) + self.check_target()
        finally:
            daemon.end()

    def check_session(self, daemon: Served, returned: Returned, least: int) -> List[str]:
        """Ends the session and checks its files: they have the frames that were returned, and at
        least as many as were counted before."""
        status, answer = daemon.ask("POST", "/profiling/stop", {"name": "kept"})
        if status != 200:
            return [f"stop: {status} {answer}"]
        whole = json.loads((daemon.folder / "out" / "kept.json").read_text())
        numbers = [frame["frame_id"] for frame in whole["frames"]]
        problems = returned.check(whole)
        if numbers != list(range(1, len(numbers) + 1)) or len(numbers) < least:
            problems.append(f"{len(numbers)} frames of {least}, or out of order")
        if len(numbers) != answer["stopped"][0]["frame_count"]:
            problems.append(f"{len(numbers)} frames, but the answer was {answer}")
        if whole["losses"].get("frames_lost"):
            problems.append(f"frames lost: {whole['losses']}")
        stacks = daemon.folder / "out" / "kept.gsp"
        if stacks.exists() and gsprof(
            "report", stacks, status=None, timeout_s=SLOW_S
        ).status not in (0, 1):
            problems.append("kept.gsp is broken")
        if daemon.stop() != 0:
            problems.append(f"the daemon ended with {daemon.process.returncode}")
        return problems

    # -------------------------------------------------------------------- the target is stopped

    def hold(self, work: Callable[[float], None]) -> List[str]:
        """Stops the target as its user does, while work() goes on for some time. It must stay
        stopped, and run again after SIGCONT."""
        pid = self.target.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_for(lambda: state_of(pid) in "tT", "the target does not stop")
            used, began_s = run_ns(pid), time.monotonic()
            work(self.context.random.uniform(0.05, 0.4))
            used = run_ns(pid) - used
            held_s = time.monotonic() - began_s
            # A tracer that lets go of a stopped thread makes it run for an instant.
            wait_for(lambda: state_of(pid) in "tT", "the stopped target runs")
        finally:
            os.kill(pid, signal.SIGCONT)
        if used > STOPPED_RUN_NS:
            return [f"the stopped target ran for {used / 1e6:.0f} ms of {held_s * 1e3:.0f} ms"]
        return []

    def stop_recorded(self, folder: Path) -> List[str]:
        path = folder / "r.gsp"
        running = Running(*self.record_argv(path))
        problems: List[str] = []
        try:
            for _ in range(self.context.random.randrange(1, 3)):
                self.pause(running.process, 0.4)
                problems += self.hold(lambda seconds: self.pause(running.process, seconds))
            done = running.finish(SLOW_S)
        except BaseException:
            running.kill()
            raise
        return problems + self.check_file(path, done.status, done.err) + self.check_target()

    def stop_dumped(self, folder: Path) -> List[str]:
        commands: Sequence[Sequence[object]] = (
            ["dump", "-p", self.target.pid],
            ["dump", "-p", self.target.pid, "--native"],
            ["dump", "-p", self.target.pid, "--blocking"],
            ["backtrace", self.target.pid],
        )
        argv = self.context.random.choice(commands)
        problems: List[str] = []

        def dump(seconds: float) -> None:
            done = gsprof(*argv, status=None, timeout_s=SLOW_S)
            if done.status != 0 and "gsprof: " not in done.err:
                problems.append(f"{argv[0]}: status {done.status}: {done.err}")

        return self.hold(dump) + problems + self.check_target()

    def stop_watched(self, folder: Path) -> List[str]:
        daemon = self.served(folder)
        try:
            problems = self.begin_session(daemon)
            if problems:
                return problems
            returned = Returned()
            daemon.frames(self.context.random.randrange(1, 10), returned)
            least = daemon.ask("GET", "/profiling/sessions/kept")[1]["frame_count"]
            problems = self.hold(lambda seconds: self.pause(daemon.process, seconds))
            daemon.frames(2, returned)
            return problems + self.check_session(daemon, returned, least) + self.check_target()
        finally:
            daemon.end()


Kinds = Dict[str, Callable[[Trials, Path], List[str]]]
GSPROF_STOPPED: Kinds = {"recorder": Trials.stop_recorder, "daemon": Trials.stop_daemon}
TARGET_STOPPED: Kinds = {
    "recorder": Trials.stop_recorded,
    "dump": Trials.stop_dumped,
    "daemon": Trials.stop_watched,
}


def one(trials: Trials, kinds: Kinds, number: int, folder: Path) -> Tuple[str, List[str]]:
    name = list(kinds)[number % len(kinds)]
    try:
        return name, kinds[name](trials, folder)
    except (AssertionError, OSError, ValueError, KeyError, TimeoutError) as error:
        return name, [f"{type(error).__name__}: {error}"]


def run(context: Context, count: int, seconds: float, kinds: Kinds) -> Result:
    """Makes count trials."""
    result = Result()
    trials = Trials(context)
    try:
        for trial in range(count):
            if context.is_over(seconds):
                break
            folder = context.folder / f"stop{trial}"
            folder.mkdir(mode=0o700)
            name, problems = one(trials, kinds, context.seed + trial, folder)
            result.count += 1
            result.add(name)
            if problems:
                result.failures.append(context.failure(f"{name}: {'; '.join(problems)}", trial))
            if not trials.target.alive():
                trials.end()
                trials = Trials(context)
    finally:
        trials.end()
    return result
