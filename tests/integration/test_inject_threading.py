# SPDX-License-Identifier: Apache-2.0
"""Commands that run Python in a program which has not imported threading yet. Before Python 3.13,
threading takes the thread that imports it first for the main thread."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

import pytest

from support import PATIENCE_S, Lines, Python, gsprof

LONG = ("--timeout", f"{PATIENCE_S - 5:g}s")
# Commands that attach to a program, most of which run Python in it.
COMMANDS = (
    ("inject", "PID", "--yes", *LONG),
    ("eject", "PID", "--yes", *LONG),
    ("mem", "record", "PID", "-d", "0.2s", "-o", "memory.gsp"),
    ("record", "PID", "-d", "0.2s", "-o", "stacks.gsp"),
    ("dump", "PID", "--locals"),
)
# Ends with status 0 and no message if threading is as it would be without gsprof.
PROGRAM = """
import sys
from _thread import allocate_lock, start_new_thread
lock = allocate_lock()
lock.acquire()
for _ in range(3):
    start_new_thread(lambda: lock.acquire(), ())
print("ready", flush=True)
sys.stdin.readline()
print("threading" in sys.modules, flush=True)
sys.stdin.read()
import _thread, os, threading, time
main = threading.main_thread()
assert main is threading.current_thread(), (main, threading.current_thread())
assert threading.enumerate() == [main] and main.is_alive()
assert main.ident == _thread.get_ident()
assert main.native_id == os.getpid() or sys.version_info >= (3, 13)
def work():
    time.sleep(0.3)
    print("worked", flush=True)
threading.Thread(target=work).start()
if sys.argv[1] == "fork" and not os.fork():
    assert threading.main_thread() is threading.current_thread()
    sys.exit()
"""


class Program:
    """A running PROGRAM."""

    def __init__(self, python: Python, what: str = "") -> None:
        # Without site, whose files may import threading.
        self.process = subprocess.Popen(
            [python.path, "-I", "-S", "-c", PROGRAM, what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.lines = Lines(self.process.stdout.fileno())
        assert self.lines.next() == "ready"

    @property
    def pid(self) -> int:
        return self.process.pid

    def has_threading(self) -> bool:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return self.lines.next() == "True"

    def finish(self) -> Tuple[int, Optional[str], str]:
        """Lets the program import threading. Returns status, output of its thread, and errors."""
        assert self.process.stdin is not None and self.process.stderr is not None
        self.process.stdin.close()
        worked = self.lines.next()
        errors = self.process.stderr.read().decode()
        return self.process.wait(PATIENCE_S), worked, errors

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(name="programs")
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[List[Program]]:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("GSPROF_FOLLOW", "0")
    made: List[Program] = []
    yield made
    for one in made:
        one.end()


def begin(programs: List[Program], *args: object) -> Program:
    programs.append(Program(*args))  # type: ignore[arg-type]
    return programs[-1]


ENDED = (0, "worked", "")


def test_no_command_imports_threading(
    python: Python, programs: List[Program], tmp_path: Path
) -> None:
    program = begin(programs, python)
    gsprof("eval", program.pid, "1 + 1", "--yes", *LONG)
    gsprof("eval", program.pid, "1 / 0", "--yes", *LONG, status=None)
    for command in COMMANDS:
        args = [program.pid if word == "PID" else word for word in command]
        gsprof(*args, status=None, cwd=tmp_path)
    assert not program.has_threading()
    assert program.finish() == ENDED


@pytest.mark.parametrize(
    "code",
    [
        "import threading",
        "import logging, threading; threading.current_thread(); raise SystemExit(1)",
        "import threading; t = threading.Thread(target=int); t.start(); t.join()",
    ],
)
def test_threading_that_eval_imports_first(
    python: Python, programs: List[Program], code: str
) -> None:
    program = begin(programs, python)
    gsprof("eval", program.pid, code, "--yes", *LONG, status=None)
    gsprof("eval", program.pid, "import threading", "--yes", *LONG)
    assert program.has_threading()
    assert program.finish() == ENDED


def test_a_child_of_fork_after_that(some_python: Python, programs: List[Program]) -> None:
    program = begin(programs, some_python, "fork")
    gsprof("eval", program.pid, "import threading", "--yes", *LONG)
    assert program.has_threading()
    assert program.finish() == ENDED
