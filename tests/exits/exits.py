#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that end in every way there is, alone and under `gsprof run`: the exit status and the
output must be the same.  Process ids, addresses and times are masked.

usage: exits.py [--count N] [--only NAME]... [--python PATH]... [--venvs DIR] [--load N]

Runs the cases in turn, each under every interpreter that has what it needs, until N programs have
ended under the profiler (1000).  --venvs makes environments with NumPy and PyTorch from PyPI in
DIR, for those interpreters that have none, and leaves them there.  --load starts so many busy loops
beside the programs.  Prints each difference, and the counts at the end; the status is 1 if there
was a difference."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
sys.path.insert(0, str(HERE.parent / "integration"))

from support import GSPROF, Python, find_pythons, probe  # noqa: E402

# Longer than any of them takes on a machine with a load of 20.
PATIENCE_S = 600.0
HUNG = -1000


@dataclass(frozen=True)
class Case:
    """One way to end."""

    program: str
    args: Tuple[str, ...] = ()
    options: Tuple[str, ...] = ()  # of the interpreter
    env: Tuple[Tuple[str, str], ...] = ()
    needs: str = ""  # a module
    newest: Tuple[int, int] = (3, 99)  # the last version that can do it
    is_unordered: bool = False  # several processes print
    is_short: bool = False  # also in `make test`

    @property
    def name(self) -> str:
        words = [*(f"{key}={text}" for key, text in self.env), *self.options]
        return " ".join([*words, self.program, *self.args])

    def command(self, python: str) -> List[str]:
        return [python, *self.options, str(PROGRAMS / f"{self.program}.py"), *self.args]


LAUNCH = ("-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=0")
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
    # On 3.12 OpenBLAS with threads of its own can hang at exit, also without the profiler.
    Case("numpy_work", ("thread",), env=(("OPENBLAS_NUM_THREADS", "1"),), needs="numpy"),
    Case("torch_train", needs="torch"),
    Case("torch_train", ("error",), needs="torch"),
    Case("torch_train", ("backward",), needs="torch"),
    Case("torch_errors", needs="torch"),
    Case("torch_loader", needs="torch"),
    Case("torch_loader", ("leave",), needs="torch"),
    Case("torch_loader", ("error",), needs="torch"),
    Case("torch_spawn", needs="torch"),
    Case("torch_spawn", ("error",), needs="torch"),
    # PyTorch 1.13's launcher fails on Python 3.11 (AttributeError), also without the profiler.
    Case("torch_ddp", options=LAUNCH, needs="torch", is_unordered=True),
    Case("torch_ddp", ("error",), options=LAUNCH, needs="torch", is_unordered=True),
]


# ------------------------------------------------------------------------------------- comparing

# Order matters: a time has digits that look like a process id.
MASKS = [
    (re.compile(r"0x[0-9a-fA-F]+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\d[ _T]\d\d:\d\d:\d\d([.,]\d+)?"), "TIME"),
    (re.compile(r"\b[IWE]?\d{4} \d\d:\d\d:\d\d\.\d+ \d+"), "TIME"),
    (re.compile(r"(?i)\b(pids?|process|child|thread)([ :=)]+)\d+"), r"\1\2PID"),
    (re.compile(r"\blocal_rank: (\d+) \(pid: \d+\)"), r"local_rank: \1 (pid: PID)"),
    (re.compile(r"localhost:\d+|127\.0\.0\.1:\d+"), "PORT"),
    (re.compile(r"\b[a-z0-9.-]+_\d+_\d+\b"), "NODE"),
    # Whether another rank still runs when one has failed, and which line waits for a DataLoader
    # worker, depends on who comes first.
    (re.compile(r".* Sending process PID closing signal SIGTERM\n"), ""),
    (re.compile(r'(dataloader\.py", line )\d+'), r"\1N"),
]


def mask(text: str) -> str:
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text


@dataclass(frozen=True)
class Ending:
    """What a user sees of a program's end."""

    status: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def end_family(pid: int) -> None:
    """Ends a process that hangs and all that it started; shows where they stand."""
    family = [pid]
    for parent in family:
        listed = subprocess.run(["pgrep", "-P", str(parent)], stdout=subprocess.PIPE, check=False)
        family += [int(word) for word in listed.stdout.split()]
    for member in family:
        command = ["gdb", "-batch", "-p", str(member), "-ex", "thread apply all bt 30"]
        print(f"-- hangs: {member}", flush=True)
        if shutil.which("gdb"):
            subprocess.run(command, stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)
    for member in family:
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(command: Sequence[str], case: Case, folder: Path, native: Path) -> Ending:
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    env = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "EXITS_NATIVE": str(native),
        "OMP_NUM_THREADS": "2",
        "PYTHONHASHSEED": "0",
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
            text = mask(file.read().decode("utf-8", "replace"))
            if case.is_unordered:
                text = "\n".join(sorted(text.splitlines()))
            texts.append(text)
    # gsprof passes a signal on as a shell does.
    return Ending(128 - status if HUNG < status < 0 else status, texts[0], texts[1])


