#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the reliability of gsprof by numbers: repeats trials for hours, and adds up the counts of
all runs.

usage: prove.py [--only ROW]... [--count N] [--seconds S] [--batch S] [--jobs N] [--state DIR]
       prove.py --only ROW --seed N [--count N]
       prove.py --table | --write-docs | --list | --reset ROW [--state DIR]

Runs the rows in turns, in batches of --batch seconds (default: 60), until each has its required
number of trials, or for --seconds in total. --count limits the trials of each row in this run.
Each completed batch adds a line to <state>/<row>.jsonl: a run that is killed loses only its current
batch, and the next run continues. The default state folder is $XDG_STATE_HOME/gsprof-prove.

--seed repeats one batch, and does not count it. --table prints the results of all runs, and
--write-docs writes them to docs/reliability.md. Failures stay listed until --reset starts a row
again. The exit status is 1 if any of the selected rows has a failure."""

from __future__ import annotations

import argparse
import datetime
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROWS = HERE / "rows"
DOCUMENT = ROOT / "docs" / "reliability.md"
BEGIN = "<!-- begin: make prove -->"
END = "<!-- end: make prove -->"
sys.path.insert(0, str(HERE))

from trials import Context, Failure, Result  # noqa: E402

Json = Dict[str, Any]


# ------------------------------------------------------------------------------------------ rows


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    module: ModuleType

    @property
    def name(self) -> str:
        return str(self.module.NAME)

    @property
    def order(self) -> int:
        return int(self.module.ORDER)

    @property
    def title(self) -> str:
        return str(self.module.TITLE)

    @property
    def required(self) -> int:
        return int(self.module.REQUIRED)

    @property
    def requirement(self) -> str:
        return str(self.module.REQUIREMENT)

    @property
    def short(self) -> int:
        return int(self.module.SHORT)

    def run(self, context: Context, count: int, seconds: float) -> Result:
        result: Result = self.module.run(context, count, seconds)
        return result

    def is_reached(self, count: int, details: Mapping[str, float], is_complete: bool) -> bool:
        if hasattr(self.module, "is_reached"):
            return bool(self.module.is_reached(count, details))
        return count >= self.required if self.required else is_complete


def load_rows(folder: Path) -> List[Row]:
    found = []
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"prove_{path.stem}", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        row = Row(module)
        assert row.name == path.stem, f"{path}: NAME is {row.name}"
        found.append(row)
    return sorted(found, key=lambda row: (row.order, row.name))


# ----------------------------------------------------------------------------------------- state


@dataclass
class Total:
    """The sum of all batches of a row."""

    batches: int = 0
    count: int = 0
    seconds: float = 0.0
    is_complete: bool = False
    failures: List[Failure] = field(default_factory=list)
    details: Dict[str, float] = field(default_factory=dict)
    commits: List[str] = field(default_factory=list)
    last: str = ""

    def add(self, line: Json) -> None:
        self.batches += 1
        self.count += int(line["count"])
        self.seconds += float(line["seconds"])
        self.is_complete = self.is_complete or bool(line.get("is_complete"))
        self.failures += [{**failure, "commit": line["commit"]} for failure in line["failures"]]
        for key, number in line["details"].items():
            self.details[key] = self.details.get(key, 0) + number
        if line["commit"] not in self.commits:
            self.commits.append(line["commit"])
        self.last = line["time"]


class State:
    """The folder with the results of all runs: one file per row, one line per batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def file(self, row: str) -> Path:
        return self.folder / f"{row}.jsonl"

    def total(self, row: str) -> Total:
        total = Total()
        try:
            lines = self.file(row).read_bytes().split(b"\n")
        except FileNotFoundError:
            return total
        for line in lines:
            try:
                total.add(json.loads(line))
            except ValueError:
                continue  # empty, or the end of a run that was killed while it wrote
        return total

    def append(self, row: str, line: Json) -> None:
        """Adds a line in one write. The newline in front ends a line that a killed run left."""
        text = "\n" + json.dumps(line, sort_keys=True) + "\n"
        fd = os.open(self.file(row), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, text.encode())
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, row: str) -> Optional[int]:
        """Returns a descriptor that holds the lock of a row, or None if another run has it."""
        fd = os.open(self.folder / f"{row}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def reset(self, row: str) -> None:
        """Starts a row again. The old results are kept under another name."""
        if self.file(row).exists():
            self.file(row).rename(self.folder / f"{row}.{time.time_ns()}.old")


def default_state() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "gsprof-prove"


def commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


# --------------------------------------------------------------------------------------- batches


def run_batch(row: Row, seed: int, count: int, seconds: float, jobs: int) -> Tuple[Result, Json]:
    """Runs a batch. Returns its result and the line for the state folder."""
    # Ring folders and sockets have short names, and rings belong in memory.
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="gsprove-", dir=shm))
    context = Context(row.name, seed, folder, jobs)
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder / "run")
    (folder / "run").mkdir(mode=0o700)
    try:
        result = row.run(context, count, seconds)
    except Exception:  # a fault of the row or an unexpected state: both have to be looked at
        result = Result(failures=[context.failure(traceback.format_exc(), count - 1)])
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
        shutil.rmtree(folder, ignore_errors=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    line: Json = {
        "row": row.name,
        "count": result.count,
        "failures": result.failures,
        "details": result.details,
        "is_complete": result.is_complete,
        "seed": seed,
        "commit": commit(),
        "time": now.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - context.began_s, 3),
        "interpreters": context.python_labels,
    }
    return result, line


@dataclass
class Limits:
    """How much one run of this program does."""

    count: int  # of each row; 0: as required
    seconds: float  # in total; 0: no limit
    batch_s: float
    jobs: int

    def __post_init__(self) -> None:
        self.began_s = time.monotonic()

    def left_s(self) -> float:
        if not self.seconds:
            return self.batch_s
        return min(self.batch_s, self.seconds - (time.monotonic() - self.began_s))


