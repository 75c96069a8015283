# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the interpreters, and processes that are killed at the end of each test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from serving import Daemon  # noqa: E402
from support import (  # noqa: E402
    GSPROF,
    PACKAGE,
    RING_WRITER,
    Python,
    Running,
    Target,
    find_pythons,
    main_python,
    probe,
    program,
)

PYTHONS, MISSING = find_pythons()

NEEDS_EXTENSION = pytest.mark.skipif(
    not (PACKAGE / "gsprof" / "_gsprof.abi3.so").exists(),
    reason="needs a build with the Python headers (python3-dev)",
)

StartTarget = Callable[..., Target]
StartRunning = Callable[..., Running]
StartWriter = Callable[..., Target]
Serve = Callable[..., Daemon]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_root: changes the user, the root directory or mounts")
    config.addinivalue_line("markers", "slow: takes more than a few seconds")
    # A background job of a script ignores these signals, and child processes would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_report_header(config: pytest.Config) -> List[str]:
    lines = [f"gsprof: {GSPROF}", "interpreters: " + " ".join(map(str, PYTHONS))]
    if MISSING:
        lines.append(f"newest interpreters missing: {MISSING}")
    return lines


def pytest_sessionstart(session: pytest.Session) -> None:
    if not os.access(GSPROF, os.X_OK):
        pytest.exit(f"no {GSPROF}: run make first, or set GSPROF_BIN", returncode=2)
    # A background job ignores SIGINT, and child processes would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The rings of the targets have a folder of their own, which is removed at the end.
    folder = tempfile.mkdtemp(prefix="gsprof-tests-", dir="/dev/shm")
    os.environ["XDG_RUNTIME_DIR"] = folder
    session.config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


# Long files start first, so that no worker runs one alone at the end.
LONG = ("test_torch", "test_measure", "test_top", "test_tree", "test_prove", "test_record")


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONG)
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root")
    for item in items:
        if "needs_root" in item.keywords:
            item.add_marker(skip)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "python" not in metafunc.fixturenames:
        return
    rows: List[object] = [pytest.param(python, id=str(python)) for python in PYTHONS]
    if MISSING:
        rows.append(pytest.param(None, id="newest", marks=pytest.mark.skip(reason=MISSING)))
    metafunc.parametrize("python", rows, scope="module")


def own_mounts(*more: str) -> List[str]:
    """Returns a prefix that runs a command in a mount namespace of its own, or skips the test. In a
    chroot the root directory is not a mount point and cannot be made private: then all mounts have
    to be private already."""
    ways = ["private"]
    if " shared:" not in Path("/proc/self/mountinfo").read_text(encoding="utf-8"):
        ways.append("unchanged")
    reason = "unshare is not installed"
    for way in ways if shutil.which("unshare") else []:
        argv = ["unshare", "--mount", "--propagation", way, *more]
        done = subprocess.run([*argv, "true"], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            return argv
        reason = done.stderr.strip()
    pytest.skip(f"needs a mount namespace: {reason}")


@pytest.fixture(scope="session")
def some_python() -> Python:
    """The interpreter for tests in which the version does not matter."""
    python = probe(main_python())
    assert python is not None
    return python


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[StartTarget]:
    """start("deep.py", 61, python=…): a running target, killed at the end of the test."""
    started: List[Target] = []

    def begin(
        name: str,
        *args: object,
        python: Optional[Python] = None,
        env: Optional[Mapping[str, str]] = None,
        before: Optional[List[str]] = None,
        exe: Optional[str] = None,
    ) -> Target:
        path = exe or (python.path if python else main_python())
        target = Target([*(before or []), path, program(name), *map(str, args)], env=env)
        started.append(target)
        return target

    yield begin
    for target in started:
        target.end()


@pytest.fixture
def running() -> Iterator[StartRunning]:
    """running("record", …): the profiler in the background, killed at the end of the test."""
    started: List[Running] = []

    def begin(*args: object, env: Optional[Mapping[str, str]] = None) -> Running:
        one = Running(*args, env=env)
        started.append(one)
        return one

    yield begin
    for one in started:
        one.kill()


@pytest.fixture
def runtime(tmp_path: Path) -> Dict[str, str]:
    """A runtime folder for one test: other rings on this machine are not touched."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(folder)}


@pytest.fixture
def writer(runtime: Dict[str, str]) -> Iterator[StartWriter]:
    """writer("--rank", 3): a program that has written rows, killed at the end of the test."""
    if not RING_WRITER.exists():
        pytest.skip(f"needs {RING_WRITER}: ninja builds it")
    started: List[Target] = []

    def begin(*args: object) -> Target:
        target = Target([str(RING_WRITER), *map(str, args)], env=runtime)
        started.append(target)
        return target

    yield begin
    for target in started:
        target.end()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """serve("--freq", "1s", …): a running daemon, killed at the end of the test."""
    started: List[Daemon] = []

    def begin(*args: object, **options: Any) -> Daemon:
        daemon = Daemon(options.pop("folder", tmp_path), "--freq", "20ms", *args, **options)
        started.append(daemon)
        return daemon

    yield begin
    for daemon in started:
        daemon.end()