def compare(case: Case, python: str, folder: Path, native: Path) -> str:
    """What differs; "" when nothing does."""
    alone = run(case.command(python), case, folder, native)
    command = [str(GSPROF), "run", "-q", "--force", "-o", str(folder / "run"), "--"]
    under = run([*command, *case.command(python)], case, folder, native)
    if alone == under:
        return ""
    return f"== alone: {alone}\n== under gsprof: {under}"


# ----------------------------------------------------------------------------------- what there is


def build_native(folder: Path) -> Path:
    """The C library of the programs."""
    path = folder / "libnative.so"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-fopenmp", "-o", str(path)]
    subprocess.run([*command, str(HERE / "native.c"), "-lpthread"], check=True)
    return path


# The PyTorch that has a build without CUDA for the version.
TORCH = {(3, 11): "torch==2.13.0"}


def with_packages(pythons: Sequence[Python], folder: Path) -> List[Python]:
    """The same interpreters, in environments with packages from PyPI where they lack them."""
    found = []
    for python in pythons:
        home = folder / python.label
        wanted = ["numpy"] + [TORCH[key] for key in (python.version[:2],) if key in TORCH]
        if has_module(python.path, wanted[-1].split("=")[0]):
            found.append(python)
            continue
        inside = home / "bin" / "python"
        pip = [str(inside), "-m", "pip", "install", "-q", *wanted]
        if not (home / "done").exists() and (
            subprocess.run([python.path, "-m", "venv", str(home)], check=False).returncode
            or subprocess.run(pip, check=False).returncode
        ):
            print(f"{python}: no packages, only the standard library")
            found.append(python)
            continue
        (home / "done").touch()
        found.append(Python(str(inside), python.version, python.label))
    return found


_modules: Dict[Tuple[str, str], bool] = {}


def has_module(python: str, name: str) -> bool:
    key = (python, name)
    if key not in _modules:
        done = subprocess.run(
            [python, "-c", f"import {name}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        _modules[key] = done.returncode == 0
    return _modules[key]


def fits(case: Case, python: Python) -> bool:
    if case.program == "interpreters" and python.label.split("-")[0].endswith("t"):
        return False  # a free-threaded build has them, but not this old module's names
    return python.version[:2] <= case.newest and (
        not case.needs or has_module(python.path, case.needs)
    )


def pairs(cases: Sequence[Case], pythons: Sequence[Python]) -> Iterator[Tuple[Case, Python]]:
    """All pairs, again and again; the interpreters take turns."""
    able = [(case, [p for p in pythons if fits(case, p)]) for case in cases]
    able = [(case, those) for case, those in able if those]
    turn = 0
    while able:
        for number, (case, those) in enumerate(able):
            yield case, those[(turn + number) % len(those)]
        turn += 1


@dataclass
class Totals:
    ended: int = 0
    by_python: Dict[str, int] = field(default_factory=dict)
    by_case: Dict[str, int] = field(default_factory=dict)
    differences: List[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--python", action="append", default=[], metavar="PATH")
    parser.add_argument("--venvs", type=Path, metavar="DIR")
    parser.add_argument("--load", type=int, default=0, metavar="N")
    options = parser.parse_args()
    if options.python:
        pythons = [found for found in map(probe, options.python) if found]
    else:
        pythons, missing = find_pythons()
        if missing:
            print(f"newest interpreters missing: {missing}")
    if options.venvs:
        pythons = with_packages(pythons, options.venvs)
    cases = [c for c in CASES if not options.only or any(o in c.name for o in options.only)]
    print("interpreters:", " ".join(str(python) for python in pythons), flush=True)
    totals = Totals()
    began_s = time.monotonic()
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.load)
    ]
    folder = Path(tempfile.mkdtemp(prefix="gsprof-exits-"))
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    try:
        native = build_native(folder)
        for case, python in pairs(cases, pythons):
            if totals.ended >= options.count:
                break
            difference = compare(case, python.path, folder, native)
            totals.ended += 1
            totals.by_python[str(python)] = totals.by_python.get(str(python), 0) + 1
            totals.by_case[case.name] = totals.by_case.get(case.name, 0) + 1
            if difference:
                totals.differences.append(f"{case.name} on {python}")
                print(f"DIFFERENT: {case.name} on {python}\n{difference}\n", flush=True)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        shutil.rmtree(folder, ignore_errors=True)
    print("by interpreter:", ", ".join(f"{k} {v}" for k, v in sorted(totals.by_python.items())))
    print(f"{len(totals.by_case)} cases in {time.monotonic() - began_s:.0f} s")
    print(f"{totals.ended} exits, {len(totals.differences)} different", flush=True)
    return 1 if totals.differences else 0


if __name__ == "__main__":
    sys.exit(main())
