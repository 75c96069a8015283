# SPDX-License-Identifier: Apache-2.0
"""A day of `gsprof serve` with 50 processes and overlapping sessions. The clocks of the daemon run
faster (tests/tools/clock_shift.c), so that the day takes a few minutes.

First, many sessions start and end: that shows a leak even in the short form. Then each simulated
hour starts sessions, ends those that are old enough, asks every kind of question, replaces some of
the processes, and measures the daemon."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple

from clock import Clock
from served import Served
from support import GSPROF, RING_WRITER, Target, wait_for
from trials import Context, Result

NAME = "simulated_day"
ORDER = 120
TITLE = "one simulated day of `serve` with 50 processes and overlapping sessions"
REQUIRED = 1
REQUIREMENT = "constant memory, no leaked descriptors"
SHORT = 2  # hours instead of a day; see run()

HOURS = 48  # the day is the second one: by then, all caches are full
HOUR_S = 3600
RATE = 720  # an hour takes five seconds
SHORT_RATE = 1800
PROCESSES = 50
WRITERS = 10  # of them write tables
REPLACED = 3  # processes that end in an hour
SESSION_HOURS = (1, 5)
KEEP_HOURS = 4  # finished sessions, and the tables of ended processes
# The memory of the daemon may grow until its caches are full and as many sessions are listed as are
# kept. After that the trend has to stay below this number of bytes per hour.
WARM_HOURS = 24
SLOPE_BYTES = 48 << 10
# Of the daemon itself: those of watched processes, whose number varies, are not counted.
DESCRIPTORS_SLACK = 8
# Before the day, this many sessions start and end, and again as many. The second half may add
# neither descriptors nor more memory than the daemon needs to list the sessions (9 KiB each).
QUICK = 60
QUICK_DESCRIPTORS = 2
QUICK_BYTES = 20 << 10
# The frame log is kept up to this size (KEEP_BYTES of src/frames/log.c).
LOG_BYTES = 1 << 30


@dataclass
class Measured:
    """The daemon at the end of an hour."""

    rss_bytes: int
    descriptors: int
    threads: int
    log_bytes: int
    folders: int  # of tables


def measure(daemon: Served, folder: Path) -> Measured:
    pid = daemon.process.pid
    status = Path(f"/proc/{pid}/status").read_text()
    facts = dict(line.split(":", 1) for line in status.splitlines())
    return Measured(
        rss_bytes=int(facts["VmRSS"].split()[0]) * 1024,
        descriptors=own_descriptors(pid),
        threads=int(facts["Threads"]),
        log_bytes=sum(p.stat().st_size for p in (folder / "state").rglob("*") if p.is_file()),
        folders=sum(1 for p in (folder / "rt" / "gsprof").glob("*-*") if p.is_dir()),
    )


def own_descriptors(pid: int) -> int:
    """Returns how many descriptors of a process are not of files of other processes in /proc."""
    count = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        try:
            owner = re.match(r"/proc/(\d+)/", os.readlink(path))
        except FileNotFoundError:
            continue  # closed meanwhile
        count += not owner or int(owner[1]) == pid
    return count


def slope(values: List[int]) -> float:
    """Returns the least squares slope."""
    n = len(values)
    mean_x, mean_y = (n - 1) / 2, sum(values) / n
    above = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(values))
    below = sum((x - mean_x) ** 2 for x in range(n))
    return above / below if below else 0.0


class Day:
    """The daemon, its processes and sessions."""

    def __init__(self, context: Context, rate: int) -> None:
        self.context = context
        self.rate = rate
        self.folder = context.folder / "day"
        self.folder.mkdir()
        (self.folder / "rt").mkdir(mode=0o700)
        self.runtime = {"XDG_RUNTIME_DIR": str(self.folder / "rt")}
        self.problems: List[str] = []
        self.sleepers: List["subprocess.Popen[bytes]"] = []
        self.writers: List[Target] = []
        self.active: Dict[str, int] = {}  # the hour in which each session ends
        self.ended: Set[str] = set()
        self.number = 0
        self.calm_descriptors = 0  # when no process is watched
        clock = Clock(self.folder / "clock", rate)
        env = {
            **clock.env,
            **self.runtime,
            "XDG_STATE_HOME": str(self.folder / "state"),
            "GSPROF_KEEP_TIME": f"{KEEP_HOURS}h",
            "GSPROF_RING_KEEP_TIME": f"{KEEP_HOURS}h",
            "GSPROF_REQUEST_TIMEOUT": "3600s",
            "GSPROF_QUERY_TIMEOUT": "3600s",
        }
        freq = f"{max(5, rate // 50)}s"
        self.daemon = Served([str(GSPROF)], self.folder, env, ["--allow-control"], freq=freq)

    def end(self) -> None:
        self.daemon.end()
        for sleeper in self.sleepers:
            sleeper.kill()
            sleeper.wait()
        for writer in self.writers:
            writer.end()

    def fill(self) -> None:
        """Starts processes until there are PROCESSES."""
        while len(self.writers) < WRITERS:
            argv = [str(RING_WRITER), "--rate", "100", "--capacity", "2000"]
            self.writers.append(Target(argv, env=self.runtime))
        while len(self.sleepers) < PROCESSES - WRITERS:
            self.sleepers.append(subprocess.Popen(["sleep", "100000"]))

    def replace(self) -> None:
        for _ in range(REPLACED):
            sleeper = self.sleepers.pop(self.context.random.randrange(len(self.sleepers)))
            sleeper.kill()
            sleeper.wait()
        self.writers.pop(self.context.random.randrange(len(self.writers))).end()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        status, answer = self.daemon.ask(method, path, body)
        if status != 200:
            self.problems.append(f"{method} {path}: {status} {answer}")
        return answer

    def uptime_s(self) -> float:
        return float((self.daemon.ask("GET", "/status")[1] or {"uptime_s": 0})["uptime_s"])

    def quick_sessions(self) -> None:
        """Starts and ends many sessions; checks that nothing is left of them."""
        self.fill()
        pids = [p.pid for p in self.sleepers]
        measured = []
        for half in range(2):
            names = [f"quick{half}-{number}" for number in range(QUICK)]
            for name in names:
                some = self.context.random.sample(pids, 5)
                self.ask("POST", "/profiling/start", {"name": name, "pids": some})
            for name in names:
                self.ask("POST", "/profiling/stop", {"name": name})
            measured.append((measure(self.daemon, self.folder), self.calmest_descriptors()))
        (first, first_all), (last, last_all) = measured
        self.calm_descriptors = last_all
        if last_all > first_all + QUICK_DESCRIPTORS:
            self.problems.append(f"{QUICK} sessions left {last_all - first_all} descriptors")
        each = (last.rss_bytes - first.rss_bytes) / QUICK
        if each > QUICK_BYTES:
            self.problems.append(f"a session that has ended takes {each / 1024:.1f} KiB")

    def calmest_descriptors(self) -> int:
        """The least within a second: the daemon opens and closes files all the time."""
        counts = []
        for _ in range(20):
            counts.append(self.all_descriptors())
            time.sleep(0.05)
        return min(counts)

    def all_descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))

    def hour(self, hour: int) -> Measured:
        self.fill()
        pids = [p.pid for p in self.sleepers] + [w.pid for w in self.writers]
        for _ in range(2):
            self.number += 1
            name = f"s{self.number}"
            some = self.context.random.sample(pids, 25)
            self.ask("POST", "/profiling/start", {"name": name, "pids": some})
            self.active[name] = hour + self.context.random.randrange(*SESSION_HOURS)
        for part in (0.3, 0.6, 1.0):
            self.questions()
            until = (hour + part) * HOUR_S
            wait_for(lambda: self.uptime_s() >= until, "time does not pass", 600, pause_s=0.05)
        for name in [name for name, last in self.active.items() if last <= hour]:
            answer = self.ask("POST", "/profiling/stop", {"name": name})
            del self.active[name]
            self.ended.add(name)
            if answer and not (self.folder / "out" / f"{name}.json").exists():
                self.problems.append(f"no file of {name}")
        self.replace()
        return measure(self.daemon, self.folder)

    def questions(self) -> None:
        for path in ("/metrics", "/metrics/latest", "/profiling/sessions", "/targets", "/config"):
            self.ask("GET", path)
        for table in ("memory.system.memory", "session.list"):
            sql = f"SELECT count(*) AS n FROM {table}"
            status, answer = self.daemon.ask("POST", "/query", {"sql": sql})
            # The longest time limit of a query lasts only a few seconds of true time.
            if status not in (200, 504):
                self.problems.append(f"query: {status} {answer}")

    def finish(self) -> None:
        self.ask("POST", "/profiling/stop", {})
        self.ended |= set(self.active)
        # Nothing is watched any more.
        wait_for(
            lambda: self.all_descriptors() <= self.calm_descriptors + QUICK_DESCRIPTORS,
            f"{self.calm_descriptors} descriptors became {self.all_descriptors()}",
        )
        if self.daemon.stop() != 0:
            self.problems.append(f"the daemon ended with {self.daemon.process.returncode}")
        for name in self.ended:
            if not (self.folder / "out" / f"{name}.json").exists():
                self.problems.append(f"no file of {name} at the end")
        rest = [p.name for p in (self.folder / "out").iterdir() if p.suffix != ".json"]
        if rest:
            self.problems.append(f"leftover files: {rest}")

    def check(self, hours: List[Measured]) -> None:
        """Checks the trends."""
        warm = hours[WARM_HOURS:] or hours[-1:]
        first = hours[1] if len(hours) > 1 else hours[0]
        growth = slope([one.rss_bytes for one in warm])
        if len(warm) > 4 and growth > SLOPE_BYTES:
            sizes = [one.rss_bytes >> 10 for one in hours]
            self.problems.append(f"memory grows by {growth / 1024:.0f} KiB per hour: {sizes}")
        for name, slack in (("descriptors", DESCRIPTORS_SLACK), ("threads", 2)):
            values = [getattr(one, name) for one in hours]
            if values[-1] > getattr(first, name) + slack:
                self.problems.append(f"more {name}: {values}")
        # The running writers and the daemon, and those that ended while tables are kept.
        most = WRITERS + 1 + (KEEP_HOURS + 2)
        if hours[-1].folders > most:
            self.problems.append(f"tables of {hours[-1].folders} processes, at most {most}")
        if hours[-1].log_bytes > LOG_BYTES:
            self.problems.append(f"the frame log has {hours[-1].log_bytes} bytes")


def simulate(context: Context, hours: int, rate: int) -> Tuple[List[Measured], List[str]]:
    day = Day(context, rate)
    measured: List[Measured] = []
    try:
        day.quick_sessions()
        for hour in range(hours):
            measured.append(day.hour(hour))
        day.finish()
        day.check(measured)
    except (AssertionError, OSError, TimeoutError, subprocess.SubprocessError) as error:
        day.problems.append(f"{type(error).__name__}: {error}")
    finally:
        day.end()
    return measured, day.problems


def run(context: Context, count: int, seconds: float) -> Result:
    result = Result()
    hours, rate = (count, SHORT_RATE) if context.is_short else (HOURS, RATE)
    measured, problems = simulate(context, hours, rate)
    result.count = 1
    if problems:
        result.failures.append(context.failure("; ".join(problems), 0))
    for name in ("rss_bytes", "descriptors", "threads", "log_bytes", "folders"):
        values = [getattr(one, name) for one in measured] or [0]
        result.add(f"{name} after {min(len(values), WARM_HOURS)} hours", values[:WARM_HOURS][-1])
        result.add(f"{name} at the end", values[-1])
    result.add("simulated hours", len(measured))
    return result
