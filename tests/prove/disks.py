# SPDX-License-Identifier: Apache-2.0
"""Small file systems that become full, read-only or disappear while gsprof writes to them, in a
mount namespace of their own."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Sequence, Tuple

from served import Returned, Served
from support import GSPROF, Running, Target, gsprof, main_python, program, wait_for
from trials import SKIPPED, Context, Result

CLONE_NEWNS = 0x20000
SIZE_MB = 8
LOCK_TRIES = 100
# With a low priority on a busy machine, a command can take minutes.
SLOW_S = 600.0
# Exit statuses that say that a file cannot be written, or that there is no sample yet.
ERRORS = (1, 65, 66, 70, 71, 73, 74, 75)
PROGRAM = (
    "import time\nend = time.monotonic() + 0.4\nwhile time.monotonic() < end: sum(range(999))\n"
)


def own_mounts() -> str:
    """Gives this process its own mounts. Returns why not, or "" if it did."""
    if os.geteuid() != 0:
        return "needs root"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        return f"unshare: {os.strerror(ctypes.get_errno())}"
    made = subprocess.run(["mount", "--make-rprivate", "/"], stderr=subprocess.PIPE, check=False)
    shared = " shared:" in Path("/proc/self/mountinfo").read_text()
    return "mounts cannot be made private" if made.returncode and shared else ""


class Disk:
    """A small file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.mount("-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs")

    def mount(self, *args: str) -> None:
        subprocess.run(["mount", *args, str(self.folder)], check=True, stderr=subprocess.PIPE)

    def fill(self) -> None:
        with (self.folder / "filler").open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass

    def empty(self) -> None:
        (self.folder / "filler").unlink()

    def lock(self) -> None:
        """Makes it read-only. Descriptors that are open for writing stay writable."""
        for left in range(LOCK_TRIES, 0, -1):
            self.mount("--bind", str(self.folder))
            try:
                self.mount("-o", "remount,bind,ro")
                return
            except subprocess.CalledProcessError:
                # gsprof has just opened a file through the new mount.
                self.unlock()
                if left == 1:
                    raise

    def unlock(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)

    def remove(self) -> None:
        """Takes the disk away. The folder is then empty and read-only."""
        self.hidden = self.folder.parent / (self.folder.name + ".hidden")
        self.hidden.mkdir()
        subprocess.run(["mount", "--move", str(self.folder), str(self.hidden)], check=True)
        self.mount("-t", "tmpfs", "-o", "ro,size=1m", "tmpfs")

    def bring_back(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)
        subprocess.run(["mount", "--move", str(self.hidden), str(self.folder)], check=True)
        self.hidden.rmdir()


def unmount(folder: Path) -> None:
    """Removes all mounts on a folder."""
    for path in (folder, folder.parent / (folder.name + ".hidden")):
        while path.is_mount():
            subprocess.run(["umount", "-l", str(path)], check=True)


FAULTS: Dict[str, Tuple[Callable[[Disk], None], Callable[[Disk], None]]] = {
    "full": (Disk.fill, Disk.empty),
    "read-only": (Disk.lock, Disk.unlock),
    "removed": (Disk.remove, Disk.bring_back),
}


class Missed(Exception):
    """The command had ended before the disk failed."""


@dataclass
class Answered:
    """What the daemon has acknowledged."""

    started: List[str] = field(default_factory=list)  # sessions
    stopped: Dict[str, int] = field(default_factory=dict)  # their number of frames
    least: Dict[str, int] = field(default_factory=dict)  # frames of sessions before the fault
    returned: Returned = field(default_factory=Returned)  # since the start of the first session


