# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: the last stacks of a process are kept, however it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

from conftest import StartTarget
from support import EXIT_NOWRITE, EXIT_USAGE, GSPROF, PATIENCE_S, Target, gsprof, is_root, wait_for

Report = Dict[str, Any]
EXIT_EXISTS = EXIT_NOWRITE


def ask(env: Dict[str, str], pid: int, sql: str) -> List[Dict[str, Any]]:
    rows: List[Dict[str, Any]] = json.loads(gsprof("query", pid, sql, "-f", "json", env=env).out)
    return rows


def report(env: Dict[str, str], pid: int) -> Report:
    document: Report = json.loads(gsprof("report", pid, "--json", env=env).out)
    return document


def wait_for_report(
    env: Dict[str, str], pid: int, is_there: Callable[[Report], bool], what: str
) -> Report:
    def accepted() -> Report:
        seen = report(env, pid)
        return seen if is_there(seen) else {}

    document: Report = wait_for(accepted, f"no {what}")
    return document


def functions(document: Report, name: str) -> List[str]:
    return [row["func"] for row in document["stacks"] if row["thread_name"] == name]


def samples(env: Dict[str, str], pid: int) -> int:
    found = ask(
        env, pid, "SELECT count(*) AS n FROM python.stack_sample WHERE thread_name = 'listener'"
    )
    return int(found[0]["n"])


@pytest.fixture
def followed(runtime: Dict[str, str], start: StartTarget) -> Iterator[Target]:
    """A process with a follower, which has already written rows of each thread."""
    target = start("endings.py", env=runtime)
    gsprof("follow", target.pid, "--rate", 20, "--detach", env=runtime)
    wait_for(lambda: samples(runtime, target.pid) > 0, "no stacks")
    yield target


def say(target: Target, word: str) -> None:
    assert target.process.stdin is not None
    target.process.stdin.write(f"{word}\n".encode())
    target.process.stdin.flush()


def has_end(document: Report) -> bool:
    return any(row["kind"] == "end" for row in document["events"])


def end_of(env: Dict[str, str], pid: int) -> Report:
    """Waits for the end in the report and checks what every end must leave."""
    document = wait_for_report(
        env, pid, lambda document: not document["live"] and has_end(document), "end"
    )
    assert "wait_for_word" in functions(document, "listener")
    assert "main" in functions(document, "MainThread")
    assert document["metrics"][0]["rss_mb"] > 1
    assert ask(
        env,
        pid,
        "SELECT count(*) AS n FROM python.stack_sample WHERE stack_id NOT IN "
        "(SELECT stack_id FROM python.stack)",
    ) == [{"n": 0}]
    return document


def test_killed(runtime: Dict[str, str], followed: Target) -> None:
    os.kill(followed.pid, signal.SIGKILL)
    followed.process.wait(PATIENCE_S)
    document = end_of(runtime, followed.pid)
    # An older kernel reports the signal only to the parent.
    assert document["events"][0]["signal"] in (9, None)
    text = gsprof("report", followed.pid, env=runtime).out
    assert "MainThread" in text and "wait_for_word (endings.py:" in text and "Next:" in text
    rows = json.loads(gsprof("backtrace", followed.pid, "--json", env=runtime).out)
    assert {"pid", "func", "file", "lineno", "depth", "frame_type"} <= set(rows[0])
    assert "wait_for_word" in [row["func"] for row in rows]
    found = gsprof("list", "--json", env=runtime).out
    ends = {row["pid"]: row["end"] for row in json.loads(found)}
    assert ends[followed.pid] == document["events"][0]["detail"]


@pytest.mark.parametrize(
    "word, sig, status",
    [("segv", signal.SIGSEGV, None), ("exit", None, 7), ("memory", None, 1), ("none", None, 0)],
)
def test_ends_by_itself(
    runtime: Dict[str, str], followed: Target, word: str, sig: Any, status: Any
) -> None:
    say(followed, word)
    # Not waited for yet: on every kernel, a zombie has its exit status.
    end = end_of(runtime, followed.pid)["events"][0]
    assert (end["signal"], end["exit_status"]) == (sig, status), end


def memory_group(name: str) -> Path:
    """Creates a memory cgroup with 200 MB, or skips the test."""
    one = Path("/sys/fs/cgroup/memory")
    folder = (one if one.is_dir() else Path("/sys/fs/cgroup")) / name
    limit = "memory.limit_in_bytes" if one.is_dir() else "memory.max"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(200 << 20))
    except OSError as error:
        if folder.is_dir():
            folder.rmdir()
        pytest.skip(f"cannot create a memory cgroup: {error}")
    return folder


def test_out_of_memory(runtime: Dict[str, str], start: StartTarget) -> None:
    if not is_root():
        pytest.skip("needs root, for a memory cgroup")
    group = memory_group(f"gsprof-test-{os.getpid()}")
    try:
        target = start("endings.py", env=runtime)
        (group / "cgroup.procs").write_text(str(target.pid))
        gsprof("follow", target.pid, "--rate", 20, "--detach", env=runtime)
        wait_for(lambda: samples(runtime, target.pid) > 0, "no stacks")
        say(target, "hoard")
        end = end_of(runtime, target.pid)["events"][0]
        assert end["signal"] == 9 and "out of memory" in end["detail"]
        target.process.wait(PATIENCE_S)
    finally:
        group.rmdir()


def test_one_follower(runtime: Dict[str, str], followed: Target) -> None:
    again = gsprof("follow", followed.pid, env=runtime, status=EXIT_EXISTS)
    assert "already has a follower" in again.err
    document = report(runtime, followed.pid)
    assert document["live"] and "wait_for_word" in functions(document, "listener")
    assert "Running" in gsprof(followed.pid, "report", env=runtime).out


def test_second_follower(runtime: Dict[str, str], start: StartTarget) -> None:
    """A follower leaves its rows when it exits, and another one can start."""
    target = start("endings.py", env=runtime)
    for _ in range(2):
        follower = subprocess.Popen(
            [str(GSPROF), "follow", str(target.pid), "--rate", "20"],
            env={**os.environ, **runtime},
            stderr=subprocess.PIPE,
        )
        try:
            wait_for_report(
                runtime, target.pid, lambda document: bool(document["metrics"]), "metrics"
            )
            follower.send_signal(signal.SIGTERM)
            assert follower.wait(PATIENCE_S) == 0
        finally:
            follower.kill()
            follower.communicate()
        assert ask(runtime, target.pid, "SELECT count(*) > 0 AS any FROM gsprof.sampler")[0]["any"]


def test_backtrace_of_a_live_process(runtime: Dict[str, str], start: StartTarget) -> None:
    target = start("endings.py", env=runtime)
    rows = json.loads(gsprof("backtrace", target.pid, target.pid, "--json", env=runtime).out)
    assert {row["thread_id"] for row in rows} == {target.pid}
    assert rows[-1]["func"] == "<module>" and rows[-1]["frame_type"] == "Python"
    assert [row["depth"] for row in rows] == list(range(len(rows)))
    found = gsprof(target.pid, "backtrace", "--locals", "--json", env=runtime).out
    main = [row for row in json.loads(found) if row["func"] == "main"]
    assert json.loads(main[0]["locals"])["word"] == "[]"
    wrong = gsprof("backtrace", target.pid, 1, env=runtime, status=EXIT_USAGE)
    assert "no Python thread 1" in wrong.err
    text = gsprof("report", target.pid, env=runtime).out
    assert "has no tables" in text and "gsprof follow" in text
