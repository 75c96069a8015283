# SPDX-License-Identifier: Apache-2.0
"""Run folders: written by record and convert, read by query and convert."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from conftest import StartRunning, StartTarget
from support import EXIT_NOFILE, EXIT_NOWRITE, EXIT_USAGE, GSPROF, gsprof, wait_for

WRITER = Path(os.environ.get("GSPROF_RING_WRITER", GSPROF.parent / "tests/tools/ring_writer"))
if not WRITER.exists():  # GSPROF_BIN in a build folder
    WRITER = GSPROF.parent.parent.parent / "tests" / "tools" / "ring_writer"

TABLES = ["gsprof.loss.parquet", "python.stack.parquet", "python.stack_sample.parquet"]


@pytest.fixture
def runtime(tmp_path: Path) -> Dict[str, str]:
    """Returns an environment with a runtime folder for this test alone."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(folder)}


def query(where: object, sql: str, env: Optional[Dict[str, str]] = None) -> List[List[Any]]:
    """Returns the rows of a query."""
    text = gsprof("query", where, sql, "-f", "json", env=env).out
    return [list(row.values()) for row in json.loads(text)]


def names(folder: Path) -> "set[str]":
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_record_makes_a_folder(tmp_path: Path, start: StartTarget) -> None:
    target = start("spin.py")
    run = tmp_path / "first"
    result = gsprof("record", "-p", target.pid, "-d", 1, "-o", f"{run}/")
    assert names(run) == {"meta.json", "profile.gsp", "profile.json", *TABLES}
    assert f"gsprof report {run}/" in result.err
    meta = json.loads((run / "meta.json").read_text())
    assert meta["name"] == "first" and meta["unit"] == "ns"
    assert meta["processes"][0]["pid"] == target.pid
    assert 0 < meta["start_ns"] < meta["end_ns"]
    assert meta["samples"] == len(json.loads((run / "profile.json").read_text())["samples"])
    for name in TABLES:
        assert (run / name).read_bytes()[:4] == b"PAR1"


def test_existing_files_are_kept(tmp_path: Path, start: StartTarget) -> None:
    target = start("spin.py")
    run = tmp_path / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    record = ["record", "-q", "-p", target.pid, "-d", "300ms"]
    gsprof(*record, "-o", run)
    before = (run / "meta.json").read_bytes()
    gsprof(*record, "-o", run, status=EXIT_NOWRITE)
    assert (run / "meta.json").read_bytes() == before
    (run / "python.torch_trace.7.parquet").write_text("old")
    gsprof(*record, "-o", run, "--force")
    assert (run / "meta.json").read_bytes() != before
    assert names(run) == {"meta.json", "profile.gsp", "profile.json", "notes.txt", *TABLES}


def test_an_empty_recording_leaves_no_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    gsprof("record", "-o", f"{run}/", "--", "/bin/true", status=None)
    assert not run.exists()


def test_all_formats_both_ways(tmp_path: Path, start: StartTarget) -> None:
    target = start("spin.py")
    profile = tmp_path / "p.gsp"
    gsprof("record", "-q", "-p", target.pid, "-d", "500ms", "-o", profile)
    for extension in ("gsp", "json", "folded", "speedscope.json"):
        there = tmp_path / f"there.{extension}"
        back = tmp_path / f"back.{extension}"
        run = tmp_path / f"run-{extension}"
        gsprof("convert", "-i", profile, "-o", there)
        gsprof("convert", "-i", there, "-o", f"{run}/")
        assert names(run) >= {"meta.json", "profile.gsp", *TABLES}
        gsprof("convert", "-i", run, "-o", back)
        assert back.read_bytes() == there.read_bytes()
    gsprof("convert", "-i", tmp_path / "run-gsp", "-o", tmp_path / "x.svg")
    gsprof("convert", "-i", profile, "-f", "run", "-o", "-", status=EXIT_USAGE)
    gsprof("convert", "-i", tmp_path, "-o", tmp_path / "y.svg", status=EXIT_NOFILE)


def test_tables_of_the_target_are_drained(
    tmp_path: Path, start: StartTarget, runtime: Dict[str, str]
) -> None:
    if not WRITER.exists():
        pytest.skip(f"needs {WRITER}: built by ninja")
    target = start("trainer.py", WRITER, "--steps", 10, "--modules", 4, env=runtime)
    run = tmp_path / "run"
    result = gsprof("record", "-s", "-p", target.pid, "-d", 2, "-o", f"{run}/", env=runtime)
    assert "100 rows; 0 lost" in result.err  # 90 of torch_trace, 10 of torch_step
    manifest = json.loads((run / "manifest.json").read_text())
    assert {row["file"]: row["rows"] for row in manifest["segments"]} == {
        "python.torch_trace.parquet": 90,
        "python.torch_step.parquet": 10,
    }
    assert manifest["losses"] == []
    # The rows are both in the files and in the live writer's rings; each is returned once.
    count = "SELECT count(*), count(DISTINCT (step, seq)) FROM python.torch_trace"
    assert query(run, count, runtime) == [[90, 90]]
    os.kill(target.facts["writer"], signal.SIGKILL)
    assert query(run, count, runtime) == [[90, 90]]
    assert query(run, count) == [[90, 90]]
    assert query(run, "SELECT func FROM gsprof.hot_functions() LIMIT 1") == [["spin"]]


def test_damaged_files_do_not_hide_the_others(tmp_path: Path, start: StartTarget) -> None:
    target = start("spin.py")
    run = tmp_path / "run"
    gsprof("record", "-q", "-p", target.pid, "-d", "300ms", "-o", f"{run}/")
    whole = query(run, "SELECT count(*) FROM python.stack_sample")
    (run / "python.stack.parquet").write_bytes(b"PAR1" + bytes(100))
    (run / "manifest.json").write_text('{"version": 99}')
    result = gsprof("query", run, "SELECT count(*) AS n FROM python.stack_sample", "-f", "json")
    assert [[row["n"]] for row in json.loads(result.out)] == whole
    assert "python.stack.parquet" in result.err and "manifest.json" in result.err


def test_two_runs_are_compared(tmp_path: Path, start: StartTarget) -> None:
    target = start("spin.py")
    for name in ("before", "after"):
        gsprof("record", "-q", "-p", target.pid, "-d", "300ms", "-o", f"{tmp_path / name}/")
    both = f"{tmp_path}/before,{tmp_path}/after"
    assert query(both, "SELECT name FROM gsprof.run ORDER BY ts_from") == [["before"], ["after"]]
    rows = query(
        both, "SELECT func, a_self_s, b_self_s FROM gsprof.compare_runs('before', 'after')"
    )
    spin = next(row for row in rows if row[0] == "spin")
    assert spin[1] > 0 and spin[2] > 0


def test_killed_recorder_leaves_its_samples(
    tmp_path: Path, start: StartTarget, running: StartRunning
) -> None:
    target = start("spin.py")
    run = tmp_path / "run"
    recorder = running("record", "-p", target.pid, "-o", f"{run}/")
    recorder.wait_until_recording()
    stream = run / "profile.gsp"

    def has_samples() -> bool:
        assert recorder.process.poll() is None
        return stream.stat().st_size >= 600  # the header and some blocks

    wait_for(has_samples, "no samples in the stream")
    recorder.signal(signal.SIGKILL)
    recorder.process.wait()
    gsprof("convert", "-i", run, "-o", tmp_path / "left.folded")
    assert "spin" in (tmp_path / "left.folded").read_text()
    assert query(run, "SELECT count(*) > 0 FROM python.stack_sample") == [[True]]