class Trials:
    """Trials of one kind of fault."""

    def __init__(self, context: Context, fault: str) -> None:
        self.context = context
        self.fault = fault
        self.begin, self.undo = FAULTS[fault]
        self.target = Target([main_python(), program("deep.py"), "12"])

    def end(self) -> None:
        self.target.end()

    def one(self, number: int) -> Tuple[str, List[str]]:
        """Makes a trial. Returns its subject and what is wrong. Raises Missed."""
        # `make test` does only the first ones.
        subjects: Dict[str, Callable[[Path], List[str]]] = {
            "daemon, frame log": lambda folder: self.serve(folder, "state"),
            "record": self.record,
            "daemon, session files": lambda folder: self.serve(folder, "out"),
            "mem record": self.memory,
            "run": self.run,
        }
        subject = list(subjects)[number % len(subjects)]
        folder = self.context.folder / f"disk{number}"
        folder.mkdir()
        try:
            return subject, subjects[subject](folder)
        except (AssertionError, subprocess.SubprocessError, OSError, TimeoutError) as error:
            return subject, [f"{type(error).__name__}: {error}"]
        finally:
            for name in ("disk", "out", "state"):
                unmount(folder / name)
            shutil.rmtree(folder, ignore_errors=True)

    def interrupted(self, disk: Disk, argv: Sequence[object], longest_s: float) -> Running:
        """Runs a command while the disk fails at a random moment."""
        running = Running(*argv)
        try:
            wait_s = self.context.random.uniform(0, longest_s)
            try:
                running.process.wait(timeout=wait_s)
            except subprocess.TimeoutExpired:
                pass
            if running.process.poll() is not None:
                raise Missed()
            self.begin(disk)
            try:
                self.result = running.finish(SLOW_S)
            finally:
                self.undo(disk)
        except BaseException:
            running.kill()
            raise
        return running

    def check(self, disk: Disk, path: Path, expected: int, show: Sequence[object]) -> List[str]:
        """Checks that the file is valid or absent, and that the status says which."""
        problems = []
        done = self.result
        if done.status != expected and (done.status not in ERRORS or "gsprof: " not in done.err):
            problems.append(f"status {done.status}: {done.err[-300:]}")
        if done.status == expected and not path.exists() and "gsprof: " not in done.err:
            problems.append(f"success without {path.name}: {done.err[-300:]}")
        if path.exists():
            shown = gsprof(*show, status=None, timeout_s=SLOW_S)
            if shown.status != 0:
                problems.append(f"{path.name} is broken ({done.status}): {shown.err[-300:]}")
        # A recording that could not be converted is kept, and the message names it.
        rest = [p.name for p in disk.folder.iterdir() if p != path and p.name not in done.err]
        if rest and self.fault == "full":
            problems.append(f"leftover files: {rest}")
        return problems

    def record(self, folder: Path) -> List[str]:
        disk = Disk(folder / "disk")
        kind = self.context.random.choice(["gsp", "json", "svg", "pb.gz", "speedscope.json"])
        path = disk.folder / f"r.{kind}"
        argv = ["record", "-p", self.target.pid, "-r", "1000", "-d", "0.4", "-t", "-o", path]
        self.interrupted(disk, argv, 0.7)
        show = ["report", path] if kind != "svg" else ["--version"]
        problems = self.check(disk, path, 0, show)
        if kind == "svg" and path.exists() and not path.read_text().rstrip().endswith("</svg>"):
            problems.append("r.svg is cut")
        if not self.target.alive():
            problems.append("the target died")
        return problems

    def memory(self, folder: Path) -> List[str]:
        disk = Disk(folder / "disk")
        path = disk.folder / "m.gspm"
        argv = ["mem", "record", "-o", path, "--", main_python(), "-c", PROGRAM]
        self.interrupted(disk, argv, 1.2)
        return self.check(disk, path, 0, ["mem", "report", path])

    def run(self, folder: Path) -> List[str]:
        disk = Disk(folder / "disk")
        path = disk.folder / "run"
        ran = folder / "ran"
        code = PROGRAM + f"open({str(ran)!r}, 'w').write('x')\n"
        argv = ["run", "-o", path, "--", main_python(), "-c", code]
        self.interrupted(disk, argv, 1.2)
        done = self.result
        problems = []
        # Before the program starts, gsprof may refuse. After that, its status counts.
        if not ran.exists() and (done.status not in ERRORS or "gsprof: " not in done.err):
            problems.append(f"the program did not end as it does alone: {done}")
        if ran.exists() and done.status != 0 and "gsprof: " not in done.err:
            problems.append(f"status {done.status} without a message")
        if path.exists() and any(path.iterdir()):
            shown = gsprof("report", path, status=None, timeout_s=SLOW_S)
            if shown.status != 0 and done.status == 0 and "gsprof: " not in done.err:
                problems.append(f"the run cannot be read: {shown.err[-300:]}")
            for parquet in path.glob("*.parquet"):
                if gsprof("query", parquet, "SELECT 1", status=None, timeout_s=SLOW_S).status:
                    problems.append(f"{parquet.name} is broken")
        return problems

    def serve(self, folder: Path, where: str) -> List[str]:
        disk = Disk(folder / where)
        env = {"XDG_STATE_HOME": str(folder / "state"), "XDG_RUNTIME_DIR": str(folder / "rt")}
        (folder / "rt").mkdir(mode=0o700)
        daemon = Served([str(GSPROF)], folder, env, ["--allow-control"], freq="10ms")
        problems: List[str] = []
        answered = Answered()
        random = self.context.random
        try:
            self.start_sessions(daemon, 3, answered)
            daemon.frames(random.randrange(1, 20), answered.returned)
            answered.least = frame_counts(daemon)
            self.begin(disk)
            answered.returned.is_at_risk = True
            try:
                self.stop_some(daemon, answered, problems)
                self.start_sessions(daemon, 1, answered, tolerant=True)
                daemon.frames(random.randrange(1, 20), answered.returned)
            finally:
                self.undo(disk)
            self.check_recovery(daemon, answered, problems)
            if daemon.stop() != 0:
                problems.append(
                    f"the daemon ended with {daemon.process.returncode}: {daemon.said[-3:]}"
                )
        finally:
            daemon.end()
        return problems

    def start_sessions(
        self, daemon: Served, count: int, answered: Answered, tolerant: bool = False
    ) -> None:
        for _ in range(count):
            name = f"s{self.context.random.randrange(10**9)}"
            stacks = self.context.random.random() < 0.3
            body = {"name": name, "pids": [self.target.pid], "stacks": stacks}
            status, answer = daemon.ask("POST", "/profiling/start", body)
            assert status == 200 or tolerant, (status, answer)
            if status == 200:
                answered.started.append(name)
            else:
                assert status in (500, 507, 503) and answer and answer["error"]["message"], answer

    def stop_some(self, daemon: Served, answered: Answered, problems: List[str]) -> None:
        """Ends all sessions but the first, or some of them."""
        some = answered.started[1:]
        for name in some[: self.context.random.randrange(len(some) + 1)]:
            status, answer = daemon.ask("POST", "/profiling/stop", {"name": name})
            if status not in (200, 500, 503, 507) or not answer:
                problems.append(f"stop: {status} {answer}")
            elif status != 200 and not answer["error"]["message"]:
                problems.append(f"stop: no message: {answer}")
            elif status == 200:
                answered.stopped[name] = answer["stopped"][0]["frame_count"]

    def check_recovery(self, daemon: Served, answered: Answered, problems: List[str]) -> None:
        """Checks that each acknowledged session has its file and its frames in the end."""

        def is_well() -> bool:
            status, now = daemon.ask("GET", "/status")
            return bool(
                status == 200 and now and not now["failed_sessions"] and not now["storage"]["error"]
            )

        daemon.frames(2, answered.returned)
        wait_for(is_well, "the daemon does not recover", timeout_s=SLOW_S)
        answered.returned.is_at_risk = False
        daemon.frames(2, answered.returned)
        status, listed = daemon.ask("GET", "/profiling/sessions")
        known = {one["name"]: one for one in (listed or {})["sessions"]}
        for name in answered.started:
            if name not in known:
                problems.append(f"session {name} is lost")
                continue
            if known[name]["is_active"]:
                if name in answered.stopped:
                    problems.append(f"session {name} was stopped and is active again")
                status, answer = daemon.ask("POST", "/profiling/stop", {"name": name})
                if status != 200:
                    problems.append(f"stop after recovery: {status} {answer}")
                    continue
                answered.stopped[name] = answer["stopped"][0]["frame_count"]
        for name in answered.started:
            if name in known:
                problems += self.check_session(daemon, name, answered)
        if list((daemon.folder / "out").glob("*.part")):
            problems.append("leftover .part files")

    def check_session(self, daemon: Served, name: str, answered: Answered) -> List[str]:
        """Compares the file of a session with what was acknowledged."""
        _, one = daemon.ask("GET", f"/profiling/sessions/{name}")
        _, whole = daemon.ask("GET", f"/profiling/sessions/{name}/download")
        if not whole or not one:
            return [f"the file of {name} is not valid"]
        problems = []
        count = len(whole["frames"])
        for what, frames in (
            ("now", one["frame_count"]),
            ("stopped with", answered.stopped.get(name, count)),
        ):
            if count != frames:
                problems.append(f"{name}: {count} frames, {what} {frames}")
        if count < answered.least.get(name, 0):
            problems.append(f"{name}: {count} frames, {answered.least[name]} before the fault")
        numbers = [frame["frame_id"] for frame in whole["frames"]]
        if numbers != list(range(1, count + 1)):
            problems.append(f"{name}: frames out of order")
        if name == answered.started[0]:
            problems += [f"{name}: {what}" for what in answered.returned.check(whole)]
        return problems


def frame_counts(daemon: Served) -> Dict[str, int]:
    """Returns the number of frames of each session."""
    listed = daemon.ask("GET", "/profiling/sessions")[1]["sessions"]
    return {one["name"]: one["frame_count"] for one in listed}


def run(context: Context, count: int, seconds: float, fault: str) -> Result:
    """Makes count trials of one fault."""
    result = Result()
    reason = own_mounts()
    if reason:
        result.add(SKIPPED + reason)
        return result
    trials = Trials(context, fault)
    try:
        trial = -1
        while result.count < count and not context.is_over(seconds):
            trial += 1
            try:
                subject, problems = trials.one(context.seed + trial)
            except Missed:
                result.add("ended before the fault")
                continue
            result.count += 1
            result.add(subject)
            if problems:
                result.failures.append(context.failure(f"{subject}: {'; '.join(problems)}", trial))
    finally:
        trials.end()
    return result
