# SPDX-License-Identifier: Apache-2.0
"""gsprof inject while threads are where no call is possible: another thread makes it, or none."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Iterator, List

import pytest

from support import BUILD, PATIENCE_S, Python, gsprof, wait_for

TOOLS = BUILD / "tests" / "tools"
EXIT_TIMEOUT = 75
ROUNDS = 3

# Runs a function of libinject_states.so until SIGUSR2.
PROGRAM = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
function = getattr(library, sys.argv[2])
function.restype = ctypes.c_long
library.prepare()
print("ready", flush=True)
print(function(), flush=True)
"""

# One thread that sends or receives nearly all the time.
WRITER = """
import os, sys
size = 1 << 20
data = b"x" * size
print("ready", file=sys.stderr, flush=True)
while True:
    done = os.write(1, data)
    if done != size:
        sys.exit(f"wrote only {done} bytes")
"""
RECEIVER = """
import os, socket, sys
pair = socket.socketpair()
if os.fork() == 0:
    import time
    pair[1].close()
    for _ in range(100):
        pair[0].send(b"x" * 100)
        time.sleep(0.02)
    os._exit(0)
pair[0].close()
print("ready", file=sys.stderr, flush=True)
while True:
    data = pair[1].recv(1000, socket.MSG_WAITALL)
    if not data:
        break
    if len(data) != 1000:
        sys.exit(f"received only {len(data)} bytes")
"""
ALLOCATOR = """
import signal
stopped = []
signal.signal(signal.SIGUSR2, lambda *args: stopped.append(1))
print("ready", flush=True)
while not stopped:
    lists = [bytes(1000) for _ in range(50)]
print("ended")
"""


@pytest.fixture(autouse=True)
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime folder for one test."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("GSPROF_FOLLOW", "0")


@pytest.fixture
def started() -> Iterator[List["subprocess.Popen[str]"]]:
    made: List["subprocess.Popen[str]"] = []
    yield made
    for process in made:
        process.kill()
        process.communicate()


def begin(
    started: List["subprocess.Popen[str]"], python: Python, *argv: object, preload: str = ""
) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [python.path, "-c", *map(str, argv)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LD_PRELOAD": preload},
    )
    started.append(process)
    assert process.stdout and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    "state", ["in_handlers", "with_own_filter", "in_sequences", "on_coroutine"]
)
def test_threads_that_cannot_call(
    state: str, some_python: Python, started: List["subprocess.Popen[str]"]
) -> None:
    """A handler that interrupted the allocator, a seccomp filter of one thread, a restartable
    sequence, and the stack of a coroutine: the target does what it does alone."""
    target = begin(started, some_python, PROGRAM, TOOLS / "libinject_states.so", state)
    for _ in range(ROUNDS):
        gsprof("inject", target.pid, "--timeout", "40s")
        gsprof("eject", target.pid, "--timeout", "40s")
    target.send_signal(signal.SIGUSR2)
    out, _ = target.communicate(timeout=PATIENCE_S)
    assert target.returncode == 0, signal.Signals(-target.returncode)
    if out == "-1\n":
        pytest.skip(f"{state} is not possible on this machine")
    assert out == "0\n"


def test_an_unknown_allocator(some_python: Python, started: List["subprocess.Popen[str]"]) -> None:
    """Code of a file that exports malloc() may hold its lock."""
    library = TOOLS / "libspin_malloc.so"
    target = begin(started, some_python, ALLOCATOR, preload=str(library))
    for _ in range(ROUNDS):
        gsprof("inject", target.pid, "--timeout", "20s")
        gsprof("eject", target.pid, "--timeout", "20s")
    target.send_signal(signal.SIGUSR2)
    out, _ = target.communicate(timeout=PATIENCE_S)
    assert (target.returncode, out) == (0, "ended\n")


@pytest.mark.parametrize("source", [WRITER, RECEIVER], ids=["write", "recv"])
def test_transfers_are_not_cut_short(
    source: str, some_python: Python, started: List["subprocess.Popen[str]"]
) -> None:
    """A stop would end such a call after a part of the data: it needs --force."""
    if some_python.version >= (3, 14):
        pytest.skip("from 3.14 on, gsprof asks the interpreter and stops no thread")
    target = subprocess.Popen(
        [some_python.path, "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=0,
    )
    started.append(target)
    assert target.stdout and target.stderr and target.stderr.readline() == "ready\n"
    call = Path(f"/proc/{target.pid}/syscall")
    wait_for(lambda: not call.read_text().startswith("running"))
    done = gsprof("inject", target.pid, "--timeout", "500ms", status=None)
    if source == WRITER:  # nothing reads: it writes all the time
        assert done.status == EXIT_TIMEOUT
        assert "a stop would cut that short" in done.err and "--force" in done.err
        for _ in range(100):
            os.read(target.stdout.fileno(), 1 << 16)
        assert target.poll() is None, target.stderr.read()
    else:
        assert target.wait(PATIENCE_S) == 0, target.stderr.read()
