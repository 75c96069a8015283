# SPDX-License-Identifier: Apache-2.0
"""gsprof serve killed at any time: everything that it acknowledged over HTTP survives."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Set

import pytest
from conftest import Serve
from serving import Daemon
from support import PATIENCE_S, wait_for

KILLS = 100
WORKERS = 3
# Longest delay before a kill; one kill in five hits the start of the daemon.
LOAD_S = 0.12


@dataclass
class Known:
    """The state that the daemon has acknowledged. Workers add to it; each uses its own session
    names."""

    active: Set[str] = field(default_factory=set)
    frames: Dict[str, int] = field(default_factory=dict)  # of stopped sessions
    deleted: Set[str] = field(default_factory=set)
    unsure: Set[str] = field(default_factory=set)  # requested, not acknowledged
    times: List[str] = field(default_factory=list)  # of metric frames that were returned
    frame_id: int = 0
    faults: List[str] = field(default_factory=list)


class ConnectionLost(Exception):
    """The connection ended because the daemon was killed."""


class Client:
    """A persistent connection for all requests of a worker."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def request(
        self, method: str, path: str, body: Optional[Dict[str, Any]] = None, *allowed: int
    ) -> Any:
        try:
            given = None if body is None else json.dumps(body).encode()
            self.connection.request(method, path, body=given)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLost() from error
        assert answer.status in (200, *allowed), (method, path, answer.status, text)
        return json.loads(text)


def use_sessions(client: Client, known: Known, prefix: str, keeps: bool) -> None:
    """Starts sessions, stops most of them (or all, if keeps is false) and deletes some of those."""
    for number in range(100000):
        name = f"{prefix}-{number}"
        known.unsure.add(name)
        client.request("POST", "/profiling/start", {"name": name})
        known.unsure.discard(name)
        known.active.add(name)
        if keeps and number % 4 == 0:
            continue
        known.active.discard(name)
        known.unsure.add(name)
        stopped = client.request("POST", "/profiling/stop", {"name": name})["stopped"][0]
        known.unsure.discard(name)
        known.frames[name] = stopped["frame_count"]
        if number % 4 == 1:
            del known.frames[name]
            known.unsure.add(name)
            client.request("DELETE", f"/profiling/sessions/{name}")
            known.unsure.discard(name)
            known.deleted.add(name)


def read_frames(client: Client, known: Known) -> None:
    """Notes every metric frame that the daemon returns."""
    while True:
        # 503: the daemon has just started.
        frame = client.request("GET", "/metrics/latest", None, 503).get("frame")
        if frame and frame["frame_id"] > known.frame_id:
            known.frame_id = frame["frame_id"]
            known.times.append(frame["time"])


def load(port: int, known: Known, work: int, round_number: int) -> None:
    client = Client(port)
    try:
        if work < WORKERS:
            # Kept sessions grow until the end, when all are written.
            use_sessions(client, known, f"s{round_number}-{work}", round_number % 4 == 0)
        else:
            read_frames(client, known)
    except ConnectionLost:
        pass
    except Exception as error:  # reported by the main thread
        known.faults.append(repr(error))
    finally:
        client.connection.close()


def check_sessions(daemon: Daemon, known: Known) -> None:
    """Checks that the state of the round is the acknowledged one."""
    listed = {row["name"]: row for row in daemon.get("/profiling/sessions")["sessions"]}
    for name in known.active:
        assert name in listed and listed[name]["is_active"], name
    for name, count in known.frames.items():
        assert name in listed and not listed[name]["is_active"], name
        assert listed[name]["frame_count"] == count, (listed[name], count)
        whole = json.loads((daemon.output / listed[name]["output_file"]).read_text())
        assert len(whole["frames"]) == count, name
    for name in known.deleted:
        assert name not in listed and not (daemon.output / f"{name}.json").exists(), name
    # The other sessions may exist or not, but an existing file is complete.
    for name in known.unsure & set(listed):
        file = daemon.output / listed[name]["output_file"]
        if file.exists():
            json.loads(file.read_text())
    assert daemon.get("/status")["frame_id_counter"] >= known.frame_id


def test_acknowledged_state_survives_a_hundred_kills(serve: Serve) -> None:
    daemon = serve("--freq", "10ms", env={"GSPROF_KEEP_SESSIONS": "100000"})
    rng = random.Random(7)
    daemon.post("/profiling/start", {"name": "whole"})
    stopped: Dict[str, int] = {}
    unsure: Set[str] = set()
    known = Known()
    for round_number in range(KILLS):
        threads = [
            threading.Thread(target=load, args=(daemon.port, known, work, round_number))
            for work in range(WORKERS + 1)
        ]
        for thread in threads:
            thread.start()
        # Kill during the start, or after some load, however slow the machine is.
        if round_number % 5:
            stops, times = rng.randint(1, 4), len(known.times) + 2
            wait_for(
                lambda: known.faults or len(known.frames) >= stops and len(known.times) >= times
            )
        # Then at a random time while the daemon runs.
        assert daemon.process is not None
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.process.wait(rng.uniform(0, LOAD_S / (4 if round_number % 5 else 1)))
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.stop(signal.SIGKILL)
        for thread in threads:
            thread.join()
        assert not known.faults, known.faults
        daemon.start()
        check_sessions(daemon, known)
        stopped.update(known.frames)
        unsure |= known.unsure
        known = Known(active=known.active, times=known.times, frame_id=known.frame_id)
    assert len(stopped) > KILLS and len(known.times) > KILLS, "too little load"
    daemon.post("/profiling/stop")
    # Stops that were not acknowledged are also completed.
    every = daemon.get("/profiling/sessions")["sessions"]
    late = [daemon.output / row["output_file"] for row in every if row["name"] in unsure]
    daemon.until("/health", lambda _: all(file.exists() for file in late))
    known = Known(frames=stopped, times=known.times, frame_id=known.frame_id)
    check_sessions(daemon, known)
    whole = json.loads((daemon.output / "whole.json").read_text())
    recorded = {frame["time"] for frame in whole["frames"]}
    # A metric frame that started before the session is not part of it.
    assert not {time for time in known.times if time >= min(recorded)} - recorded
