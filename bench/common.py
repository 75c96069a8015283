# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks: rows of the table, processes whose cost the kernel measures, and the
peers (other profilers), which are installed in their own environment."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))

from support import GSPROF, Json, Python, Target, find_pythons, main_python, program  # noqa: E402

# Versions are pinned, so that ratios stay comparable over time.
PEERS = {
    "py-spy": "py-spy==0.4.3",
    "austin": "austin-dist==3.7.0",
    "kernprof": "line_profiler==5.1.0",
    "memray": "memray==1.20.0",
}

# A rate that no sampler reaches: as fast as possible.
FULL_SPEED_HZ = 1000000


@dataclass
class Row:
    """One line of the table."""

    part: str
    what: str
    value: Optional[float]
    unit: str
    bar: str = ""
    ok: Optional[bool] = None
    command: str = ""
    note: str = ""

    def verdict(self) -> str:
        return {None: "", True: "pass", False: "FAIL"}[self.ok]

    def figure(self) -> str:
        return "not available" if self.value is None else f"{self.value:.4g} {self.unit}"


@dataclass
class Cost:
    """The cost of a run, as measured by the kernel (wait4), and its output. Not its memory:
    ru_maxrss of a child starts with the size of its parent."""

    status: int
    cpu_s: float
    wall_s: float
    out: str


