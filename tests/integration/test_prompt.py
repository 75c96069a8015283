# SPDX-License-Identifier: Apache-2.0
"""The prompt of gsprof query at a terminal: multi-line input, keys, history, commands, pager."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List

import pytest

from conftest import StartWriter
from serving import Daemon
from support import GSPROF, PATIENCE_S, wait_for

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")
PROMPT = "gsprof> "


class Session:
    """The prompt on a pseudo-terminal."""

    def __init__(self, args: List[str], env: Dict[str, str]) -> None:
        self.fd, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [str(GSPROF), *args],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", **env},
            preexec_fn=own_terminal,
        )
        os.close(other)
        self.seen = ""

    def until(self, word: str) -> str:
        """Returns the output before word; the rest is left for the next call."""
        deadline = time.monotonic() + PATIENCE_S
        while word not in self.seen:
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self.fd], [], [], left)[0]
            assert ready, f"no {word!r} in {self.seen!r}"
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:
                chunk = b""
            assert chunk, f"ended without {word!r}: {self.seen!r}"
            self.seen = ESCAPES.sub("", self.seen + chunk.decode("utf-8", "replace"))
        head, self.seen = self.seen.split(word, 1)
        return head

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def key(self, text: str) -> None:
        """Presses keys once the line editor is active; until then the terminal handles them."""
        wait_for(
            lambda: not termios.tcgetattr(self.fd)[3] & termios.ISIG,
            "the line editor is not active",
        )
        self.type(text)

    def enter(self, text: str) -> str:
        """Types a line and returns the output before the next prompt."""
        self.type(text + "\n")
        return self.until(PROMPT)

    def leave(self) -> int:
        """Waits for the end."""
        return self.process.wait(timeout=PATIENCE_S)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)


Open = Callable[..., Session]


@pytest.fixture
def prompt(runtime: Dict[str, str], writer: StartWriter, tmp_path: Path) -> Iterator[Open]:
    """prompt(PAGER=…): opens a prompt over a writer's rows and waits until it is ready."""
    target = writer()
    opened: List[Session] = []

    def begin(*args: str, **env: str) -> Session:
        whole = {**runtime, "XDG_STATE_HOME": str(tmp_path / "state"), "PAGER": "cat", **env}
        session = Session(["query", str(target.pid), *args], whole)
        opened.append(session)
        session.until(PROMPT)
        return session

    yield begin
    for session in opened:
        session.end()


def test_statements_and_commands(prompt: Open) -> None:
    session = prompt()
    session.type("SELECT count(*) AS n\n")
    session.until("-> ")
    assert "90" in session.enter("FROM python.torch_trace;")
    assert "Timing is on" in session.enter("\\timing")
    several = session.enter(
        "-- a comment\nSELECT 40 + 1 AS a; /* ; */ SELECT ';' || 42 AS b; -- end"
    )
    assert "41" in several + session.until(PROMPT)
    assert "Time: " in session.enter("SELECT 1;")
    assert "torch_trace" in session.enter("\\d")
    assert "duration" in session.enter("\\d python.torch_step")
    session.enter("\\format json")
    assert '{"x":1}' in session.enter("SELECT 1 AS x;")
    assert "supports only table" in session.enter("\\format arrow")
    session.enter("\\format table")
    session.enter("\\x")
    assert "row 1" in session.enter("SELECT 1 AS x, 2 AS y;")
    assert "\\timing" in session.enter("\\?")
    assert "Unknown command" in session.enter("\\nothing")
    session.type("\\q\n")
    assert session.leave() == 0


def test_errors_do_not_end_the_prompt(prompt: Open) -> None:
    session = prompt()
    assert "did you mean step?" in session.enter("SELECT stpe FROM python.torch_trace;")
    assert "only SELECT" in session.enter("DROP VIEW python.torch_trace;")
    assert "41" in session.enter("SELECT 40 + 1;")
    session.key("\x04")
    assert session.leave() == 0


def test_completion(prompt: Open) -> None:
    session = prompt()
    session.key("SELECT count(*) FROM python.torch_tr\t")
    session.until("ace")
    assert "90" in session.enter(";")
    session.key("SELECT 1 FROM python.tor\t\t")
    seen = session.until("python.torch_trace")
    assert "python.torch_step" in seen
    session.key("\x03")
    session.until(PROMPT)


