# SPDX-License-Identifier: Apache-2.0
"""Native stacks of loops in native code: NumPy with its BLAS, and PyTorch. One target repeats the
same piece of work; it runs in turns alone, under gsprof --native and under py-spy --native."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from common import Bench, Row, cache_folder, gsprof_argv, median, run, shown
from slowdown import spread
from support import Target, program

RATE_HZ = 100
PIECE_MS = 400
TORCH = "torch==2.13.0"
SLOWDOWN_MAX = 1.01
STOP_P99_MAX_US = 300.0
WHOLE_MIN_PCT = 99.0
LATE_MAX_PCT = 1.0
# One thread, so that scheduling on two CPUs does not add noise.
ENV = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TARGET_LIFE_S": "3600"}
DEBIAN = "/usr/bin/python3"


def has(python: str, module: str) -> bool:
    return os.access(python, os.X_OK) and run([python, "-c", f"import {module}"]).status == 0


def numpy_python(bench: Bench) -> Optional[str]:
    for python in (bench.python, sys.executable, DEBIAN):
        if has(python, "numpy"):
            return python
    return None


def torch_python() -> Optional[str]:
    """From a private environment that is created once, otherwise Debian's package."""
    venv = cache_folder().parent / "bench-torch"
    python = str(venv / "bin" / "python")
    if not has(python, "torch"):
        run([DEBIAN, "-m", "venv", venv])
        run([python, "-m", "pip", "install", "--quiet", TORCH, "numpy"])
    for found in (python, DEBIAN):
        if has(found, "torch"):
            return found
    return None


def native_argv(pid: int, path: Path, *more: str) -> List[str]:
    return [*gsprof_argv(pid, RATE_HZ, 600, path), "--native", *more]