@dataclass
class Bench:
    """Settings of this run, and its rows."""

    python: str
    quick: bool
    folder: Path
    peers: Dict[str, str] = field(default_factory=dict)
    missing: Dict[str, str] = field(default_factory=dict)
    rows: List[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        line = f"  {row.what:<54} {row.figure():>18}  {row.bar:<14} {row.verdict():<4}"
        print(line.rstrip(), flush=True)
        if row.note:
            print(f"      {row.note}")

    def seconds(self, full: float) -> float:
        return full / 3 if self.quick else full

    def rounds(self, full: int) -> int:
        return max(1, full // 3) if self.quick else full

    def target(self, name: str, *args: object, env: Optional[Mapping[str, str]] = None) -> Target:
        more = {"TARGET_LIFE_S": "3600", **(env or {})}
        return Target([self.python, program(name), *map(str, args)], env=more)

    def fresh(self, suffix: str) -> Path:
        handle, name = tempfile.mkstemp(suffix, dir=self.folder)
        os.close(handle)
        os.unlink(name)
        return Path(name)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        machine = {
            "cpus": os.cpu_count(),
            "kernel": os.uname().release,
            "cpu": cpu_name(),
            "python": self.python,
            "peers": self.peers,
            "missing": self.missing,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        rows = [asdict(row) for row in self.rows]
        path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def shown(argv: Sequence[object]) -> str:
    """A command as a user would type it."""
    words = []
    for word in map(str, argv):
        short = word.replace(str(GSPROF), "gsprof")
        words.append(os.path.basename(short) if short.startswith("/") else short)
    return " ".join(words)


def run(argv: Sequence[object], interrupt_s: Optional[float] = None) -> Cost:
    """Runs a command to its end, or interrupts it after some seconds. The CPU time is that of the
    child."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        if interrupt_s is not None:
            time.sleep(interrupt_s)
            os.kill(process.pid, signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    wall_s = time.monotonic() - begin
    return Cost(process.returncode, usage.ru_utime + usage.ru_stime, wall_s, text)


def cpu_ns(pid: int) -> int:
    """CPU time of a process with one thread, as measured by the scheduler."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def steady(argv: Sequence[object], window: Tuple[float, float], tty: Optional[int] = None) -> Cost:
    """Runs a command to its end. The CPU time is that of a window, in seconds after the start,
    without the cost of starting and ending."""
    begin_s, end_s = window
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL if tty is None else tty,
            stdout=output if tty is None else tty,
            stderr=subprocess.STDOUT if tty is None else output,
        )
        time.sleep(begin_s)
        first = (time.monotonic(), cpu_ns(process.pid))
        time.sleep(end_s - begin_s)
        last = (time.monotonic(), cpu_ns(process.pid))
        process.wait(60)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return Cost(process.returncode, (last[1] - first[1]) / 1e9, last[0] - first[0], text)


def need(cost: Cost, argv: Sequence[object]) -> Cost:
    if cost.status:
        raise RuntimeError(f"{shown(argv)} failed with {cost.status}:\n{cost.out}")
    return cost


def report_of(path: Path) -> Json:
    """The summary of a recording."""
    argv = [GSPROF, "report", "--json", path]
    raw: Json = json.loads(need(run(argv), argv).out)["summary"]
    return raw


def floor(bench: Bench, *words: object) -> Tuple[Json, str]:
    """The cost of the bare mechanism on this machine, and the ticks that the machine loses."""
    exe = bench.folder / "floor"
    build = ["cc", "-std=c11", "-O2", "-D_GNU_SOURCE", "-o", exe, ROOT / "bench" / "floor.c"]
    need(run(build), build)
    argv = [exe, *words, bench.seconds(3)]
    figures: Json = json.loads(need(run(argv), argv).out)
    return figures, shown(argv)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def for_each_python(
    description: Optional[str],
    kinds: Sequence[str],
    amount: Tuple[str, float, str],
    measure: Callable[[Bench, Python, List[str], float], None],
) -> int:
    """The command line of a benchmark that can also run alone, for every interpreter. `amount` is
    an option: its name, default and help. Returns the exit status."""
    name, default, text = amount
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        f"--{name}", type=type(default), default=default, help=f"{text} (default: %(default)s)"
    )
    parser.add_argument(
        "--kinds",
        default=",".join(kinds),
        help="programs, separated by commas (default: %(default)s)",
    )
    parser.add_argument(
        "versions",
        nargs="*",
        metavar="VERSION",
        help="the start of a Python version, such as 3.11 (default: all)",
    )
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gsprof-bench-"))
    bench = Bench("", False, folder)
    try:
        for python in find_pythons()[0]:
            if not args.versions or any(str(python).startswith(v) for v in args.versions):
                bench.python = python.path
                measure(bench, python, args.kinds.split(","), getattr(args, name))
    finally:
        shutil.rmtree(folder)
    return 1 if any(row.ok is False for row in bench.rows) else 0


# ----------------------------------------------------------------------- the peers


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "gsprof" / "bench-peers"


def install_peers(bench: Bench) -> None:
    """Installs each peer into a private environment, and records the missing ones."""
    venv = cache_folder()
    pip = venv / "bin" / "pip"
    if not pip.exists():
        made = run([sys.executable, "-m", "venv", venv])
        if made.status:
            bench.missing.update(dict.fromkeys(PEERS, "no venv module"))
            return
    for name, pinned in PEERS.items():
        exe = venv / "bin" / name
        mark = venv / f"{pinned}.installed"
        if not mark.exists():
            done = run([pip, "install", "--quiet", pinned])
            if done.status:
                bench.missing[name] = "not in the package index, or the index is not reachable"
                continue
            mark.touch()
        if run([exe, "--version"]).status:
            bench.missing[name] = "does not start on this machine"
            continue
        bench.peers[name] = str(exe)


@dataclass
class Tool:
    """A profiler: its command, and the numbers of samples and failures that it reports."""

    name: str
    argv: Callable[[int, int, float, Path], List[str]]
    samples: Callable[[Cost, Path], Tuple[int, int]]
    suffix: str
    # py-spy counts its duration in samples, so it is interrupted instead.
    interrupt: bool = False


def gsprof_argv(pid: int, rate_hz: int, seconds: float, path: Path) -> List[str]:
    return [
        str(GSPROF),
        "record",
        "-p",
        str(pid),
        "-r",
        str(rate_hz),
        "-d",
        f"{seconds:g}",
        "-o",
        str(path),
    ]


def gsprof_samples(_: Cost, path: Path) -> Tuple[int, int]:
    raw = report_of(path)
    return int(raw["samples"]), int(raw["losses"]["torn"]) + int(raw["losses"]["failed"])


def pyspy_samples(cost: Cost, _: Path) -> Tuple[int, int]:
    found = re.search(r"Samples: (\d+) Errors: (\d+)", cost.out)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def austin_samples(cost: Cost, _: Path) -> Tuple[int, int]:
    found = re.search(r"Error rate.*?(\d+)/(\d+)", cost.out)
    return (int(found.group(2)), int(found.group(1))) if found else (0, 0)


def pyspy_argv(exe: str, more: List[str]) -> Callable[[int, int, float, Path], List[str]]:
    def argv(pid: int, rate_hz: int, seconds: float, path: Path) -> List[str]:
        del seconds
        rate = ["-r", str(rate_hz)]
        return [exe, "record", *more, "-p", str(pid), *rate, "-f", "raw", "-o", str(path)]

    return argv


def austin_argv(exe: str) -> Callable[[int, int, float, Path], List[str]]:
    def argv(pid: int, rate_hz: int, seconds: float, path: Path) -> List[str]:
        interval = f"{max(1, 1000000 // rate_hz)}us"
        whole = str(max(1, round(seconds)))
        return [exe, "-s", "-i", interval, "-x", whole, "-p", str(pid), "-o", str(path)]

    return argv


def tools(bench: Bench) -> List[Tool]:
    """gsprof, then every installed peer."""
    found = [Tool("gsprof", gsprof_argv, gsprof_samples, ".gsp")]
    austin = bench.peers.get("austin")
    if austin:
        found.append(Tool("austin", austin_argv(austin), austin_samples, ".austin"))
    pyspy = bench.peers.get("py-spy")
    if pyspy:
        modes: Dict[str, List[str]] = {
            "py-spy": [],
            "py-spy --nonblocking": ["--nonblocking"],
        }
        for name, more in modes.items():
            found.append(Tool(name, pyspy_argv(pyspy, more), pyspy_samples, ".raw", True))
    return found


def default_python() -> str:
    return str(main_python())