def needed(row: Row, total: Total, done: int, limits: Limits) -> int:
    """Returns the number of trials of the next batch; 0 if the row has enough."""
    if limits.count:
        return max(0, limits.count - done)
    if row.is_reached(total.count, total.details, total.is_complete):
        return 0
    return max(1, row.required - total.count) if row.required else sys.maxsize


def report(row: Row, line: Json, total: Total) -> None:
    print(
        f"{row.name}: {line['count']} in {line['seconds']:.1f} s, {len(line['failures'])} failed; "
        f"in total {total.count} of {row.required or 'all'}, {len(total.failures)} failed",
        flush=True,
    )
    for failure in line["failures"]:
        print(f"  FAILED: {failure['what']}\n  {failure['reproduce']}", flush=True)


def run_rows(rows: Sequence[Row], state: State, limits: Limits) -> None:
    """Runs batches of all rows in turns."""
    locks = {row.name: state.lock(row.name) for row in rows}
    for name in [name for name, lock in locks.items() if lock is None]:
        print(f"{name}: another run is busy with it", flush=True)
    active = [row for row in rows if locks[row.name] is not None]
    done = dict.fromkeys(locks, 0)
    while active:
        for row in list(active):
            total = state.total(row.name)
            count, seconds = needed(row, total, done[row.name], limits), limits.left_s()
            if not count or seconds <= 0:
                active.remove(row)
                continue
            result, line = run_batch(row, total.batches, count, seconds, limits.jobs)
            state.append(row.name, line)
            done[row.name] += result.count
            report(row, line, state.total(row.name))
            if result.is_complete or (result.failures and not result.count):
                active.remove(row)
    for lock in filter(None, locks.values()):
        os.close(lock)


# ----------------------------------------------------------------------------------------- table


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def one_line(text: str) -> str:
    """Returns text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(rows: Sequence[Row], state: State) -> Iterator[str]:
    yield "| test | required | executed | failed | requirement | time | commits | command |"
    yield "|---|--:|--:|--:|---|--:|---|---|"
    for row in rows:
        total = state.total(row.name)
        reached = row.is_reached(total.count, total.details, total.is_complete)
        count = f"{total.count:,}" if reached else f"{total.count:,} (not complete)"
        cells = [
            one_line(row.title),
            f"{row.required:,}" if row.required else "all",
            count if total.batches else "not executed",
            str(len(total.failures)) if total.batches else "",
            one_line(row.requirement),
            duration(total.seconds) if total.batches else "",
            ", ".join(total.commits),
            f'`make prove ROWS="{row.name}"`',
        ]
        yield "| " + " | ".join(cells) + " |"


def details(rows: Sequence[Row], state: State) -> Iterator[str]:
    for row in rows:
        total = state.total(row.name)
        if total.details:
            numbers = ", ".join(f"{k} {v:,.10g}" for k, v in sorted(total.details.items()))
            yield f"- `{row.name}`: {numbers}."


def failures(rows: Sequence[Row], state: State) -> Iterator[str]:
    for row in rows:
        for failure in state.total(row.name).failures:
            what = one_line(failure["what"])
            yield f"- `{row.name}` at {failure['commit']}: {what} Repeat: `{failure['reproduce']}`."


def write_docs(rows: Sequence[Row], state: State, path: Path) -> None:
    """Replaces the part of the document between the markers."""
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    parts = ["\n".join(table(rows, state))]
    for title, lines in (
        ("Numbers of each test:", list(details(rows, state))),
        ("Failures:", list(failures(rows, state))),
    ):
        if lines:
            parts.append(title + "\n\n" + "\n".join(lines))
    made = f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}"
    path.write_text(made, encoding="utf-8")


# ------------------------------------------------------------------------------------------ main


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1])
    parser.add_argument("--only", action="append", default=[], metavar="ROW")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--batch", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--state", type=Path, default=default_state())
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--docs", type=Path, default=DOCUMENT)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--reset", action="append", default=[], metavar="ROW")
    return parser.parse_args()


def choose(rows: Sequence[Row], names: Sequence[str]) -> List[Row]:
    known = {row.name: row for row in rows}
    for name in names:
        if name not in known:
            sys.exit(f"prove.py: no row {name!r}; the rows are: {' '.join(known)}")
    return [known[name] for name in names] if names else list(rows)


def repeat(rows: Sequence[Row], options: argparse.Namespace) -> int:
    """Runs one batch again, without counting it."""
    failed = False
    for row in rows:
        seconds = options.seconds or float("inf")
        _, line = run_batch(row, options.seed, options.count or 1, seconds, options.jobs)
        print(json.dumps(line, indent=2))
        failed = failed or bool(line["failures"])
    return 1 if failed else 0


def on_term(number: int, frame: object) -> None:
    """Ends like Ctrl-C: the current batch ends its processes and is not counted."""
    raise KeyboardInterrupt


def main() -> int:
    options = parse()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, on_term)
    everything = load_rows(options.rows)
    rows = choose(everything, options.only)
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    if options.seed is not None:
        return repeat(rows, options)
    state = State(options.state)
    if options.reset:
        for row in choose(everything, options.reset):
            state.reset(row.name)
        return 0
    if options.write_docs:
        write_docs(everything, state, options.docs)
    elif not options.table:
        try:
            run_rows(
                rows, state, Limits(options.count, options.seconds, options.batch, options.jobs)
            )
        except KeyboardInterrupt:
            print("\nstopped; the next run continues", flush=True)
    print("\n".join([*table(rows, state), "", *failures(rows, state)]), flush=True)
    return 1 if any(state.total(row.name).failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
