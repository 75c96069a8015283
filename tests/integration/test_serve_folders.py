# SPDX-License-Identifier: Apache-2.0
"""gsprof serve with missing, read-only or full folders, and after they are available again."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest
from conftest import Serve
from serving import Daemon, names_of
from support import EXIT_NOFILE, EXIT_NOWRITE, gsprof


class Disk:
    """A small file system for one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.filler = folder / "filler"
        folder.mkdir(parents=True)
        self.mount("-t", "tmpfs", "-o", "size=4m", "tmpfs")

    def mount(self, *args: str) -> None:
        done = subprocess.run(
            ["mount", *args, str(self.folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"needs to mount a tmpfs (root): {done.stdout.decode().strip()}")

    def set_read_only(self, on: bool) -> None:
        self.mount("-o", f"remount,{'ro' if on else 'rw'}")

    def fill(self) -> None:
        with self.filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass

    def end(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=False)


MakeDisk = Callable[[Path], Disk]


@pytest.fixture
def disk() -> Iterator[MakeDisk]:
    made: List[Disk] = []

    def make(folder: Path) -> Disk:
        made.append(Disk(folder))
        return made[-1]

    yield make
    for one in made:
        one.end()


def check_failed(daemon: Daemon, name: str, status: int) -> None:
    """Checks that a session that cannot be written is reported and kept."""
    answered, answer = daemon.ask("POST", "/profiling/stop", {"name": name})
    assert answered == status and name in answer["error"]["hint"], answer
    (failed,) = daemon.get("/status")["failed_sessions"]
    assert failed["name"] == name and failed["error"]
    listed = daemon.get(f"/profiling/sessions/{name}")
    assert listed["failed"] and not listed["is_active"] and listed["frame_count"] > 0


def check_recovered(daemon: Daemon, name: str) -> Any:
    daemon.until("/status", lambda now: not now["failed_sessions"])
    listed = daemon.get(f"/profiling/sessions/{name}")
    assert not listed["failed"] and listed["error"] is None
    whole = json.loads((daemon.output / listed["output_file"]).read_text())
    assert len(whole["frames"]) == listed["frame_count"] > 0
    assert not list(daemon.output.glob("*.part"))
    return whole


def test_a_missing_folder_is_created(serve: Serve, tmp_path: Path) -> None:
    output = tmp_path / "not" / "yet"
    daemon = serve("--output-dir", output)
    daemon.post("/profiling/start", {"name": "first"})
    daemon.post("/profiling/stop", {"name": "first"})
    assert (output / "first.json").is_file()


def test_an_impossible_folder_is_reported_at_start(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        done = gsprof("serve", "--port", 0, "--output-dir", folder, env=env, status=EXIT_NOFILE)
        assert str(tmp_path / "file") in done.err


@pytest.mark.needs_root
def test_a_read_only_folder_is_reported_at_start(disk: MakeDisk, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    output = disk(tmp_path / "out")
    output.set_read_only(True)
    for folder in (output.folder, output.folder / "below"):
        done = gsprof("serve", "--port", 0, "--output-dir", folder, env=env, status=EXIT_NOWRITE)
        assert str(output.folder) in done.err


def test_a_failed_start_removes_its_socket(serve: Serve, tmp_path: Path) -> None:
    daemon = serve()
    socket = tmp_path / "second.sock"
    args = ("--port", 0, "--socket", socket, "--output-dir", tmp_path / "second")
    done = gsprof("serve", *args, env=daemon.env, status=EXIT_NOWRITE)
    assert "another daemon uses the folder" in done.err
    assert not socket.exists()
    assert daemon.stop() == 0


def test_output_folder_removed_and_created_again(serve: Serve) -> None:
    daemon = serve()
    daemon.post("/profiling/start", {"name": "kept"})
    daemon.frames(2)
    shutil.rmtree(daemon.output)
    check_failed(daemon, "kept", 500)
    daemon.output.mkdir()
    check_recovered(daemon, "kept")


@pytest.mark.needs_root
def test_output_folder_full_or_read_only_for_a_while(
    serve: Serve, disk: MakeDisk, tmp_path: Path
) -> None:
    full, locked = tmp_path / "full", tmp_path / "locked"
    disks = {folder: disk(folder / "out") for folder in (full, locked)}
    daemons = {folder: serve(folder=folder) for folder in disks}
    for daemon in daemons.values():
        daemon.post("/profiling/start", {"name": "kept"})
        daemon.frames(2)
    disks[full].fill()
    disks[locked].set_read_only(True)
    check_failed(daemons[full], "kept", 507)
    check_failed(daemons[locked], "kept", 500)
    # A restarted daemon still has the failed session.
    daemons[full].stop(signal.SIGKILL)
    daemons[full].start()
    daemons[full].until("/status", lambda now: bool(now["failed_sessions"]))
    # New sessions can start, because the log is in another folder.
    daemons[locked].post("/profiling/start", {"name": "next"})
    disks[full].filler.unlink()
    disks[locked].set_read_only(False)
    for daemon in daemons.values():
        check_recovered(daemon, "kept")
    daemons[locked].post("/profiling/stop", {"name": "next"})
    check_recovered(daemons[locked], "next")
    for daemon in daemons.values():
        assert daemon.stop() == 0


@pytest.mark.needs_root
def test_frame_log_full_for_a_while(serve: Serve, disk: MakeDisk, tmp_path: Path) -> None:
    log = disk(tmp_path / "state")
    daemon = serve()
    daemon.post("/profiling/start", {"name": "kept"})
    daemon.frames(2)
    log.fill()
    lost = daemon.until("/status", lambda now: bool(now["losses"]["frames_lost"] >= 3))
    assert lost["storage"]["error"], lost["storage"]
    # Only written requests are acknowledged; an incomplete one does not affect others.
    long = {"name": "refused", "labels": {"x": "y" * 9000}}
    assert daemon.ask("POST", "/profiling/start", long)[0] == 507
    short, _ = daemon.ask("POST", "/profiling/start", {"name": "short"})
    assert short in (200, 507)
    daemon.stop(signal.SIGKILL)
    daemon.start()
    names = ["kept", "short"] if short == 200 else ["kept"]
    assert sorted(names_of(daemon.get("/profiling/sessions"))) == names
    daemon.until("/status", lambda now: bool(now["losses"]["frames_lost"] >= 3))
    log.filler.unlink()
    daemon.frames(3)
    daemon.until("/status", lambda now: not now["storage"]["error"])
    daemon.post("/profiling/stop", {"name": "kept"})
    whole = check_recovered(daemon, "kept")
    assert whole["losses"]["frames_lost"] >= 3
    assert {gap["cause"] for gap in whole["gaps"]} & {"lost", "restart"}
    assert daemon.stop() == 0
