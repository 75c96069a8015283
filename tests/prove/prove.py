#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the reliability of gsprof by numbers: repeats trials for hours, and adds up the counts of
all runs.

usage: prove.py [--only ROW]... [--count N] [--seconds S] [--batch S] [--jobs N] [--state DIR]
       prove.py --only ROW --seed N [--count N]
       prove.py --table | --write-docs | --list | --reset ROW [--state DIR]

Runs the rows in turns, in batches of --batch seconds (default: 60), until each has its required
number of trials, or for --seconds in total. --count limits the trials of each row in this run.
Each completed batch is added to <state>/<row>.json, which has one entry per tested commit: a run
that is killed loses only its current batch, and the next run continues. guard.py ends the processes
of a killed run and removes its folders. The default state folder is tests/prove/results: the
results are part of the repository, so that runs on all machines add up.

--seed repeats one batch, and does not count it. --table prints the results of all runs, and
--write-docs writes them to docs/reliability.md. Failures stay listed until --reset starts a row
again. The exit status is 1 if any of the selected rows has a failure."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Iterator, List, Mapping, Optional, Sequence

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROWS = HERE / "rows"
RESULTS = HERE / "results"
DOCUMENT = ROOT / "docs" / "reliability.md"
BEGIN = "<!-- begin: make prove -->"
END = "<!-- end: make prove -->"
sys.path.insert(0, str(HERE))

from guard import Folder, Guard, lock, sweep  # noqa: E402
from trials import SKIPPED, Context, Result, has_build  # noqa: E402


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
class Total(Result):
    """The sum of some batches of a row: those of one commit, or all."""

    batches: int = 0
    seconds: float = 0.0
    interpreters: List[str] = field(default_factory=list)
    commits: List[str] = field(default_factory=list)

    def include(self, other: "Total") -> None:
        self.merge(other)
        self.batches += other.batches
        self.seconds = round(self.seconds + other.seconds, 3)
        self.interpreters = sorted({*self.interpreters, *other.interpreters})
        self.commits += [one for one in other.commits if one not in self.commits]


class State:
    """The folder with the results of all runs: one file per row, one entry per commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def file(self, row: str) -> Path:
        return self.folder / f"{row}.json"

    def entries(self, row: str) -> List[Total]:
        try:
            saved = json.loads(self.file(row).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        return [Total(**entry) for entry in saved]

    def total(self, row: str) -> Total:
        total = Total()
        for entry in self.entries(row):
            total.include(entry)
        return total

    def add(self, row: str, batch: Total) -> None:
        """Adds a batch to the entry of its commit. The file is complete at any time."""
        entries = self.entries(row)
        same = [entry for entry in entries if entry.commits == batch.commits]
        if same:
            same[0].include(batch)
        else:
            entries.append(batch)
        text = json.dumps([asdict(entry) for entry in entries], indent=1, sort_keys=True)
        part = self.file(row).with_suffix(".part")
        with part.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.file(row))

    def lock(self, row: str) -> Optional[int]:
        """Returns a descriptor that holds the lock of a row, or None if another run has it."""
        return lock(self.folder / f"{row}.lock", os.O_RDWR | os.O_CREAT)

    def reset(self, row: str) -> None:
        """Starts a row again. The old results are kept under another name."""
        if self.file(row).exists():
            self.file(row).rename(self.folder / f"{row}.{time.time_ns()}.old")


def git(*args: str) -> str:
    """Runs git on everything but the results."""
    done = subprocess.run(
        ["git", *args, "--", ".", *(f":!{path.relative_to(ROOT)}" for path in (RESULTS, DOCUMENT))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def commit() -> str:
    """Returns the last commit that changed anything but the results."""
    name = git("log", "-1", "--format=%h", "--abbrev=9")
    if not name:
        return "unknown"
    return f"{name}-dirty" if git("status", "--porcelain") else name


# --------------------------------------------------------------------------------------- batches


def run_batch(
    row: Row,
    seed: int,
    count: int,
    seconds: float,
    jobs: int,
    before: Optional[Total] = None,
    is_short: bool = False,
) -> Total:
    """Runs a batch. before is the sum of the earlier ones."""
    temporary = Folder()
    folder = temporary.path
    context = Context(row.name, seed, folder, jobs, is_short)
    if before:
        context.before, context.notes = dict(before.details), dict(before.notes)
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR")
    tested = commit()
    os.environ["XDG_RUNTIME_DIR"] = str(folder / "run")
    (folder / "run").mkdir(mode=0o700)
    try:
        result = row.run(context, count, seconds)
    except Exception:  # a fault of the row or an unexpected state: both have to be looked at
        result = Result(failures=[context.failure(traceback.format_exc(), max(0, count - 1))])
    finally:
        if runtime_dir is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = runtime_dir
        temporary.remove()
    return Total(
        batches=1,
        count=result.count,
        seconds=round(time.monotonic() - context.began_s, 3),
        is_complete=result.is_complete,
        failures=[{**failure, "commit": tested} for failure in result.failures],
        details=result.details,
        notes=result.notes,
        interpreters=context.python_labels,
        commits=[tested],
    )


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
    # A row may need more than its number of trials: for example, some of each kind.
    left = row.required - total.count
    return left if left > 0 else row.required or sys.maxsize


def skipped(batch: Result) -> str:
    """Returns why the row cannot run on this machine, or "". Such a batch has no result."""
    reasons = [key[len(SKIPPED) :] for key in batch.details if key.startswith(SKIPPED)]
    return reasons[0] if reasons and not batch.count and not batch.failures else ""


def report(row: Row, batch: Total, total: Total) -> None:
    print(
        f"{row.name}: {batch.count} in {batch.seconds:.1f} s, {len(batch.failures)} failed; "
        f"in total {total.count} of {row.required or 'all'}, {len(total.failures)} failed",
        flush=True,
    )
    for failure in batch.failures:
        print(f"  FAILED: {failure['what']}\n  {failure['reproduce']}", flush=True)


def run_rows(rows: Sequence[Row], state: State, limits: Limits) -> None:
    """Runs batches of all rows in turns."""
    locks = {row.name: state.lock(row.name) for row in rows}
    for name in [name for name, fd in locks.items() if fd is None]:
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
            batch = run_batch(row, total.batches, count, seconds, limits.jobs, total)
            reason = skipped(batch)
            if reason:
                print(f"{row.name}: skipped: {reason}", flush=True)
                active.remove(row)
                continue
            state.add(row.name, batch)
            done[row.name] += max(batch.count, len(batch.failures))
            report(row, batch, state.total(row.name))
            if not batch.count:  # the next batch would do nothing too
                print(f"{row.name}: no trial in {seconds:.0f} s: see --batch", flush=True)
            if batch.is_complete or not batch.count:
                active.remove(row)
    for fd in filter(None, locks.values()):
        os.close(fd)


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
    parser.add_argument("--state", type=Path, default=RESULTS)
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
        batch = run_batch(row, options.seed, options.count or 1, seconds, options.jobs)
        print(json.dumps(asdict(batch), indent=2))
        failed = failed or bool(batch.failures)
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
    if not options.table and not options.write_docs and not options.reset:
        if not has_build():
            sys.exit(f"no {os.environ.get('GSPROF_BIN', 'build/gsprof')}: run make first")
        sweep()
        Guard()
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
