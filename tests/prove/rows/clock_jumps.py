# SPDX-License-Identifier: Apache-2.0
"""The wall clock jumps forward and backward: the daemon, recordings, runs and rings."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Dict, List

from clock import Clock
from served import Served
from support import GSPROF, RING_WRITER, Profile, Running, Target, gsprof, main_python, program
from support import Result as Finished
from trials import Context, Result

NAME = "clock_jumps"
ORDER = 75
TITLE = "clock jumps (interposed clock)"
REQUIRED = 100
REQUIREMENT = "nothing acknowledged lost, right durations and order"
SHORT = 2

HOUR_S = 3600
CAPACITY = 50_000  # rows that a ring keeps
ZONE = "Europe/Berlin"
# One second before the clocks of ZONE change, in UTC.
SUMMER_TIME = datetime(2026, 3, 29, 0, 59, 59, tzinfo=timezone.utc).timestamp()
WINTER_TIME = datetime(2026, 10, 25, 0, 59, 59, tzinfo=timezone.utc).timestamp()
# More than any trial takes, less than a jump of an hour.
LONGEST_S = 600
# A command that takes less than a second has this long, also on a busy machine.
HANG_S = 120
# Time in which the program of a run works.
WORK_S = 0.5


class Jumper:
    """A clock that jumps at random."""

    def __init__(self, context: Context, file: Path) -> None:
        self.random = context.random
        self.clock = Clock(file)
        self.env = {**self.clock.env, "TZ": ZONE}
        self.jumps = 0

    def jump(self) -> None:
        self.jumps += 1
        kind = self.random.choice(["small", "hours", "days", "summer", "winter", "back"])
        if kind == "small":
            shift_s = self.random.uniform(-2, 2)
        elif kind == "hours":
            shift_s = self.random.choice([-1, 1]) * self.random.uniform(1, 24) * HOUR_S
        elif kind == "days":
            shift_s = self.random.choice([-1, 1]) * self.random.uniform(1, 400) * 24 * HOUR_S
        elif kind == "back":
            shift_s = 0
        else:
            shift_s = (SUMMER_TIME if kind == "summer" else WINTER_TIME) - time.time()
        self.clock.set(int(shift_s * 1e9))


class Trials:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.target = Target(
            [main_python(), program("deep.py"), "12"], env={"TARGET_LIFE_S": "100000"}
        )

    def record(self, folder: Path, jumper: Jumper) -> List[str]:
        """A recording has the right duration, and its samples are in order."""
        path = folder / "r.json"
        argv = ["record", "-p", self.target.pid, "-i", "-r", "200", "-d", "0.5", "-o", path]
        began_s = time.monotonic()
        running = Running(*argv, env=jumper.env)
        done = self.jump_until_end(running, jumper, 0.2)
        took_s = time.monotonic() - began_s
        if done.status != 0:
            return [str(done)]
        profile = Profile.load(path)
        problems = []
        if not 0.4 <= profile.raw["duration"] <= took_s + 0.1:
            problems.append(f"duration {profile.raw['duration']} of {took_s}")
        by_thread: Dict[int, List[float]] = {}
        for sample in profile.samples:
            by_thread.setdefault(sample.thread_id, []).append(sample.timestamp)
        for times in by_thread.values():
            if times != sorted(times) or times[-1] - times[0] > took_s + 0.1:
                problems.append("timestamps are not in order")
        return problems

    def jump_until_end(self, running: Running, jumper: Jumper, longest_s: float) -> Finished:
        """Moves the clock at random intervals until the command ends."""
        end_s = time.monotonic() + HANG_S
        try:
            while running.process.poll() is None:
                if time.monotonic() > end_s:
                    raise TimeoutError(f"{running.args[1]} did not end within {HANG_S} s")
                jumper.jump()
                self.wait(running, longest_s)
            return running.finish(HANG_S)
        except BaseException:
            running.kill()
            raise

    def wait(self, running: Running, longest_s: float) -> None:
        try:
            running.process.wait(timeout=self.context.random.uniform(0, longest_s))
        except Exception:  # subprocess.TimeoutExpired: it still runs
            pass

    def serve(self, folder: Path, jumper: Jumper) -> List[str]:
        """Sessions have all their frames, in order, and the right duration."""
        env = {
            **jumper.env,
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder / "rt"),
        }
        (folder / "rt").mkdir(mode=0o700)
        problems: List[str] = []
        daemon = Served([str(GSPROF)], folder, env, freq="10ms")
        try:
            began_s: Dict[str, float] = {}
            for number in range(3):
                name = f"s{number}"
                status, answer = daemon.ask("POST", "/profiling/start", {"name": name})
                if status != 200:
                    return [f"start: {status} {answer}"]
                began_s[name] = time.monotonic()
                daemon.frames(self.context.random.randrange(1, 8))
                jumper.jump()
            daemon.frames(5)
            if self.context.random.random() < 0.3:
                # A restart on another day.
                if daemon.stop() != 0:
                    problems.append("the daemon failed")
                daemon.end()
                jumper.jump()
                daemon = Served([str(GSPROF)], folder, env, freq="10ms")
                daemon.frames(2)
            for name, start_s in began_s.items():
                problems += self.check_session(daemon, name, time.monotonic() - start_s)
                jumper.jump()
            status, now = daemon.ask("GET", "/status")
            if not 0 <= now["uptime_s"] < LONGEST_S:
                problems.append(f"uptime {now['uptime_s']}")
            if daemon.stop() != 0:
                problems.append("the daemon failed at its end")
        finally:
            daemon.end()
        return problems

    def check_session(self, daemon: Served, name: str, longest_s: float) -> List[str]:
        asked_s = time.monotonic()
        status, answer = daemon.ask("POST", "/profiling/stop", {"name": name})
        longest_s += time.monotonic() - asked_s
        if status != 200:
            return [f"{name}: stop: {status} {answer}"]
        whole = json.loads(
            (daemon.folder / "out" / answer["stopped"][0]["output_file"]).read_text()
        )
        problems = []
        numbers = [frame["frame_id"] for frame in whole["frames"]]
        if numbers != list(range(1, len(numbers) + 1)):
            problems.append(f"{name}: frames are not in order: {numbers}")
        if len(numbers) != answer["stopped"][0]["frame_count"] or len(numbers) < 2:
            problems.append(f"{name}: {len(numbers)} frames of {answer}")
        if not 0 < whole["metadata"]["duration_s"] <= longest_s + 0.5:
            problems.append(f"{name}: {whole['metadata']['duration_s']} s of {longest_s} s")
        return problems

    def rings(self, folder: Path, jumper: Jumper) -> List[str]:
        """All rows of a writer can be read, and their order is kept."""
        runtime = {"XDG_RUNTIME_DIR": str(folder)}
        writer = Target(
            [str(RING_WRITER), "--rate", "1000", "--capacity", str(CAPACITY)],
            env={**jumper.env, **runtime},
        )
        try:
            sql = "SELECT count(*) AS n FROM python.torch_trace"
            for _ in range(2):
                jumper.jump()
                asked = gsprof("query", writer.pid, sql, "--format", "json", env=runtime)
            before = json.loads(asked.out)[0]["n"]
            facts: Any = writer.term()
            sql = "SELECT step, seq FROM python.torch_trace"
            asked = gsprof(
                "query", writer.pid, sql, "--format", "json", env={**jumper.env, **runtime}
            )
            rows = [(row["step"], row["seq"]) for row in json.loads(asked.out)]
        finally:
            writer.end()
        problems = []
        if len(rows) < before or len(rows) != min(facts["rows"], CAPACITY):
            problems.append(f"{len(rows)} rows, before {before}, written {facts}")
        if rows != sorted(rows) and not is_ordered(rows):
            problems.append("rows are not in order")
        return problems

    def run(self, folder: Path, jumper: Jumper) -> List[str]:
        """A run can be read, and has the right duration."""
        code = f"import time\nend = time.monotonic() + {WORK_S}\n"
        code += "while time.monotonic() < end: sum(range(999))\n"
        argv = ["run", "-o", folder / "run", "--", main_python(), "-c", code]
        began_s = time.monotonic()
        running = Running(*argv, env={**jumper.env, "XDG_RUNTIME_DIR": str(folder)})
        done = self.jump_until_end(running, jumper, 0.4)
        took_s = time.monotonic() - began_s
        if done.status != 0:
            return [str(done)]
        shown = gsprof("report", folder / "run", "-f", "json", status=None, timeout_s=LONGEST_S)
        if shown.status != 0:
            return [f"the run cannot be read: {shown.err}"]
        duration_s = json.loads(shown.out)["duration_s"]
        if not WORK_S * 0.8 <= duration_s <= took_s + 0.1:
            return [f"the run has {duration_s} s, the program {WORK_S} s, the command {took_s} s"]
        return []


def is_ordered(rows: List[Any]) -> bool:
    """Returns whether steps never decrease."""
    steps = [step for step, _ in rows]
    return steps == sorted(steps)


def run(context: Context, count: int, seconds: float) -> Result:
    result = Result()
    trials = Trials(context)
    kinds: Dict[str, Callable[[Path, Jumper], List[str]]] = {
        "daemon": trials.serve,
        "record": trials.record,
        "rings": trials.rings,
        "run": trials.run,
    }
    try:
        for trial in range(count):
            if context.is_over(seconds):
                break
            name = list(kinds)[(context.seed + trial) % len(kinds)]
            folder = context.folder / f"clock{trial}"
            folder.mkdir(mode=0o700)
            jumper = Jumper(context, folder / "clock")
            try:
                problems = kinds[name](folder, jumper)
            except (AssertionError, OSError, ValueError, KeyError, TimeoutError) as error:
                problems = [f"{type(error).__name__}: {error}"]
            result.count += 1
            result.add(name)
            result.add("jumps", jumper.jumps)
            if problems:
                result.failures.append(context.failure(f"{name}: {'; '.join(problems)}", trial))
    finally:
        trials.target.end()
    return result
