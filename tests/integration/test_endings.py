# SPDX-License-Identifier: Apache-2.0
"""How a recording ends: after its duration, by Ctrl-C, with its target, by SIGKILL, or empty."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Iterator

import pytest

from conftest import StartRunning, StartTarget
from support import (
    EXIT_EMPTY,
    EXIT_NOEXEC,
    GSPROF,
    PATIENCE_S,
    PROGRAMS,
    Lines,
    Profile,
    gsprof,
    has_any,
    main_python,
    program,
    record_until,
    wait_for,
    wait_until_sleeping,
)


def test_duration(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    begin = time.monotonic()
    gsprof("record", "-p", target.pid, "-o", tmp_path / "p.json", "-d", "0.5")
    assert 0.5 <= time.monotonic() - begin < PATIENCE_S / 2  # in minutes it would be 30 s
    assert target.alive()


def test_duration_units(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    begin = time.monotonic()
    gsprof("record", "-p", target.pid, "-o", tmp_path / "p.json", "--duration=300ms")
    assert 0.3 <= time.monotonic() - begin < PATIENCE_S / 2  # in seconds it would be 300 s


def test_target_exits(start: StartTarget, running: StartRunning, tmp_path: Path) -> None:
    """The samples are kept, the status is 0, and a message reports the exit."""
    stop = tmp_path / "stop"
    target = start("exits.py", stop, "0")
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-d", "3600", "-r", "500")
    one.wait_until_recording()
    one.wait_until_enough(lambda so_far: "busy" in so_far.names() and len(so_far.samples) >= 50)
    stop.touch()
    done = one.finish()
    assert done.status == 0, done
    assert "exit" in done.err or "ended" in done.err
    profile = Profile.load(path)
    assert "busy" in profile.names() and len(profile.samples) >= 50


def test_interrupt(start: StartTarget, running: StartRunning, tmp_path: Path) -> None:
    """Ctrl-C: the file is written and the status is 0."""
    target = start("spin.py")
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-r", "500")
    one.wait_until_recording()
    one.wait_for_samples(30)
    one.signal(signal.SIGINT)
    done = one.finish()
    assert done.status == 0, done
    assert len(Profile.load(path).samples) >= 30
    assert target.alive()


def test_terminate(start: StartTarget, running: StartRunning, tmp_path: Path) -> None:
    target = start("spin.py")
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path)
    one.wait_until_recording()
    one.wait_for_samples(1)
    one.signal(signal.SIGTERM)
    assert one.finish().status >= 0
    assert Profile.load(path).samples


def test_second_interrupt(running: StartRunning, tmp_path: Path) -> None:
    """If the child ignores Ctrl-C, a second one ends gsprof without it."""
    path = tmp_path / "p.json"
    script = (
        "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print('ready', flush=True)\n"
        "end = time.time() + 3600\n"
        "while time.time() < end: pass"
    )
    one = running("record", "-o", path, "--", main_python(), "-c", script)
    one.wait_until_recording()
    assert one.process.stdout is not None
    Lines(one.process.stdout.fileno()).until("ready")
    one.signal(signal.SIGINT)
    one.lines.until("waiting for it to exit")
    one.signal(signal.SIGINT)
    # Not communicate(): the child keeps running and holds the pipes open.
    assert one.process.wait(PATIENCE_S) == 128 + signal.SIGINT


@pytest.mark.parametrize("status", [0, 1, 42, -signal.SIGTERM, -signal.SIGKILL])
def test_status_of_the_child(status: int, running: StartRunning, tmp_path: Path) -> None:
    """The exit status is passed on; a signal becomes 128 + its number, as in shells."""
    path = tmp_path / "p.json"
    stop = tmp_path / "stop"
    one = running("record", "-o", path, "--", main_python(), program("exits.py"), stop, status)
    one.wait_until_recording()
    one.wait_for_samples(1)
    stop.touch()
    done = one.finish()
    assert done.status == (status if status >= 0 else 128 - status), done
    assert Profile.load(path).samples


def test_cannot_start(tmp_path: Path) -> None:
    done = gsprof(
        "record", "-o", tmp_path / "p.json", "--", "/nonexistent/python", status=EXIT_NOEXEC
    )
    assert "/nonexistent/python" in done.err
    assert not (tmp_path / "p.json").exists()


def test_output_of_the_child(tmp_path: Path) -> None:
    """stdin and stdout belong to the child."""
    done = gsprof(
        "record",
        "-o",
        tmp_path / "p.json",
        "--",
        main_python(),
        "-c",
        "import sys, time\nprint(sys.stdin.read())\n"
        "end = time.time() + 0.2\nwhile time.time() < end: pass",
        stdin=b"through",
    )
    assert done.out == "through\n"


def test_idle_gives_nothing(start: StartTarget, tmp_path: Path) -> None:
    """Without samples, no empty file is written: the message has the reason and a remedy."""
    target = start("idle.py")
    wait_until_sleeping(target.pid)
    done = gsprof(
        "record", "-p", target.pid, "-o", tmp_path / "p.json", "-d", "0.3", status=EXIT_EMPTY
    )
    assert "idle" in done.err and "--idle" in done.err


def test_gil_filter_gives_nothing(start: StartTarget, tmp_path: Path) -> None:
    target = start("idle.py")
    wait_until_sleeping(target.pid)
    done = gsprof(
        "record",
        "-p",
        target.pid,
        "-o",
        tmp_path / "p.json",
        "-d",
        "0.3",
        "-g",
        "-i",
        status=EXIT_EMPTY,
    )
    assert "GIL" in done.err or "gil" in done.err


def test_idle_option(start: StartTarget, tmp_path: Path) -> None:
    target = start("idle.py")
    profile = record_until(has_any, target.pid, tmp_path / "p.json", "-i", duration_s=0.3)
    assert "nap" in profile.names()


def test_exited_at_once(tmp_path: Path) -> None:
    """The child exits before the first sample: its own status, and a message."""
    done = gsprof("record", "-o", tmp_path / "p.json", "--", "/bin/sh", "-c", "exit 5", status=None)
    assert done.status in (5, EXIT_EMPTY, 69), done
    assert done.err.strip()


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_killed_recorder(
    writes: int, start: StartTarget, running: StartRunning, tmp_path: Path
) -> None:
    """After SIGKILL, the .gsp file is readable and has all samples up to one second before the last
    write."""
    target = start("spin.py")
    path = tmp_path / "p.gsp"
    one = running("record", "-p", target.pid, "-o", path, "-r", "500")
    one.wait_until_recording()
    (left,) = [entry for entry in tmp_path.iterdir() if ".gsp" in entry.name]
    written_s = 0.0
    for _ in range(writes):
        size = left.stat().st_size
        wait_for(lambda: left.stat().st_size > size, "the recorder writes nothing")
        written_s = time.time()
    one.kill()
    assert [entry for entry in tmp_path.iterdir() if ".gsp" in entry.name] == [left]
    gsprof("convert", "-i", left, "-o", tmp_path / "p.json")
    profile = Profile.load(tmp_path / "p.json")
    if writes:
        assert profile.samples[-1].timestamp >= written_s - 1
        assert "spin" in profile.names()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can read, with the target programs and the profiler."""
    folder = Path(tempfile.mkdtemp(prefix="gsprof-test-"))
    folder.chmod(0o755)
    shutil.copytree(PROGRAMS, folder / "programs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(GSPROF, folder / "gsprof")
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.name == "gsprof" else 0o644)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.needs_root
def test_sudo_runs_the_child_as_the_caller(
    open_folder: Path, running: StartRunning, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    stop = open_folder / "stop"
    one = running(
        "record",
        "-o",
        path,
        "--",
        "/usr/bin/python3",
        open_folder / "programs" / "exits.py",
        stop,
        "0",
        env={
            "SUDO_UID": "65534",
            "SUDO_GID": "65534",
            "SUDO_USER": "nobody",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    one.wait_until_recording()
    one.wait_for_samples(1)
    stop.touch()
    done = one.finish()
    assert done.status == 0, done
    facts = json.loads(done.out.splitlines()[0])
    assert (facts["uid"], facts["gid"]) == (65534, 65534)
    assert 0 not in facts["groups"]
    assert Profile.load(path).samples
    assert os.getuid() == 0
