# SPDX-License-Identifier: Apache-2.0
"""The short form of `make prove`: a few trials of each row, and the program that adds them up."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List

import pytest

from support import PATIENCE_S, ROOT, Python, wait_for

PROVE = ROOT / "tests" / "prove"
sys.path.insert(0, str(PROVE))

import targets  # noqa: E402
from prove import Row, load_rows, run_batch, skipped  # noqa: E402
from trials import Context  # noqa: E402

ROWS: List[Row] = load_rows(PROVE / "rows")


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_few_trials(row: Row) -> None:
    batch = run_batch(row, 0, row.short, PATIENCE_S, 2, is_short=True)
    assert not batch.failures, batch
    if skipped(batch):
        pytest.skip(skipped(batch))
    assert batch.count > 0


# A row whose trials fail as its file says, and which can wait.
ROW = """
import os, signal, subprocess
NAME, ORDER, TITLE = "made", 1, "made | row"
REQUIRED, REQUIREMENT, SHORT = 10, "nothing fails", 1
from trials import Context, Result
def run(context, count, seconds):
    result = Result(count=min(count, 4), details={"even": 1.0})
    result.notes = {"seen": [str(context.seed)]}
    print("before:", context.notes)
    if os.environ.get("MADE") == "fail":
        result.failures.append(context.failure("it broke", 1))
    if os.environ.get("MADE") == "skip":
        return Result(details={"skipped: needs a moon": 1.0})
    if os.environ.get("MADE") == "nothing":
        return Result()
    if os.environ.get("MADE") == "raise":
        raise ValueError("no trial")
    if os.environ.get("MADE") == "leave":
        left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        print("left", left.pid, context.folder, flush=True)
        signal.pause()
    if os.environ.get("MADE") == "wait" and context.seed:
        print("waiting", flush=True)
        signal.pause()
    return result
