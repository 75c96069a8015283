# SPDX-License-Identifier: Apache-2.0
"""What the rows of tests/prove share: the context of a batch of trials, and its result.

A row is a module rows/<name>.py with

    NAME = "ring_writers_killed"            name of the row, and of the file
    ORDER = 60                              position in the table
    TITLE = "ring writers killed"           text of the table
    REQUIRED = 10_000                       number of trials; 0: as many as the row has ("all")
    REQUIREMENT = "no published row lost"   text of the table
    SHORT = 50                              number of trials in `make test`, at most 4 s

    def run(context: Context, count: int, seconds: float) -> Result

and optionally

    def is_reached(count: int, details: Mapping[str, float]) -> bool

if the number of trials is not the only requirement. run() does up to count trials, and starts none
after that many seconds. If context.is_short, this is a part of `make test` with SHORT trials, and
the row may use quicker ones. All random choices come from context.random. run() returns what it
did; it does not raise an exception for a failed trial. A row that cannot run on this machine
returns only a detail whose name is SKIPPED and the reason."""

from __future__ import annotations

import functools
import os
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

from support import BUILD, GSPROF, PACKAGE, Python, find_pythons, probe  # noqa: E402

TOOLS = BUILD / "tests" / "tools"

SKIPPED = "skipped: "

Failure = Dict[str, str]


def has_build() -> bool:
    return os.access(GSPROF, os.X_OK)


@functools.lru_cache(maxsize=None)
def all_pythons() -> List[Python]:
    """Every interpreter of this machine. A free-threaded one needs an extension of its own, which
    `make prove` builds."""
    found: List[Python] = list(find_pythons()[0])
    if any((PACKAGE / "gsprof").glob("_gsprof.*t-*.so")):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        paths = sorted(cache.glob("gsprof/pythons/*t/bin/python3.*t"))
        found += [python for python in map(probe, map(str, paths)) if python]
    return found


def in_threads(count: int, work: Callable[[int], None], stop: Callable[[], None]) -> None:
    """Calls work(number) in several threads and waits for them. Calls stop() when one has failed
    or when they are interrupted, and raises the first exception."""
    errors: List[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)
            stop()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        stop()
        raise
    if errors:
        raise errors[0]


@dataclass
class Result:
    """The outcome of a batch."""

    count: int = 0  # trials that were completed, failed ones included
    failures: List[Failure] = field(default_factory=list)
    details: Dict[str, float] = field(default_factory=dict)  # added up over all batches
    is_complete: bool = False  # of a row with REQUIRED = 0: it did all trials
    # What a row needs to continue: see Context.notes. The notes of several batches are united.
    notes: Dict[str, List[str]] = field(default_factory=dict)

    def add(self, key: str, number: float = 1) -> None:
        self.details[key] = self.details.get(key, 0) + number

    def merge(self, other: "Result") -> None:
        self.count += other.count
        self.failures += other.failures
        self.is_complete = self.is_complete or other.is_complete
        for key, number in other.details.items():
            self.add(key, number)
        for key, words in other.notes.items():
            self.notes[key] = sorted({*self.notes.get(key, []), *words})
        if self.is_complete:
            self.notes = {}  # nothing is left to continue


@dataclass
class Context:
    """The circumstances of a batch."""

    row: str
    seed: int
    folder: Path  # temporary; removed after the batch
    jobs: int = 1  # number of trials at a time
    is_short: bool = False  # a few trials for `make test`, which are not recorded
    before: Dict[str, float] = field(default_factory=dict)  # details of all earlier batches
    # Notes of all earlier batches that were recorded; empty if one batch is repeated.
    notes: Dict[str, List[str]] = field(default_factory=dict)
    python_labels: List[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.row} {self.seed}")
        self.began_s = time.monotonic()

    @property
    def pythons(self) -> List[Python]:
        """The interpreters to test. Their versions are noted with the result."""
        found = all_pythons()
        self.python_labels = [str(python) for python in found]
        return found

    def restart(self) -> None:
        """The time until now does not count. A row calls it after it has built its programs."""
        self.began_s = time.monotonic()

    def is_over(self, seconds: float) -> bool:
        return time.monotonic() - self.began_s >= seconds

    def failure(self, what: str, trial: int, command: str = "") -> Failure:
        """Describes a failed trial. The default command repeats the batch up to the trial."""
        again = f"tests/prove/prove.py --only {self.row} --seed {self.seed} --count {trial + 1}"
        return {
            "what": what,
            "seed": str(self.seed),
            "trial": str(trial),
            "reproduce": command or f"{os.path.basename(sys.executable)} {again}",
        }
