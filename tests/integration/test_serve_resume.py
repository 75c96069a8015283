# SPDX-License-Identifier: Apache-2.0
"""A daemon that starts: resumes the recordings of the previous one and removes old rings."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any, List

import pytest
from conftest import Serve, StartTarget
from serving import Daemon
from support import Json, gsprof, wait_for

DAY_S = 86400


def stacks_of(daemon: Daemon, name: str) -> List[Json]:
    found: List[Json] = daemon.get(f"/profiling/sessions/{name}")["stacks"]
    return found


def wait_for_samples(daemon: Daemon, count: int) -> None:
    daemon.until(
        "/targets",
        lambda now: bool(now["recordings"])
        and all(row["samples"] >= 5 for row in now["recordings"])
        and len(now["recordings"]) == count,
    )


def wait_until_flushed(path: Path) -> None:
    """Waits until a recording has written samples, which survive a kill."""
    empty = path.stat().st_size
    wait_for(lambda: path.stat().st_size != empty, "no samples are written")


def samples_in(path: Path) -> int:
    folded = gsprof("convert", "-i", path, "-o", "-", "-f", "folded").out
    return sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_stacks_continue_in_another_file(serve: Serve, start: StartTarget, number: int) -> None:
    targets = [start("deep.py", 12), start("deep.py", 5)]
    daemon = serve(owner=True)
    pids = [target.pid for target in targets]
    daemon.post("/profiling/start", {"name": "on", "pids": pids, "stacks": True, "rate": 50})
    wait_for_samples(daemon, 2)
    for pid in pids:
        wait_until_flushed(daemon.output / f"on.{pid}.gsp")
    daemon.stop(number)
    daemon.start()
    wait_for_samples(daemon, 2)
    assert all(row["rate_hz"] == 50 for row in daemon.get("/targets")["recordings"])
    (active,) = daemon.get("/status")["active_sessions"]
    assert active["stack_files"] == 4 and active["stack_gaps"] == 2 and active["error"] is None
    parts = stacks_of(daemon, "on")
    assert [part["file"] for part in parts] == [
        *(f"on.{pid}.gsp" for pid in pids),
        *(f"on.{pid}_2.gsp" for pid in pids),
    ]
    daemon.post("/profiling/stop", {"name": "on"})
    whole = json.loads((daemon.output / "on.json").read_text())
    parts_of_file = whole["metadata"]["stacks"]
    assert [part["pid"] for part in parts_of_file] == [*pids, *pids]
    killed = number == signal.SIGKILL
    for before, after in zip(parts_of_file[:2], parts_of_file[2:]):
        assert before["is_cut"] is killed and after["is_cut"] is False
        assert (before["samples"] is None) is killed and after["samples"] >= 5
        assert before["gap_before_s"] is None and after["gap_before_s"] >= 0
        assert before["start_time"] <= before["end_time"] <= after["start_time"]
    assert whole["losses"]["stack_gaps"] == 2
    gaps = sum(part["gap_before_s"] for part in parts_of_file[2:])
    assert abs(whole["losses"]["stack_gap_s"] - gaps) < 0.005
    for index, part in enumerate(parts_of_file, 1):
        path = daemon.output / part["file"]
        assert samples_in(path) > 0
        answer = daemon.raw("GET", f"/profiling/sessions/on/download?stacks={index}")
        assert answer[0] == 200 and answer[2] == path.read_bytes()
    assert daemon.ask("GET", "/profiling/sessions/on/download?stacks=5")[0] == 404
    # A third daemon has no recording to resume, but still lists the files.
    daemon.stop(number)
    daemon.start()
    assert daemon.get("/targets")["recordings"] == []
    assert stacks_of(daemon, "on") == parts_of_file
    status, headers, _ = daemon.raw("GET", f"/flamegraph?session=on&pid={pids[0]}")
    assert status == 200 and headers["Content-Type"] == "image/svg+xml"


def test_stacks_that_cannot_continue_are_reported(serve: Serve, start: StartTarget) -> None:
    target = start("deep.py", 12)
    daemon = serve(owner=True)
    for name in ("gone", "ended"):
        body = {"name": name, "pids": [target.pid], "stacks": True}
        daemon.post("/profiling/start", body)
    wait_for_samples(daemon, 2)
    daemon.post("/profiling/stop", {"name": "ended"})
    daemon.stop(signal.SIGKILL)
    target.end()
    daemon.start()
    (active,) = daemon.get("/status")["active_sessions"]
    assert active["name"] == "gone" and not active["failed"]
    assert str(target.pid) in active["error"] and "ended while no daemon ran" in active["error"]
    # After another restart, the error is still listed once.
    daemon.stop(signal.SIGKILL)
    daemon.start()
    assert [part["file"] for part in stacks_of(daemon, "gone")] == ["gone.gsp", None]
    daemon.post("/profiling/stop", {"name": "gone"})
    whole = json.loads((daemon.output / "gone.json").read_text())
    assert "ended while no daemon ran" in whole["metadata"]["stacks"][1]["error"]


def test_an_ended_process_is_not_resumed(serve: Serve, start: StartTarget) -> None:
    target = start("deep.py", 12)
    daemon = serve(owner=True)
    daemon.post("/profiling/start", {"name": "short", "pids": [target.pid], "stacks": True})
    wait_for_samples(daemon, 1)
    target.end()
    daemon.until("/profiling/sessions/short", lambda now: not now["stacks"][0]["is_active"])
    daemon.stop(signal.SIGKILL)
    daemon.start()
    (part,) = stacks_of(daemon, "short")
    assert part["samples"] >= 5 and part["error"] is None and not part["is_cut"]


def make_ring_directory(root: Path, name: str, age_s: float) -> Path:
    folder = root / name
    folder.mkdir(mode=0o700)
    (folder / "python.trace.ring").write_bytes(b"")
    then = time.time() - age_s
    os.utime(folder, (then, then))
    return folder


def test_old_rings_are_removed(serve: Serve, tmp_path: Path) -> None:
    root = tmp_path / "run" / "gsprof"
    root.mkdir(mode=0o700, parents=True)
    (tmp_path / "run").chmod(0o700)
    old = make_ring_directory(root, "4194304-1", DAY_S + 60)
    young = make_ring_directory(root, "4194304-2", DAY_S - 3600)
    daemon = serve()

    def is_gone(_: Any) -> bool:
        return not old.exists()

    daemon.until("/health", is_gone)
    assert young.exists()
    assert [path for path in root.iterdir() if path.name.startswith(f"{daemon.pid}-")]
