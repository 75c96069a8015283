# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of every parser of external bytes, with libFuzzer, ASan and UBSan.

A trial is one execution of a target. The corpora, and inputs that failed, are kept in
$GSPROF_PROVE_FUZZ (default: $XDG_STATE_HOME/gsprof-prove/fuzz), so that each batch continues where
the last one ended. The work that takes the shortest time comes first: to complete the million
executions of a target, or the total with the fastest target.

`make test` replays the corpora of the repository instead (the suite "fuzz")."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, Mapping, Set

from trials import BUILD, Context, Result

NAME = "fuzz"
ORDER = 90
TITLE = "fuzzing of every parser of external bytes, sanitizers on"
REQUIRED = 100_000_000
REQUIREMENT = "at least 1,000,000 per parser; 0 crashes, timeouts (30 s) and overruns of 512 MB"
SHORT = 20

EACH = 1_000_000
SLICE_S = 60
# The first input of the SQL engine takes seconds on a busy machine.
TIMEOUT_S = 30
RSS_MB = 512
# The SQL engine asks for as much memory as a Parquet file claims to need. In gsprof, the limit of
# the process refuses it (tests/integration/test_serve_limits.py); here, the allocator. The engine
# also keeps memory, which looks like a leak and would be checked by a second execution. The other
# options triple the speed: the engine searches the SQL text of each view and allocates much.
ENGINE = ("store_parquet",)
ENGINE_OPTIONS = ":max_allocation_size_mb=64:allocator_may_return_null=1"
ENGINE_OPTIONS += ":intercept_strstr=0:malloc_context_size=1"
ENGINE_OPTIONS += ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"
ROOT = Path(__file__).resolve().parents[3]
FUZZ = ROOT / "tests" / "fuzz"
SANITIZERS = {
    "ASAN_OPTIONS": "quarantine_size_mb=16",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "LSAN_OPTIONS": f"suppressions={FUZZ / 'leaks.txt'}:print_suppressions=0",
}
BUILD_FUZZ = ROOT / "build-fuzz"
EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
# A crash ends the run before the statistics: the last progress line has the count.
PROGRESS = re.compile(r"^#(\d+)\s", re.MULTILINE)
REASON = re.compile(r"^(.*runtime error: .*)$|^SUMMARY: (.*)$|^==\d+== ERROR: (.*)$", re.MULTILINE)


def targets() -> List[str]:
    return sorted(path.stem[len("fuzz_") :] for path in FUZZ.glob("fuzz_*.c"))


def keep_folder() -> Path:
    given = os.environ.get("GSPROF_PROVE_FUZZ")
    if given:
        return Path(given)
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "gsprof-prove" / "fuzz"


def is_reached(count: int, details: Mapping[str, float]) -> bool:
    return count >= REQUIRED and all(details.get(name, 0) >= EACH for name in targets())


