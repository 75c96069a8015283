# SPDX-License-Identifier: Apache-2.0
"""Targets with corrupt memory: the profiler may find nothing, but it does not crash or hang."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Tuple

from conftest import Serve, StartTarget
from measure import measure
from support import GSPROF, Python, gsprof

# docs/security.md: memory on behalf of targets.
DUMP_MB = 512
TABLES_MB = 128
TIME_S = 30.0
TASKS_S = 15.0


def test_scribbled_frames(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Random bytes in frames, code objects and a thread state, changing during the read."""
    for how in ("random", "cycle", "ones", "pointers"):
        target = start("scribble.py", how, 3, python=python)
        path = tmp_path / f"{how}.json"
        # The target overwrites its memory for longer than either command takes.
        gsprof("dump", "-p", target.pid, "--locals", "--json", status=None)
        done = gsprof(
            "record",
            "-p",
            target.pid,
            "-i",
            "-r",
            "2000",
            "-d",
            "0.4",
            "-o",
            path,
            status=None,
        )
        assert done.status in (0, 1, 65, 69, 75), done
        if path.exists():
            json.loads(path.read_text(encoding="utf-8"))


def test_scribbled_while_blocking(start: StartTarget, tmp_path: Path) -> None:
    for seed in range(3):
        target = start("scribble.py", "random", seed)
        gsprof(
            "record",
            "-p",
            target.pid,
            "-i",
            "--blocking",
            "-r",
            "1000",
            "-d",
            "0.6",
            "-o",
            tmp_path / f"{seed}.json",
            status=None,
        )


def resident_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def test_recordings_of_the_daemon_release_their_memory(serve: Serve, start: StartTarget) -> None:
    """Ended recordings stay in the list of targets, but what they kept of a target does not."""
    target = start("amplifier.py", "names")
    daemon = serve(owner=True)
    assert daemon.process
    before_mb = resident_mb(daemon.process.pid)
    peak_mb = 0.0
    for count in range(1, 6):
        daemon.post(f"/targets/{target.pid}/record", {"duration": 0.3, "name": f"r{count}"})
        while any(row["is_active"] for row in daemon.get("/targets")["recordings"]):
            peak_mb = max(peak_mb, resident_mb(daemon.process.pid))
    rows = daemon.get("/targets")["recordings"]
    assert len(rows) == 5 and all(row["samples"] > 0 and not row["error"] for row in rows)
    kept_mb = resident_mb(daemon.process.pid) - before_mb
    assert kept_mb < 0.5 * (peak_mb - before_mb) and kept_mb < 40, (before_mb, peak_mb, kept_mb)


def test_starting_and_ending(python: Python, tmp_path: Path) -> None:
    """Recording processes that exit within milliseconds."""
    for i in range(4):
        gsprof(
            "record",
            "-r",
            "2000",
            "-o",
            tmp_path / f"{i}.json",
            "--",
            python.path,
            "-c",
            f"import time; end = time.time() + 0.0{i}\nwhile time.time() < end: pass",
            status=None,
        )


def peak_of(*args: object) -> Tuple[float, float, str]:
    """Runs the profiler. Returns its peak memory in MB, its CPU time and its messages."""
    done = measure(GSPROF, *args)
    assert done.status == 0, done
    return done.peak_mb, done.cpu_s, done.err


def test_shared_line_tables(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Functions that share one large line table cost the target nothing, and gsprof little."""
    target = start("amplifier.py", "tables", python=python)
    for args in (
        ("dump", "-p", target.pid),
        ("record", "-p", target.pid, "-i", "-d", "0.3", "-o", tmp_path / "amplifier.gsp"),
    ):
        peak_mb, time_s, _ = peak_of(*args)
        assert peak_mb < TABLES_MB and time_s < TIME_S, (args, peak_mb, time_s)


def test_values_that_take_long(start: StartTarget) -> None:
    """The time for the local variables of all frames is limited; the frames are complete."""
    target = start("amplifier.py", "values")
    began_s = time.monotonic()
    done = gsprof("dump", "-p", target.pid, "--locals", "--json")
    assert time.monotonic() - began_s < TIME_S
    assert "reading local variables took 10 s" in done.err
    threads = json.loads(done.out)
    assert threads[0]["process_info"]["truncated"] is True
    assert all(len(thread["frames"]) > 900 for thread in threads if not thread["is_main"])
    assert any(frame["locals"] for thread in threads for frame in thread["frames"])


def test_many_tasks(start: StartTarget) -> None:
    """The time for all tasks is limited; the threads are complete."""
    target = start("amplifier.py", "tasks")
    began_s = time.monotonic()
    done = gsprof("dump", "-p", target.pid)
    assert time.monotonic() - began_s < TASKS_S
    # A fast machine reaches the limit of memory before.
    assert "reading tasks took 10 s" in done.err or "is cut at 48 MB" in done.err
    assert "with_tasks" in done.out and done.out.count("wait_below") > 1000


def test_long_names(start: StartTarget, tmp_path: Path) -> None:
    """Long names and values in every frame: the dump is cut."""
    target = start("amplifier.py", "names")
    path = tmp_path / "names.gsp"
    peak_mb, time_s, text = peak_of("dump", "-p", target.pid, "--locals", "--json")
    assert peak_mb < DUMP_MB and time_s < TIME_S, (peak_mb, time_s)
    assert "is cut" in text
    peak_mb, time_s, _ = peak_of("record", "-p", target.pid, "-i", "-d", "0.3", "-o", path)
    assert peak_mb < DUMP_MB and time_s < TIME_S, (peak_mb, time_s)
