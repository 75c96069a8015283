#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs that end in every possible way, alone and under `gsprof run`: exit status and
output must be the same. Process ids, addresses and times are masked.

usage: exits.py [--count N] [--only NAME]... [--python PATH]... [--venvs DIR] [--jobs N] [--load N]

Cycles through the cases, each under every interpreter that has the modules it needs, until N
programs have ended under the profiler (default: 1000). --venvs creates environments with NumPy and
PyTorch from PyPI in DIR, for interpreters that lack them, and keeps them. --jobs is the number of
programs at a time (default: one per core), --load the number of busy loops beside them. Each
program runs alone once per interpreter, and again if it ends differently under the profiler,
because its ending may vary. Prints each difference and the counts; the exit status is 1 if a
difference was found or if not all programs were compared."""

from __future__ import annotations

import argparse
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Counter, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
sys.path.insert(0, str(HERE.parent / "integration"))

from support import GSPROF, Python, find_pythons, probe  # noqa: E402

# Longer than any program takes on a machine with a load of 20.
PATIENCE_S = 600.0
HUNG = -1000
# How often a program that ends differently under the profiler is run alone again.
RETRIES = 3


@dataclass(frozen=True)
class Case:
    """A way to end."""

    program: str
    args: Tuple[str, ...] = ()
    options: Tuple[str, ...] = ()  # of the interpreter
    env: Tuple[Tuple[str, str], ...] = ()
    needs: str = ""  # a module that the program imports
    newest: Tuple[int, int] = (3, 99)  # newest Python version that supports it
    is_unordered: bool = False  # several processes print
    is_short: bool = False  # also in `make test`
    every: int = 1  # a slow case runs only in every n-th round

    @property
    def name(self) -> str:
        words = [*(f"{key}={text}" for key, text in self.env), *self.options]
        return " ".join([*words, self.program, *self.args])

    def command(self, python: str) -> List[str]:
        return [python, *self.options, str(PROGRAMS / f"{self.program}.py"), *self.args]


LAUNCH: Tuple[str, ...] = ("-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=0")
LAUNCH += ("--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0")

CASES = [
    Case("plain", is_short=True),
    Case("status", ("three",)),
    Case("status", ("text",)),
    Case("status", ("none",)),
    Case("error", is_short=True),
    Case("os_exit"),
    Case("signals", ("abort",)),
    Case("signals", ("fault",), is_short=True),
    Case("signals", ("SIGTERM",)),
    Case("signals", ("SIGKILL",)),
    Case("signals", ("SIGINT",)),
    Case("signals", ("SIGSEGV",)),
    Case("execs"),
    Case("execs", ("again",)),
    Case("at_exit", is_short=True),
    Case("at_exit", ("clear",)),
    Case("destructor", is_short=True),
    Case("destructor", ("clear",), is_short=True),
    Case("c_exit", ("main",)),
    Case("c_exit", ("thread",)),
    Case("daemon_threads", is_short=True),
    Case("late_threads"),
    Case("unknown_threads", is_short=True),
    Case("openmp"),
    Case("cancelled", is_short=True),
    Case("fork_handlers", env=(("GSPROF_MEMORY", "exact"),), is_short=True),
    Case("interpreters"),
    Case("interpreters", ("stay",)),
    Case("forks", is_short=True),
    Case("pools", ("fork",)),
    Case("pools", ("spawn",)),
    Case("pools", ("forkserver",)),
    Case("children"),
    Case("child_signals", is_short=True),
    Case("alarms"),
    Case("finalizers", is_short=True),
    Case("limits"),
    Case("limits", ("memory",)),
    Case("threads_die"),
    Case("interrupted", ("python",)),
    Case("interrupted", ("lock",)),
    Case("interrupted", ("sleep",)),
    Case("asyncs"),
    Case("warned", options=("-W", "error")),
    Case("warned", options=("-X", "dev")),
    Case("warned", options=("-O",), env=(("PYTHONMALLOC", "malloc"),)),
    Case("warned", env=(("PYTHONMALLOC", "debug"),)),
    Case("warned", options=("-X", "tracemalloc")),
    Case("warned", options=("-X", "faulthandler", "-bb", "-u")),
    Case("traced", is_short=True),
    Case("fail_import"),
    Case("fake_torch", is_short=True),
    Case("numpy_work", needs="numpy"),
    # On 3.12 OpenBLAS with its own threads can hang at exit, also without gsprof.
    Case("numpy_work", ("thread",), env=(("OPENBLAS_NUM_THREADS", "1"),), needs="numpy"),
    Case("torch_train", needs="torch", every=3),
    Case("torch_train", ("error",), needs="torch", every=3),
    Case("torch_train", ("backward",), needs="torch", every=3),
    Case("torch_errors", needs="torch", every=3),
    Case("torch_loader", needs="torch", every=3),
    Case("torch_loader", ("leave",), needs="torch", every=3),
    Case("torch_loader", ("error",), needs="torch", every=3),
    Case("torch_spawn", needs="torch", every=3),
    Case("torch_spawn", ("error",), needs="torch", every=3),
    Case("torch_ddp", options=LAUNCH, needs="torch", every=3, is_unordered=True),
    Case("torch_ddp", ("error",), options=LAUNCH, needs="torch", every=3, is_unordered=True),
]


# ------------------------------------------------------------------------------------- comparing

# Order matters: a time has digits that look like a process id. Numbers of one digit are not masked,
# because the programs print some.
MASKS = [
    (re.compile(r"0x[0-9a-fA-F]+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\d[ _T]\d\d:\d\d:\d\d([.,]\d+)?"), "TIME"),
    (re.compile(r"\b[IWE]?\d{4} \d\d:\d\d:\d\d\.\d+ \d+"), "TIME"),
    (re.compile(r"(?i)\b(pids?|process|child|thread)([ :=)]+)\d{2,}"), r"\1\2PID"),
    (re.compile(r"localhost:\d+|127\.0\.0\.1:\d+"), "PORT"),
    (re.compile(r"\b[a-z0-9.-]+_\d+_\d+\b"), "NODE"),
    # Whether another rank still runs when one has failed, and which line waits for a DataLoader
    # worker, depends on timing.
    (re.compile(r".* (Sending process PID closing|Terminating process PID via) signal.*\n"), ""),
    (re.compile(r'(dataloader\.py", line )\d+'), r"\1N"),
]


def mask(text: str) -> str:
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text


@dataclass(frozen=True)
class Ending:
    """Exit status and output of a program."""

    status: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def children_of(parent: int) -> List[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may contain anything.
            after_name = path.read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1]
        except OSError:
            continue
        if int(after_name.split()[1]) == parent:
            found.append(int(path.parent.name))
    return found


def show_stacks(pid: int) -> None:
    command = ["gdb", "-batch", "-p", str(pid), "-ex", "thread apply all bt 30"]
    print(f"-- hangs: {pid}", flush=True)
    if shutil.which("gdb"):
        try:
            subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            print("-- gdb hangs too", flush=True)


def end_family(pid: int) -> None:
    """Kills a process that hangs and all its descendants; prints their stacks first."""
    family = [pid]
    for parent in family:
        family += children_of(parent)
    for member in family:
        show_stacks(member)
    for member in family:
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(
    command: Sequence[str],
    case: Case,
    folder: Path,
    native: Path,
    more: Optional[Mapping[str, str]] = None,
) -> Ending:
    """Runs a program to its end, with more variables in its environment."""
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    env = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "EXITS_NATIVE": str(native),
        "OMP_NUM_THREADS": "2",
        "PYTHONHASHSEED": "0",
        **(more or {}),
        **dict(case.env),
    }
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=work
        )
        try:
            status = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            end_family(process.pid)
            process.wait()
            status = HUNG
        texts = []
        for file in (out, err):
            file.seek(0)
            text = mask(file.read().decode("utf-8", "replace").replace(str(work), "WORK"))
            if case.is_unordered:
                text = "\n".join(sorted(text.splitlines()))
            texts.append(text)
    return Ending(status, texts[0], texts[1])


@dataclass(frozen=True)
class Outcome:
    """Result of a comparison."""

    difference: str = ""
    varies: bool = False  # the ending of the program varies, even without gsprof


# Endings of programs without gsprof, by case and interpreter; several if they vary.
_alone: Dict[Tuple[str, str], List[Ending]] = {}


def compare(
    case: Case,
    python: str,
    folder: Path,
    native: Path,
    agent: Optional[Mapping[str, str]] = None,
) -> Outcome:
    """Runs a program once under the profiler, or with the environment of the agent if that is
    given. If its ending is unknown, runs it alone again; the ending is a difference unless the
    program then ends in that way by itself."""
    known = _alone.setdefault((case.name, python), [])

    def run_alone() -> bool:
        ending = run(case.command(python), case, folder, native)
        if ending not in known:
            known.append(ending)
        return ending.status != HUNG

    if not known:
        run_alone()
    if any(ending.status == HUNG for ending in known):
        return Outcome(f"== hangs alone: {known}", len(known) > 1)
    command = [str(GSPROF), "run", "-q", "--force", "-o", str(folder / "run"), "--"]
    if agent:
        command = []
    under = run([*command, *case.command(python)], case, folder, native, agent)
    runs = 0
    while under not in known and under.status != HUNG and runs < RETRIES and run_alone():
        runs += 1
    varies = len(known) > 1
    if under.status != HUNG and under in known:
        return Outcome("", varies)
    alone = "\n".join(f"== alone: {ending}" for ending in known)
    return Outcome(f"{alone}\n== under gsprof: {under}", varies)


# ------------------------------------------------------------------------ interpreters and packages


def build_native(folder: Path) -> Path:
    """Builds the C library of the programs."""
    path = folder / "libnative.so"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-fopenmp", "-o", str(path)]
    subprocess.run([*command, str(HERE / "native.c"), "-lpthread"], check=True)
    return path


# Packages for some versions; other versions get only NumPy. One old and one new PyTorch, because
# each takes 3 to 5 GB with its CUDA libraries.
OLD_TORCH = ["numpy<2", "torch==1.13.1"]
NEW_TORCH = ["numpy", "torch==2.13.0"]
PACKAGES = {(3, 8): OLD_TORCH, (3, 10): OLD_TORCH}
PACKAGES.update({(3, 11): NEW_TORCH, (3, 12): NEW_TORCH, (3, 14): NEW_TORCH})


def install(python: Python, home: Path, packages: Sequence[str]) -> bool:
    """Creates an environment. Its pip comes from PyPI, because some interpreters have none."""
    wheels = home / "pip"
    version = ".".join(str(number) for number in python.version[:2])
    only = ["--only-binary=:all:", "-q"]
    get_pip = [sys.executable, "-m", "pip", "download", *only, "--no-deps", "-d", str(wheels)]
    made = [
        [python.path, "-m", "venv", "--without-pip", str(home)],
        [*get_pip, "--python-version", version, "pip"],
    ]
    if any(subprocess.run(command, check=False).returncode for command in made):
        return False
    pip = next(wheels.glob("pip-*.whl")) / "pip"
    command = [str(home / "bin" / "python"), str(pip), "install", *only, *packages]
    return subprocess.run(command, check=False).returncode == 0


def with_packages(pythons: Sequence[Python], folder: Path) -> List[Python]:
    """Returns the interpreters, in environments with packages from PyPI if they lack them."""
    found = []
    for python in pythons:
        home = folder / python.label
        expected = PACKAGES.get(python.version[:2], ["numpy"])
        if has_module(python.path, expected[-1].split("=")[0]):
            found.append(python)
            continue
        if not (home / "done").exists() and not install(python, home, expected):
            print(f"{python}: no packages, only the standard library")
            found.append(python)
            continue
        (home / "done").touch()
        found.append(Python(str(home / "bin" / "python"), python.version, python.label))
    return found


_versions: Dict[Tuple[str, str], Optional[Tuple[int, ...]]] = {}


def version_of(python: str, name: str) -> Optional[Tuple[int, ...]]:
    """Returns the version of a module, or None if it cannot be imported."""
    key = (python, name)
    if key not in _versions:
        done = subprocess.run(
            [python, "-c", f"import {name}; print({name}.__version__)"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            text=True,
        )
        numbers = re.findall(r"\d+", done.stdout)[:2]
        _versions[key] = None if done.returncode else tuple(map(int, numbers))
    return _versions[key]


def has_module(python: str, name: str) -> bool:
    return version_of(python, name) is not None


def fits(case: Case, python: Python) -> bool:
    if case.program == "interpreters" and python.label.split("-")[0].endswith("t"):
        return False  # free-threaded builds lack the old module that the program uses
    if python.version[:2] > case.newest:
        return False
    if not case.needs:
        return True
    version = version_of(python.path, case.needs)
    if case.options == LAUNCH and python.version >= (3, 11) and version and version < (2, 0):
        return False  # this launcher fails with AttributeError, also without gsprof
    return version is not None


def pairs(cases: Sequence[Case], pythons: Sequence[Python]) -> Iterator[Tuple[Case, Python]]:
    """Yields all pairs in an endless loop; the interpreters alternate."""
    able = [(case, [p for p in pythons if fits(case, p)]) for case in cases]
    able = [(case, those) for case, those in able if those]
    round_number = 0
    while able:
        for number, (case, those) in enumerate(able):
            if round_number % case.every == 0:
                yield case, those[(round_number // case.every + number) % len(those)]
        round_number += 1


@dataclass
class Totals:
    """Counts of all workers; the lock guards them and the plan."""

    plan: Iterator[Tuple[Case, Python]]
    expected: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    started: int = 0
    by_python: Counter[str] = field(default_factory=collections.Counter)
    by_case: Counter[str] = field(default_factory=collections.Counter)
    varying: Set[Tuple[str, str]] = field(default_factory=set)
    differences: int = 0

    @property
    def ended(self) -> int:
        return sum(self.by_case.values())

    def next(self) -> Optional[Tuple[Case, Python]]:
        with self.lock:
            if self.started == self.expected:
                return None
            self.started += 1
            return next(self.plan, None)

    def add(self, case: Case, python: Python, outcome: Outcome) -> None:
        with self.lock:
            self.by_python[str(python)] += 1
            self.by_case[case.name] += 1
            if outcome.varies and (case.name, str(python)) not in self.varying:
                self.varying.add((case.name, str(python)))
                print(f"varies alone: {case.name} on {python}", flush=True)
            if outcome.difference:
                self.differences += 1
                print(f"DIFFERENT: {case.name} on {python}\n{outcome.difference}\n", flush=True)
            if self.ended % 50 == 0:
                print(f"{self.ended} exits so far, {self.differences} different", flush=True)


def work(totals: Totals, folder: Path, native: Path) -> None:
    while True:
        pair = totals.next()
        if pair is None:
            return
        case, python = pair
        try:
            totals.add(case, python, compare(case, python.path, folder, native))
        except Exception:  # the pair is missing from the count at the end
            print(f"NOT COMPARED: {case.name} on {python}\n{traceback.format_exc()}", flush=True)


def run_all(totals: Totals, jobs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="gsprof-exits-") as name:
        folder = Path(name)
        os.environ["XDG_RUNTIME_DIR"] = name
        native = build_native(folder)
        workers = []
        for number in range(jobs):
            own = folder / str(number)
            own.mkdir()
            workers.append(threading.Thread(target=work, args=(totals, own, native)))
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--python", action="append", default=[], metavar="PATH")
    parser.add_argument("--venvs", type=Path, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--load", type=int, default=0, metavar="N")
    return parser.parse_args()


def main() -> int:
    options = parse()
    # A shell starts background jobs with SIGINT ignored, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.python:
        pythons = [found for found in map(probe, options.python) if found]
    else:
        pythons, missing = find_pythons("--free-threaded")
        if missing:
            print(f"newest interpreters missing: {missing}")
    if options.venvs:
        pythons = with_packages(pythons, options.venvs)
    cases = [c for c in CASES if not options.only or any(o in c.name for o in options.only)]
    print("interpreters:", " ".join(str(python) for python in pythons), flush=True)
    totals = Totals(pairs(cases, pythons), options.count)
    began_s = time.monotonic()
    busy = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(busy) for _ in range(options.load)]
    try:
        run_all(totals, options.jobs)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    counts = ", ".join(f"{name} {count}" for name, count in sorted(totals.by_python.items()))
    print(f"by interpreter: {counts}")
    print(f"{len(totals.by_case)} cases in {time.monotonic() - began_s:.0f} s")
    print(f"{len(totals.varying)} vary alone", flush=True)
    print(f"{totals.ended} exits, {totals.differences} different", flush=True)
    if totals.ended != options.count:
        print(f"only {totals.ended} of {options.count} were compared", flush=True)
    return 1 if totals.differences or not totals.ended or totals.ended != options.count else 0


if __name__ == "__main__":
    sys.exit(main())
