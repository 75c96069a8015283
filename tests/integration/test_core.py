# SPDX-License-Identifier: Apache-2.0
"""dump --core: what a process did when it ended, the same as while it lived."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, List

import pytest

from conftest import StartTarget
from support import (
    EXIT_FORMAT,
    EXIT_NOFILE,
    EXIT_NOPROC,
    EXIT_USAGE,
    PATIENCE_S,
    Json,
    Python,
    Target,
    gsprof,
)

IN_FOLDER = 'cd "$0" && ulimit -c unlimited && exec "$@"'


def kernel_writes_here() -> str:
    """Why a crash leaves no core in the process's folder; "" if it does."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
    if pattern.startswith("|") or "/" in pattern:
        return f"the kernel's core_pattern is {pattern!r}"
    return ""


def start_in(start: StartTarget, folder: Path, name: str, **kwargs: Any) -> Target:
    return start(name, before=["/bin/sh", "-c", IN_FOLDER, str(folder)], **kwargs)


def crash(target: Target, folder: Path) -> Path:
    """Ends the target by SIGABRT; its core."""
    os.kill(target.pid, signal.SIGABRT)
    target.process.wait(PATIENCE_S)
    cores = list(folder.glob("core*"))
    if not cores:
        pytest.skip("no core was written: the limit cannot be raised here")
    return cores[0]


def threads_of(*args: object) -> List[Json]:
    threads: List[Json] = json.loads(gsprof("dump", "--json", *args).out)
    return threads


def stacks(threads: List[Json]) -> List[Json]:
    """What must be the same alive and dead: who the threads are, and their frames below
    station(), within which a target may still be busy saying that it is there."""
    keys = ("thread_id", "os_thread_id", "thread_name", "is_main", "interpreter_id")
    rows = [{key: thread[key] for key in keys} for thread in threads]
    for row, thread in zip(rows, threads):
        names = [frame["name"] for frame in thread["frames"]]
        row["frames"] = thread["frames"][names.index("station") + 1 :]
    return rows


@pytest.mark.skipif(bool(kernel_writes_here()), reason=kernel_writes_here())
def test_same_as_alive(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Stacks, lines, names of threads and values of locals, to the letter."""
    target = start_in(start, tmp_path, "locals.py", python=python)
    alive = threads_of("-p", target.pid, "--locals")
    core = crash(target, tmp_path)
    dead = threads_of("--core", core, "--locals")
    assert stacks(dead) == stacks(alive)
    info = dead[0]["process_info"]
    assert info["signal"] == signal.SIGABRT and info["missing_bytes"] == 0
    assert info["pid"] == target.pid
    assert info["python_version"] == alive[0]["process_info"]["python_version"]
    assert dead[0]["active"] is None


@pytest.mark.skipif(bool(kernel_writes_here()), reason=kernel_writes_here())
def test_threads(python: Python, start: StartTarget, tmp_path: Path) -> None:
    target = start_in(start, tmp_path, "threads8.py", python=python)
    alive = {thread["thread_name"]: thread for thread in threads_of("-p", target.pid)}
    dead = {t["thread_name"]: t for t in threads_of("--core", crash(target, tmp_path))}
    assert set(dead) == set(alive) and len(dead) == 8
    for name, thread in dead.items():
        assert thread["os_thread_id"] == alive[name]["os_thread_id"]
        if name.startswith("wait_"):
            assert thread["frames"] == alive[name]["frames"]
    text = gsprof("dump", "--core", next(iter(tmp_path.glob("core*")))).out
    assert f"Core of process {target.pid}" in text and "signal 6" in text


@pytest.mark.skipif(bool(kernel_writes_here()), reason=kernel_writes_here())
def test_tasks(python: Python, start: StartTarget, tmp_path: Path) -> None:
    target = start_in(start, tmp_path, "tasks.py", python=python)
    alive = [thread["tasks"] for thread in threads_of("-p", target.pid)]
    dead = [thread["tasks"] for thread in threads_of("--core", crash(target, tmp_path))]
    assert dead == alive and len(dead[0]) >= 10


def test_gcore(start: StartTarget, some_python: Python, tmp_path: Path) -> None:
    """A snapshot that gdb wrote: nothing ended, other segments are in it."""
    if not shutil.which("gcore"):
        pytest.skip("gcore is not here: it comes with gdb")
    target = start("locals.py", python=some_python)
    alive = threads_of("-p", target.pid, "--locals")
    done = subprocess.run(
        ["gcore", "-o", str(tmp_path / "core"), str(target.pid)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    core = tmp_path / f"core.{target.pid}"
    if done.returncode or not core.exists():
        pytest.skip(f"gcore failed: {done.stdout.decode()[-200:]}")
    assert stacks(threads_of("--core", core, "--locals")) == stacks(alive)


@pytest.mark.skipif(bool(kernel_writes_here()), reason=kernel_writes_here())
def test_cut(start: StartTarget, tmp_path: Path) -> None:
    """A core that is cut is read as far as it goes, or refused in words; never silently."""
    whole = crash(start_in(start, tmp_path, "locals.py"), tmp_path).read_bytes()
    core = tmp_path / "cut"
    told = 0
    for share in (0.0001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999):
        core.write_bytes(whole[: int(len(whole) * share)])
        done = gsprof("dump", "--core", core, "--json", status=None)
        assert done.status in (0, EXIT_FORMAT, EXIT_NOPROC, 75), str(done)
        assert "cut" in done.err, str(done)
        told += done.status != 0
    assert told >= 2


@pytest.mark.skipif(bool(kernel_writes_here()), reason=kernel_writes_here())
def test_not_python(tmp_path: Path) -> None:
    child = subprocess.Popen(
        ["/bin/sh", "-c", IN_FOLDER, str(tmp_path), "/bin/sleep", "60"], start_new_session=True
    )
    while Path(f"/proc/{child.pid}/comm").read_text(encoding="utf-8") != "sleep\n":
        assert child.poll() is None
    child.send_signal(signal.SIGABRT)
    child.wait(PATIENCE_S)
    cores = list(tmp_path.glob("core*"))
    if not cores:
        pytest.skip("no core was written: the limit cannot be raised here")
    done = gsprof("dump", "--core", cores[0], status=EXIT_NOPROC)
    assert "no Python interpreter" in done.err


def test_errors(tmp_path: Path) -> None:
    gsprof("dump", "--core", tmp_path / "none", status=EXIT_NOFILE)
    gsprof("dump", "--core", "/bin/sh", status=EXIT_FORMAT)
    gsprof("dump", "--core", __file__, status=EXIT_FORMAT)
    gsprof("dump", "--core", tmp_path, status=EXIT_FORMAT)
    packed = tmp_path / "core.zst"
    packed.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    assert "zstd" in gsprof("dump", "--core", packed, status=EXIT_FORMAT).err
    gsprof("dump", "--core", packed, "-p", 1, status=EXIT_USAGE)