class Rates:
    """How many executions per second each target did when it ran last."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rates.json"
        self.rate: Dict[str, float] = {}
        try:
            self.rate = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            pass

    def add(self, target: str, count: int, seconds: float) -> None:
        self.rate[target] = count / max(seconds, 0.001)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.rate), encoding="utf-8")
        part.replace(self.path)


def build() -> None:
    if not (BUILD_FUZZ / "build.ninja").exists():
        subprocess.run(
            "meson setup build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false",
            shell=True,
            cwd=ROOT,
            env={**os.environ, "CC": "clang"},
            check=True,
            stdout=subprocess.DEVNULL,
        )
    programs = [f"tests/fuzz/fuzz_{name}" for name in targets()]
    subprocess.run(
        ["ninja", "-C", str(BUILD_FUZZ), *programs], check=True, stdout=subprocess.DEVNULL
    )


def fuzz(context: Context, folder: Path, target: str, limit: int, seconds: float) -> Result:
    """Runs one target for some seconds."""
    corpus = folder / "corpus" / target
    failed = folder / "failed"
    for path in (corpus, failed):
        path.mkdir(parents=True, exist_ok=True)
    # A copy, so that a build does not change a program that runs. It finds the engine from there.
    program = BUILD_FUZZ / "tests" / "running" / f"fuzz_{target}"
    program.parent.mkdir(exist_ok=True)
    shutil.copy(BUILD_FUZZ / "tests" / "fuzz" / program.name, program)
    command = [
        str(program),
        f"-max_total_time={max(1, int(seconds))}",
        f"-runs={limit}",
        f"-timeout={TIMEOUT_S}",
        f"-rss_limit_mb={RSS_MB}",
        f"-malloc_limit_mb={RSS_MB}",
        f"-artifact_prefix={failed}/{target}-",
        f"-detect_leaks={0 if target in ENGINE else 1}",
        "-entropic=0",  # its statistics take longer than most parsers
        "-print_final_stats=1",
        "-reload=0",
        str(corpus),
        str(FUZZ / "corpus" / target),
    ]
    before = set(failed.glob(f"{target}-*"))
    env = {**os.environ, **SANITIZERS, "TMPDIR": str(context.folder)}
    if target in ENGINE:
        env["ASAN_OPTIONS"] += ENGINE_OPTIONS
    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=env,
        errors="replace",
        text=True,
        check=False,
    )
    program.unlink()
    counts = EXECUTED.findall(done.stderr) or PROGRESS.findall(done.stderr) or ["0"]
    result = Result(count=int(counts[-1]))
    result.add(target, result.count)
    if done.returncode:
        found = REASON.search(done.stderr)
        inputs = [str(path) for path in failed.glob(f"{target}-*") if path not in before]
        what = f"{target}: {found.group(0) if found else done.stderr[-300:]}"
        again = f"build-fuzz/tests/fuzz/fuzz_{target} {' '.join(inputs)}"
        result.failures.append(context.failure(f"{what} {' '.join(inputs)}", result.count, again))
    return result


def replay(context: Context, count: int) -> Result:
    """Runs inputs of the corpora without libFuzzer: this needs no other build."""
    result = Result()
    names = targets()
    context.random.shuffle(names)
    for name in names:
        program = BUILD / "tests" / "fuzz" / f"replay_{name}"
        if result.count >= count:
            break
        done = subprocess.run(
            [program, FUZZ / "corpus" / name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            errors="replace",
            text=True,
            check=False,
        )
        inputs = len(done.stdout.splitlines()) - 1
        result.count += inputs
        result.add(name, inputs)
        if done.returncode:
            again = f"{program} {FUZZ / 'corpus' / name}"
            result.failures.append(context.failure(f"{name}: {done.stderr}", inputs, again))
    return result


class Queue:
    """What several threads fuzz, each one target at a time."""

    def __init__(self, context: Context, count: int, seconds: float) -> None:
        self.context = context
        self.left = count
        self.seconds = seconds
        self.folder = keep_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.rates = Rates(self.folder)
        self.executed = dict(context.before)
        self.running: Set[str] = set()
        self.result = Result()
        self.lock = threading.Lock()

    def left_s(self) -> float:
        left: float = self.seconds - (time.monotonic() - self.context.began_s)
        return min(SLICE_S, left)

    def next(self) -> str:
        """Unknown targets first, then what is completed soonest."""
        rate = self.rates.rate
        names = [name for name in targets() if name not in self.running]
        unknown = [name for name in names if name not in rate]
        if unknown:
            return unknown[0]
        fastest = max(names, key=lambda name: rate[name])
        lacks = REQUIRED - sum(self.executed.get(name, 0) for name in targets())
        left_s: Dict[str, float] = {fastest: lacks / rate[fastest]} if lacks > 0 else {}
        for name in names:
            lacks = EACH - self.executed.get(name, 0)
            if lacks > 0:
                left_s[name] = lacks / rate[name]
        return min(left_s, key=lambda name: left_s[name]) if left_s else fastest

    def work(self) -> None:
        while True:
            with self.lock:
                if self.left <= 0 or self.left_s() <= 0 or self.result.failures:
                    return  # after a failure, the next batch continues
                target = self.next()
                self.running.add(target)
                lacks = EACH - self.executed.get(target, 0)
                limit = min(lacks, self.left) if lacks > 0 else self.left
            began_s = time.monotonic()
            one = fuzz(self.context, self.folder, target, limit, self.left_s())
            with self.lock:
                self.rates.add(target, one.count, time.monotonic() - began_s)
                self.executed[target] = self.executed.get(target, 0) + one.count
                self.running.remove(target)
                self.left -= one.count
                self.result.merge(one)


def run(context: Context, count: int, seconds: float) -> Result:
    if context.is_short:
        return replay(context, count)
    build()
    context.restart()
    queue = Queue(context, count, seconds)
    with ThreadPoolExecutor(context.jobs) as pool:
        for future in [pool.submit(queue.work) for _ in range(context.jobs)]:
            future.result()
    return queue.result
