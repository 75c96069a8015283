# SPDX-License-Identifier: Apache-2.0
"""Fixtures: every interpreter, targets that are ended whatever happens."""

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
    reason="needs a build with the headers of Python (python3-dev)",
)

StartTarget = Callable[..., Target]
StartRunning = Callable[..., Running]
StartWriter = Callable[..., Target]
Serve = Callable[..., Daemon]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_root: wants to change user, root or mounts")
    config.addinivalue_line("markers", "slow: takes more than some seconds")
    # A job in the background of a script has them ignored, and so would all that is started here.
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
    # Whoever was started in the background ignores it, and so would all that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The rings of targets go where nobody else's are, and away at the end.
    place = tempfile.mkdtemp(prefix="gsprof-tests-", dir="/dev/shm")
    os.environ["XDG_RUNTIME_DIR"] = place
    session.config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


# Files that take long begin first, so that no worker is left alone with one at the end.
LONG = ("test_torch", "test_measure", "test_top", "test_tree", "test_serve_kill", "test_record")


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
    """What to put before a command that mounts something, which others do not see; skips where
    there is no such thing.  Within chroot the root is no mount, which cannot be made private: then
    all mounts have to be private already."""
    ways = ["private"]
    if " shared:" not in Path("/proc/self/mountinfo").read_text(encoding="utf-8"):
        ways.append("unchanged")
    said = "no program unshare"
    for way in ways if shutil.which("unshare") else []:
        argv = ["unshare", "--mount", "--propagation", way, *more]
        done = subprocess.run([*argv, "true"], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            return argv
        said = done.stderr.strip()
    pytest.skip(f"needs a mount namespace: {said}")


@pytest.fixture(scope="session")
def some_python() -> Python:
    """The one interpreter for tests where the version does not matter."""
    python = probe(main_python())
    assert python is not None
    return python


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[StartTarget]:
    """start("deep.py", 61, python=…): a running target; ended with the test."""
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
    """running("record", …): the profiler in the background; killed with the test."""
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
    """A runtime folder of the test's own: rings of others on this machine are left alone."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(folder)}


@pytest.fixture
def writer(runtime: Dict[str, str]) -> Iterator[StartWriter]:
    """writer("--rank", 3): a program that has written rows; ended with the test."""
    if not RING_WRITER.exists():
        pytest.skip(f"no {RING_WRITER}: ninja builds it")
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
    """serve("--freq", "1s", …): a daemon that answers; ended with the test."""
    started: List[Daemon] = []

    def begin(*args: object, **options: Any) -> Daemon:
        daemon = Daemon(options.pop("folder", tmp_path), "--freq", "20ms", *args, **options)
        started.append(daemon)
        return daemon

    yield begin
    for daemon in started:
        daemon.end()