def test_interrupts(prompt: Open) -> None:
    session = prompt()
    session.key("SELECT garbage\x03")
    session.until("^C")
    session.until(PROMPT)
    assert "42" in session.enter("SELECT 41 + 1;")
    # All lines of a statement are dropped.
    session.type("SELECT 1,\n")
    session.until("-> ")
    session.key("\x03")
    session.until(PROMPT)
    assert "43" in session.enter("SELECT 42 + 1;")


def bit(number: int) -> int:
    return 1 << (number - 1)


def is_in_query(pid: int) -> bool:
    """Both the line editor and a query catch SIGINT; only the editor also catches SIGWINCH."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    caught = int(next(line for line in lines if "SigCgt" in line).split()[1], 16)
    return bool(caught & bit(signal.SIGINT)) and not caught & bit(signal.SIGWINCH)


def test_a_query_is_interrupted(prompt: Open) -> None:
    session = prompt()
    session.type("SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a > b;\n")
    wait_for(lambda: is_in_query(session.process.pid), "the query does not run")
    session.type("\x03")
    assert "interrupted" in session.until(PROMPT)
    assert "44" in session.enter("SELECT 43 + 1;")


def test_history_is_kept(prompt: Open, tmp_path: Path) -> None:
    session = prompt()
    session.enter("SELECT 12345 AS kept;")
    session.type("\\q\n")
    assert session.leave() == 0
    path = tmp_path / "state" / "gsprof" / "query_history"
    assert "12345" in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o077 == 0
    session = prompt()
    session.key("\x1b[A\x1b[A")  # the last command is \q
    session.until("SELECT 12345 AS kept;")
    assert "12345" in session.enter("")


def test_long_tables_are_paged(prompt: Open, tmp_path: Path) -> None:
    page = tmp_path / "page"
    session = prompt(PAGER=f"cat > '{page}'")
    session.enter("FROM range(5);")
    assert not page.exists()
    session.enter("FROM range(500);")
    assert "(500 rows)" in page.read_text(encoding="utf-8")
    # Leaving the pager early returns to the prompt.
    session = prompt(PAGER="true")
    session.enter("FROM range(9999);")
    assert "45" in session.enter("SELECT 44 + 1;")


def test_tables_fit_the_terminal(prompt: Open) -> None:
    session = prompt()
    seen = session.enter("SELECT * FROM python.torch_trace;")
    lines = [line for line in seen.replace("\r", "").split("\n") if "layer" in line]
    assert lines and all(len(line) <= 100 for line in lines)
    assert "not shown" in seen


def test_output_file_needs_a_statement(runtime: Dict[str, str], writer: StartWriter) -> None:
    session = Session(["query", str(writer().pid), "-o", "x.csv"], runtime)
    session.until("needs a statement")
    assert session.leave() == 64
    session.end()


@pytest.fixture(name="daemon")
def _daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, "--freq", "20ms")
    yield daemon
    daemon.end()


def wait_for_worker(pid: int) -> None:
    """Waits until the daemon has a child process for a query."""
    tasks = Path(f"/proc/{pid}/task")
    wait_for(
        lambda: any((t / "children").read_text() for t in tasks.iterdir()), "no worker process"
    )


def test_queries_of_a_server(daemon: Daemon) -> None:
    session = Session(["query", f"127.0.0.1:{daemon.port}"], {**daemon.env, "PAGER": "cat"})
    try:
        session.until(PROMPT)
        assert "42" in session.enter("SELECT 40 + 2 AS answer;")
        assert "first_frame" in session.enter("\\d session.list")
        assert "nosuch" in session.enter("SELECT nosuch FROM session.list;")
        assert "Timing is on" in session.enter("\\timing")
        assert "Time:" in session.enter("SELECT count(*) FROM session.frame;")
        session.key("SELECT count(*) AS n FROM session.fra\t")
        session.until("me ")
        assert "(1 row)" in session.enter(";")
        # Without the interrupt, the query would run longer than the test's timeout.
        session.type("SELECT count(*) FROM range(1000000000) a, range(1000000000) b;\n")
        session.until("b;")
        wait_for_worker(daemon.pid)
        session.type("\x03")
        assert "interrupted" in session.until(PROMPT)
        session.type("\\q\n")
        assert session.leave() == 0
    finally:
        session.end()