def start_profiler(argv: List[str]) -> subprocess.Popen[bytes]:
    """Starts a profiler on CPU 1. Some profilers print to stdout, some to stderr."""
    process = subprocess.Popen(
        ["taskset", "-c", "1", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def end_profiler(profiler: subprocess.Popen[bytes]) -> str:
    profiler.send_signal(signal.SIGINT)
    output, _ = profiler.communicate()
    return (output or b"").decode("utf-8", "replace")


def piece(target: Target) -> float:
    return float(target.go()["wall_ns"]) / 1e9


def turns(bench: Bench, target: Target) -> Tuple[Dict[str, List[float]], Dict[str, str]]:
    """Ratios of the target's time by profiler; "none" is the noise."""
    tools: Dict[str, List[str]] = {"none": []}
    pyspy = bench.peers.get("py-spy")
    ratios: Dict[str, List[float]] = {"none": [], "gsprof": []}
    commands: Dict[str, str] = {}
    if pyspy:
        ratios["py-spy"] = []
    before = piece(target)
    for _ in range(bench.rounds(24)):
        tools["gsprof"] = native_argv(target.pid, bench.fresh(".gsp"))
        if pyspy:
            rate = ["-r", str(RATE_HZ), "-f", "raw"]
            out = ["-o", str(bench.fresh(".raw"))]
            tools["py-spy"] = [pyspy, "record", "--native", "-p", str(target.pid), *rate, *out]
        for name, argv in tools.items():
            profiler = start_profiler(argv) if argv else None
            profiled = piece(target)
            if profiler:
                commands[name] = shown(argv)
                end_profiler(profiler)
            after = piece(target)
            ratios[name].append(profiled / ((before + after) / 2))
            before = after
    return ratios, commands


def number(pattern: str, text: str) -> Optional[float]:
    found = re.search(pattern, text)
    return float(found[1]) if found else None


def stacks(bench: Bench, target: Target, name: str) -> None:
    """Complete stacks and stop times, by default and if every stack needs a stop."""
    for way in ("auto", "stop"):
        argv = native_argv(target.pid, bench.fresh(".gsp"), "--native-capture", way)
        profiler = start_profiler(argv)
        for _ in range(bench.rounds(18)):
            piece(target)
        output = end_profiler(profiler)
        command = shown(argv)
        whole = number(r"Native stacks: ([\d.]+) %", output)
        what = f"{name}: stacks that reach the entry, capture {way}"
        good = whole is not None and whole >= WHOLE_MIN_PCT
        note = " ".join(re.findall(r"(?:Lost|Native stacks): .*", output))
        bench.add(Row("native", what, whole, "%", f">= {WHOLE_MIN_PCT:g} %", good, command, note))
        p50 = number(r"Stop time: ([\d.]+) us median", output)
        p99 = number(r", ([\d.]+) us p99", output)
        bench.add(Row("native", f"{name}: a stop, median, capture {way}", p50, "us"))
        bar = f"<= {STOP_P99_MAX_US:g} us"
        what = f"{name}: a stop, p99, capture {way}"
        # Without any stop the limit is met.
        good = p99 is None or p99 <= STOP_P99_MAX_US
        bench.add(Row("native", what, p99, "us", bar, good, command))


def measure(bench: Bench, name: str, python: str) -> None:
    argv = ["taskset", "-c", "0", python, program("matrices.py"), name, str(PIECE_MS)]
    target = Target(argv, env=ENV)
    try:
        # The first recording loads tables and symbols, which does not slow the target.
        end_profiler(start_profiler(native_argv(target.pid, bench.fresh(".gsp"))))
        ratios, commands = turns(bench, target)
        for profiler, values in ratios.items():
            ratio = median(values)
            is_ours = profiler == "gsprof"
            bench.add(
                Row(
                    "native",
                    f"{name}: target's time, {profiler} at {RATE_HZ} Hz --native / alone",
                    ratio,
                    "x",
                    f"<= {SLOWDOWN_MAX} x" if is_ours else "",
                    ratio <= SLOWDOWN_MAX if is_ours else None,
                    commands.get(profiler, ""),
                    f"interquartile range {spread(values):.4f}",
                )
            )
        stacks(bench, target, name)
    finally:
        target.end()


def training(bench: Bench, python: str) -> None:
    """A training job, which runs Python and native code about equally: complete stacks, stops, and
    whether the first second of a recording is as good as the rest."""
    target = Target([python, program("torch_small.py")], env=ENV)
    try:
        for seconds in (1, 3 * bench.rounds(5)):
            argv = [*gsprof_argv(target.pid, RATE_HZ, seconds, bench.fresh(".gsp")), "--native"]
            done = run(argv)
            output = done.out
            ways = re.search(r"(\d+) taken asleep, (\d+) by perf events, (\d+) by stops", output)
            if not ways:
                bench.add(Row("native", "training: native stacks", None, "", note=output[-200:]))
                return
            asleep, events, stops = map(int, ways.groups())
            count = max(1, asleep + events + stops)
            lost = number(r"(\d+) stacks not merged", output.replace(",", "")) or 0.0
            late = number(r"(\d+) ticks late", output.replace(",", "")) or 0.0
            of = "first second" if seconds == 1 else f"{seconds} s"
            for what, value, bar in (
                (
                    "stacks that reach the entry",
                    number(r"Native stacks: ([\d.]+) %", output),
                    WHOLE_MIN_PCT,
                ),
                ("stacks merged", 100 * (1 - lost / (count + lost)), WHOLE_MIN_PCT),
                ("stacks that needed a stop", 100 * stops / count, None),
                ("late ticks", 100 * late / (RATE_HZ * seconds), LATE_MAX_PCT),
            ):
                is_late = what == "late ticks"
                good: Optional[bool] = None
                if bar is not None:
                    good = value is not None and (value <= bar if is_late else value >= bar)
                shown_bar = "" if bar is None else f"{'<=' if is_late else '>='} {bar:g} %"
                title = f"training, {of}: {what}"
                bench.add(Row("native", title, value, "%", shown_bar, good, shown(argv)))
            cost = 1000 * done.cpu_s / count
            bench.add(Row("native", f"training, {of}: CPU of gsprof per stack", cost, "ms"))
    finally:
        target.end()


def main(bench: Bench) -> None:
    if (os.cpu_count() or 1) < 2:
        bench.add(Row("native", "native stacks", None, "", note="needs two CPUs"))
        return
    for name, python in (("numpy", numpy_python(bench)), ("torch", torch_python())):
        if python:
            measure(bench, name, python)
        else:
            bench.add(
                Row("native", f"{name}: native stacks", None, "", note=f"{name} is not installed")
            )
    torch = torch_python()
    if torch:
        training(bench, torch)