"""


class Prover:
    """tests/prove/prove.py with a made row and its own state."""

    def __init__(self, folder: Path) -> None:
        (folder / "rows").mkdir()
        (folder / "rows" / "made.py").write_text(ROW)
        self.folder = folder
        self.argv = [sys.executable, str(PROVE / "prove.py"), "--rows", str(folder / "rows")]
        self.argv += ["--state", str(folder / "state")]

    def run(self, *args: str, made: str = "", status: int = 0) -> str:
        done = subprocess.run(
            [*self.argv, *args],
            env={**os.environ, "MADE": made},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def batches(self) -> int:
        """Returns how many batches were added up, and checks that they are of one commit."""
        entries = json.loads((self.folder / "state" / "made.json").read_text())
        assert len(entries) == 1 and len(entries[0]["commits"]) == 1
        return int(entries[0]["batches"])


@pytest.fixture
def prover(tmp_path: Path) -> Prover:
    return Prover(tmp_path)


def test_counts_of_all_runs_are_added_up(prover: Prover) -> None:
    assert "not executed" in prover.run("--table")
    assert "4 (not complete) | 0 " in prover.run("--count", "4")
    assert "| made \\| row | 10 | 10 | 0 | nothing fails |" in prover.run()
    # Two batches of four trials, and one with the missing two.
    assert prover.batches() == 3
    prover.run()
    assert prover.batches() == 3
    # Results of another commit are added up too.
    path = prover.folder / "state" / "made.json"
    entry = json.loads(path.read_text())[0]
    path.write_text(json.dumps([entry, {**entry, "commits": ["another"]}]))
    table = prover.run("--table")
    assert "| 20 | 0 |" in table and f"{entry['commits'][0]}, another |" in table


def test_failures_stay_until_the_row_is_reset(prover: Prover) -> None:
    said = prover.run("--count", "1", made="fail", status=1)
    assert "it broke" in said and "--only made --seed 0 --count 2" in said
    assert "it broke" in prover.run(status=1)
    assert "it broke" in prover.run("--table", status=1)
    prover.run("--reset", "made")
    assert "it broke" not in prover.run("--table")
    assert "ValueError: no trial" in prover.run(made="raise", status=1)
    # A repetition is not counted.
    assert "it broke" in prover.run("--only", "made", "--seed", "7", made="fail", status=1)
    assert prover.batches() == 1
    assert "no row 'other'" in prover.run("--only", "other", status=1)


def test_a_row_continues_where_the_recorded_batches_ended(prover: Prover) -> None:
    assert "before: {}" in prover.run("--count", "1")
    assert "before: {'seen': ['0']}" in prover.run("--count", "1")
    # Neither a repetition nor a row that starts again leaves anything out.
    assert "before: {}" in prover.run("--only", "made", "--seed", "0")
    prover.run("--reset", "made")
    assert "before: {}" in prover.run("--count", "1")


def test_a_row_that_can_do_nothing_ends(prover: Prover) -> None:
    assert "made: skipped: needs a moon" in prover.run(made="skip")
    assert "not executed" in prover.run("--table")
    assert "0 in 0" in prover.run(made="nothing")
    assert prover.batches() == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_continues(prover: Prover, number: int) -> None:
    process = subprocess.Popen(
        prover.argv, env={**os.environ, "MADE": "wait"}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    wait_for(lambda: process.stdout and "waiting" in process.stdout.readline())
    assert "another run is busy with it" in prover.run()
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert prover.batches() == 1
    # A file that the run could not complete does not count.
    (prover.folder / "state" / "made.part").write_text('[{"batches": 7')
    assert "| 10 | 10 | 0 |" in prover.run()
    assert prover.batches() == 3


def is_running(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def guards_of(pid: int) -> List[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found if b"guard.py" in Path(f"/proc/{one}/cmdline").read_bytes()]


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_killed_run_leaves_nothing_behind(prover: Prover, is_guarded: bool) -> None:
    process = subprocess.Popen(
        prover.argv, env={**os.environ, "MADE": "leave"}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    words: List[str] = []
    while words[:1] != ["left"]:
        words = process.stdout.readline().split()
    pid, folder = int(words[1]), Path(words[2])
    # The processes and folders of a run that goes on are not touched by another one.
    assert "another run is busy with it" in prover.run()
    assert is_running(pid) and folder.is_dir()
    if not is_guarded:
        for guard in guards_of(process.pid):
            os.kill(guard, signal.SIGKILL)
    process.kill()
    process.wait()
    if not is_guarded:
        assert is_running(pid) and folder.is_dir()
        prover.run()
    wait_for(lambda: not is_running(pid) and not folder.exists())
    process.stdout.close()


def test_the_document(prover: Prover) -> None:
    path = prover.folder / "reliability.md"
    path.write_text("before\n<!-- begin: make prove -->\nold\n<!-- end: make prove -->\nafter\n")
    prover.run(made="fail", status=1)
    prover.run("--write-docs", "--docs", str(path), status=1)
    text = path.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert '`make prove ROWS="made"`' in text and "- `made`: even 3." in text
    assert text.count("it broke") == 3


def test_nothing_is_recorded_without_a_build(
    prover: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSPROF_BIN", "/nonexistent/gsprof")
    assert prover.run(status=1) == "no /nonexistent/gsprof: run make first\n"
    assert "not executed" in prover.run("--table")


class StandIn:
    """A target that does nothing, or that does not start."""

    starts = True

    def __init__(self, *args: object) -> None:
        if not self.starts:
            raise targets.Fault("no start")

    def finish(self) -> None:
        pass

    def kill(self) -> None:
        pass


def use(batch: targets.Batch, target: targets.Busy, rng: random.Random) -> None:
    """Every second try does not become a trial."""
    while batch.next_trial():
        time.sleep(0.002)
        if rng.random() < 0.5:
            batch.was_no_trial()
        else:
            batch.count("kind", is_trial=True)


@pytest.mark.parametrize("starts", [True, False])
def test_a_batch_has_no_more_trials_than_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    monkeypatch.setattr(StandIn, "starts", starts)
    monkeypatch.setattr(targets, "Busy", StandIn)
    jobs, wanted = 4, 11
    result = targets.Batch(Context("made", 0, tmp_path, jobs), wanted, PATIENCE_S).run(use)
    if starts:
        assert 0 < result.count <= wanted and not result.failures
    else:
        # Each thread may be starting a target when the limit is reached.
        assert wanted <= len(result.failures) < wanted + targets.WORKERS * jobs
        assert result.count == 0


def test_the_stacks_of_a_target_that_hangs(
    tmp_path: Path, some_python: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = targets.Busy(some_python, "sleep", tmp_path, random.Random(0))
    try:
        stacks = target.native_stacks()
        assert "busy.py" in stacks and len(stacks) <= targets.DUMP_CHARS + 1
        # One of the threads does not continue any more.
        monkeypatch.setattr(targets, "until", lambda condition, what: fail_with(what))
        with pytest.raises(targets.Fault, match="(?s)threads do not continue.*busy.py"):
            target.wait_for_progress()
        monkeypatch.setattr(targets, "DUMP_S", 0.0)
        assert "no dump" in target.native_stacks()
    finally:
        target.process.kill()
        target.process.wait()
        assert target.native_stacks() == ""
        target.kill()


def fail_with(what: str) -> None:
    raise targets.Fault(what)
