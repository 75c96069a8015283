# SPDX-License-Identifier: Apache-2.0
"""gsprof serve while the wall clock is set."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from clock import LIBRARY, Clock
from conftest import Serve
from serving import Daemon

HOUR_NS = 3600 * 10**9


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    if not LIBRARY.exists():
        pytest.skip(f"needs {LIBRARY}: built by ninja")
    return Clock(tmp_path / "clock")


def stop(daemon: Daemon, name: str) -> Any:
    stopped = daemon.post("/profiling/stop", {"name": name})["stopped"][0]
    whole = json.loads((daemon.output / stopped["output_file"]).read_text())
    assert len(whole["frames"]) == stopped["frame_count"]
    return whole


def test_clock_set_back_during_a_session(serve: Serve, clock: Clock) -> None:
    daemon = serve(env=clock.env)
    daemon.post("/profiling/start", {"name": "kept"})
    daemon.frames(3)
    before = daemon.get("/metrics/latest")["frame"]["time"]
    clock.set(-HOUR_NS)
    daemon.until("/metrics/latest", lambda now: bool(now["frame"]["time"] < before))
    daemon.frames(5)  # sampling continues without waiting for the old time
    whole = stop(daemon, "kept")
    assert whole["losses"]["clock_steps_back"] == 1
    assert all(gap["cause"] == "late" for gap in whole["gaps"])  # on a busy machine
    assert daemon.get("/status")["uptime_s"] >= 0
    assert 0 < whole["metadata"]["duration_s"] < 600
    numbers = [frame["frame_id"] for frame in whole["frames"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert daemon.stop() == 0


def test_clock_set_forward_during_a_session(serve: Serve, clock: Clock) -> None:
    daemon = serve(env=clock.env)
    daemon.post("/profiling/start", {"name": "kept"})
    daemon.frames(3)
    clock.set(HOUR_NS)
    daemon.frames(3)
    whole = stop(daemon, "kept")
    assert 0 < whole["metadata"]["duration_s"] < 600
    assert daemon.get("/status")["uptime_s"] < 600
    assert daemon.stop() == 0


def test_clock_set_back_while_a_file_waits_for_its_folder(serve: Serve, clock: Clock) -> None:
    daemon = serve(env=clock.env)
    daemon.post("/profiling/start", {"name": "kept"})
    daemon.frames(2)
    shutil.rmtree(daemon.output)
    assert daemon.ask("POST", "/profiling/stop", {"name": "kept"})[0] == 500
    clock.set(-24 * HOUR_NS)
    daemon.output.mkdir()
    daemon.until("/status", lambda now: not now["failed_sessions"])
    assert json.loads((daemon.output / "kept.json").read_text())["frames"]


def test_clock_set_back_between_two_daemons(serve: Serve, clock: Clock) -> None:
    daemon = serve(env=clock.env)
    daemon.post("/profiling/start", {"name": "kept"})
    daemon.post("/profiling/start", {"name": "done"})
    daemon.frames(3)
    daemon.post("/profiling/stop", {"name": "done"})
    assert daemon.stop() == 0
    clock.set(-24 * HOUR_NS)
    daemon.start()
    assert not daemon.get("/profiling/sessions/done")["is_active"]
    daemon.frames(3)
    whole = stop(daemon, "kept")
    assert whole["losses"]["clock_steps_back"] == 1
    assert 0 < whole["metadata"]["duration_s"] < 600
    # Names made from the time are unique, even if the time repeats.
    names = {daemon.post("/profiling/start")["name"] for _ in range(3)}
    assert len(names) == 3
    assert daemon.stop() == 0
