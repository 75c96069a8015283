#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests repeatedly on a busy machine and stops at the first failure.

A TEST is an argument for pytest (tests/integration/test_top.py::test_keys) or a unit test,
unit:PROGRAM[/CASE] (unit:ring_stress/another_process_sees_no_torn_row). Busy loops run at the same
time. Prints the whole output of a failure. The last lines, also after an interrupt, are the
numbers of passes.

usage: stress_tests.py [--load N] [--count N] [--batch N] [--keep-going] [-k EXPRESSION] TEST..."""

from __future__ import annotations

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Counter, List, Optional

ROOT = Path(__file__).resolve().parent.parent
UNIT = "unit:"
# Settings of the plugin below. This file is also loaded by pytest.
REPEAT_ENV = "GSPROF_STRESS_REPEAT"
COUNTS_ENV = "GSPROF_STRESS_COUNTS"

Counts = Counter[str]

# ------------------------------------------------------------------- inside pytest


class Plugin:
    """Repeats the collected tests and counts their results."""

    def __init__(self, repeat: int, counts: Path) -> None:
        self.repeat = repeat
        self.path = counts
        self.passed: Counts = collections.Counter()
        self.failed: Counts = collections.Counter()

    def pytest_collection_modifyitems(self, items: List[Any]) -> None:
        items[:] = items * self.repeat

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Optional[bool]:
        """Ends fixtures between two runs of the same test, which pytest would keep."""
        if nextitem is not item:
            return None
        from _pytest.runner import runtestprotocol

        runtestprotocol(item, nextitem=None)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed[report.nodeid] += 1
        elif report.when == "call" and report.passed:
            self.passed[report.nodeid] += 1

    def pytest_sessionfinish(self) -> None:
        text = json.dumps({"passed": self.passed, "failed": self.failed})
        self.path.write_text(text, encoding="utf-8")


def pytest_configure(config: Any) -> None:
    repeat, counts = int(os.environ[REPEAT_ENV]), Path(os.environ[COUNTS_ENV])
    # Registered last, because other plugins sort the list.
    config.pluginmanager.register(Plugin(repeat, counts), "gsprof-stress")


# ------------------------------------------------------------------------ the tool


class Load:
    """Runs busy loops while it is entered."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.loops: List[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Load":
        for _ in range(self.count):
            self.loops.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        return self

    def __exit__(self, *_: object) -> None:
        for loop in self.loops:
            loop.kill()
            loop.wait()


def run_pytest(args: argparse.Namespace, test: str, repeat: int, total: Counts) -> int:
    """Runs a test `repeat` times in one pytest process. Returns the number of failures."""
    python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "stress_tests"]
    command += ["--color=no", *([] if args.keep_going else ["-x"])]
    command += ["-k", args.k] if args.k else []
    # After an interrupt, programs of a test may still write into the folder.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        counts = Path(folder) / "counts.json"
        env = {**os.environ, REPEAT_ENV: str(repeat), COUNTS_ENV: str(counts)}
        # An empty entry would be the working folder.
        folders = [str(Path(__file__).parent), *filter(None, [env.get("PYTHONPATH")])]
        env["PYTHONPATH"] = os.pathsep.join(folders)
        done = subprocess.run(
            [*command, f"--basetemp={folder}/tmp", test],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        result = json.loads(counts.read_text()) if counts.exists() else {"passed": {}, "failed": {}}
    total.update(result["passed"])
    failed = sum(result["failed"].values())
    if done.returncode:
        print(done.stdout, flush=True)
    return failed or int(done.returncode != 0)


def run_unit(args: argparse.Namespace, test: str, repeat: int, total: Counts) -> int:
    """Runs a unit test `repeat` times. Returns the number of failures."""
    name, _, case = test[len(UNIT) :].partition("/")
    exe = ROOT / args.build / "tests" / "unit" / f"test_{name}"
    failed = 0
    for _ in range(repeat):
        done = subprocess.run(
            [str(exe), *([case] if case else [])],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if done.returncode == 0:
            total[test] += 1
            continue
        print(f"{test}: status {done.returncode}\n{done.stdout}", flush=True)
        failed += 1
        if not args.keep_going:
            break
    return failed


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("tests", nargs="+", metavar="TEST", help="for pytest, or unit:PROGRAM/CASE")
    parser.add_argument("--load", type=int, default=2, help="number of busy loops (default: 2)")
    parser.add_argument("--count", type=int, default=50, help="runs of each test (default: 50)")
    parser.add_argument("--batch", type=int, default=10, help="runs in one process (default: 10)")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failure")
    parser.add_argument("-k", metavar="EXPRESSION", help="passed to pytest")
    return parser.parse_args()


def main() -> int:
    args = parse()
    # End the busy loops also after a signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    total: Counts = collections.Counter()
    start = time.monotonic()
    failed = 0
    try:
        with Load(args.load):
            for done in range(0, args.count, args.batch):
                repeat = min(args.batch, args.count - done)
                for test in args.tests:
                    run = run_unit if test.startswith(UNIT) else run_pytest
                    failed += run(args, test, repeat, total)
                    if failed and not args.keep_going:
                        return 1
                print(f"{done + repeat} runs, {failed} failed", flush=True)
    finally:
        for name, passes in sorted(total.items()):
            print(f"{passes:>6} passed  {name}")
        print(f"{sum(total.values())} passed, {failed} failed in {time.monotonic() - start:.0f} s")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
