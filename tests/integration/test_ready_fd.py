# SPDX-License-Identifier: Apache-2.0
"""--ready-fd: the events that a command reports to the program that started it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from conftest import StartTarget
from support import EXIT_USAGE, GSPROF, PATIENCE_S, gsprof

# Runs and allocates long enough for every recorder.
BUSY = ["--", sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: bytes(10000)"]
Events = List[Dict[str, Any]]


def start_reporting(*args: object) -> Tuple["subprocess.Popen[bytes]", int]:
    """Starts a command; returns it and the read end of its pipe."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [str(GSPROF), "--ready-fd", str(writing), *map(str, args)],
        pass_fds=[writing],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    return process, reading


def report_of(*args: object) -> Tuple[int, Events]:
    process, reading = start_reporting(*args)
    with os.fdopen(reading) as lines:
        events = [json.loads(line) for line in lines]
    return process.wait(PATIENCE_S), events


def test_a_recording_reports_its_start_and_its_end(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    output = tmp_path / "p.gsp"
    command = ["record", "--pid", target.pid, "-o", output, "--duration", "0.3"]
    status, (ready, done) = report_of(*command)
    assert status == 0
    assert ready == {"event": "ready", "pid": target.pid}
    assert done["event"] == "done" and done["output"] == str(output)
    assert done["samples"] > 0 and output.exists()


def test_an_empty_recording_is_an_error(tmp_path: Path) -> None:
    command = ["record", "-o", tmp_path / "p.gsp", "--", "true"]
    status, events = report_of(*command)
    assert status != 0
    assert [event["event"] for event in events] == ["ready", "error"]
    assert events[1]["code"] == "EMPTY"


def test_errors_have_a_code() -> None:
    status, events = report_of("record", "--pid", "4194300")
    assert status != 0
    assert [(event["event"], event["code"]) for event in events] == [("error", "NOPROC")]
    assert "4194300" in events[0]["message"]
    status, events = report_of("record", "--pid", "1", "--", "true")
    assert status == EXIT_USAGE and events[0]["code"] == "USAGE"


def test_usage_errors_are_reported() -> None:
    status, events = report_of("record", "--bogus")
    assert status == EXIT_USAGE
    assert [(event["event"], event["code"]) for event in events] == [("error", "USAGE")]
    assert "--bogus" in events[0]["message"]


@pytest.mark.parametrize("fd, message", [(1, "at least 3"), (99, "not an open descriptor")])
def test_descriptors_that_cannot_be_used(fd: int, message: str) -> None:
    done = gsprof("--ready-fd", fd, "record", "--", "echo", "text", status=EXIT_USAGE)
    assert message in done.err and done.out == ""


def test_other_recorders_report_too(start: StartTarget, tmp_path: Path) -> None:
    run, log = tmp_path / "run", tmp_path / "m.gspm"
    for args, output in (
        (["run", "-q", "-o", run, *BUSY], run),
        (["mem", "record", "-q", "-o", log, *BUSY], log),
    ):
        status, events = report_of(*args)
        assert status == 0 and [event["event"] for event in events] == ["ready", "done"], events
        assert events[0]["pid"] > 0 and events[1]["output"] == str(output)
    target = start("spin.py")
    # The reader of a detached follower sees the end of the pipe once it is ready.
    status, events = report_of("follow", target.pid, "--detach")
    assert status == 0 and events == [{"event": "ready", "pid": target.pid}]


def test_a_full_pipe_stops_only_the_events(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while os.write(writing, bytes(4096)):
            pass
    except BlockingIOError:
        os.set_blocking(writing, True)
    output = tmp_path / "p.gsp"
    command = [GSPROF, "--ready-fd", str(writing), "record", "-o", output]
    done = subprocess.run(
        [*map(str, command), *BUSY],
        pass_fds=[writing],
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=False,
    )
    os.close(reading)
    os.close(writing)
    assert done.returncode == 0 and output.exists()


def test_warnings_are_reported_even_with_quiet(tmp_path: Path) -> None:
    sql = "SELECT * FROM range(10)"
    status, events = report_of(
        "query", "--quiet", "--limit", "3", "-f", "json", str(os.getpid()), sql
    )
    assert status == 0
    assert [event["event"] for event in events] == ["warning"]
    assert "more rows" in events[0]["message"]


def test_a_closed_pipe_is_harmless(tmp_path: Path) -> None:
    output = tmp_path / "p.gsp"
    process, reading = start_reporting("record", "-o", output, *BUSY)
    os.close(reading)
    assert process.wait(PATIENCE_S) == 0
    assert output.exists()
