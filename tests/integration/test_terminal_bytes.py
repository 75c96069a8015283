# SPDX-License-Identifier: Apache-2.0
"""No command of gsprof sends a terminal bytes that it would obey, whatever the names of functions,
files, threads, processes, sessions and servers' answers contain."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Dict, Iterator, List, Set, Tuple

import pytest

from conftest import NEEDS_EXTENSION
from http_standin import Standin
from support import GSPROF, PACKAGE, PATIENCE_S, ROOT, Target, gsprof, main_python, program

RUDE = "\x1b]0;title\x07\x1b[38;5;213m\x9b5m\r\b\x7f\u202e\nend"
RUDE_ARG = RUDE.encode("utf-8", "surrogateescape") + b"\x9b\xff"

# What gsprof itself sends: colours, an erased line, and the status line of `gsprof run`.
OWN = re.compile(rb"\x1b\[(?:0|1|2|31|32|33)m|\r\x1b\[K|\x1b7.*?\x1b8|\x1bD|\x1b\[A", re.S)
# What curses and libedit send to an xterm, without colours of 256 and the title.
CURSES = re.compile(
    rb"\x1b\[\??[0-9;]*[A-Za-ln-z]|\x1b\[(?!38)[0-9;]*m|\x1b[()][0AB]|\x1b[=>78DM]|[\r\b]"
)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def check(shown: bytes, own: "re.Pattern[bytes]" = OWN) -> None:
    rest = own.sub(b"", shown)
    text = rest.decode("utf-8")  # invalid UTF-8 would be a raw C1 control
    found = UNSAFE.search(text)
    assert found is None, f"{found!r} in {text[max(0, found.start() - 100) : found.end() + 60]!r}"


class Terminal:
    """Runs gsprof on terminals, and remembers which commands were run."""

    def __init__(self, env: Dict[str, str], cwd: Path) -> None:
        self.env = {**os.environ, "TERM": "xterm", "PAGER": "cat", **env}
        self.cwd = cwd
        self.commands: Set[str] = set()

    def start(self, *args: object) -> Tuple["subprocess.Popen[bytes]", int]:
        words = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
        self.commands.update({words[0].decode(), b" ".join(words[:2]).decode("utf-8", "replace")})
        mine, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        modes = termios.tcgetattr(other)
        modes[1] &= ~termios.OPOST  # newlines stay newlines
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(other, termios.TCSANOW, modes)
        process = subprocess.Popen(
            [str(GSPROF).encode(), *words],
            stdin=other,
            stdout=other,
            stderr=other,
            env=self.env,
            cwd=self.cwd,
            start_new_session=True,
        )
        os.close(other)
        return process, mine

    def read(self, mine: int, until: bytes = b"") -> bytes:
        """Reads up to the given bytes, or to the end."""
        shown = b""
        deadline = time.monotonic() + PATIENCE_S
        while not until or until not in shown:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([mine], [], [], left)[0], shown[-2000:]
            try:
                more = os.read(mine, 1 << 16)
            except OSError:  # EIO: no process has the terminal any more
                break
            if not more:
                break
            shown += more
        return shown

    def run(self, *args: object) -> bytes:
        """Runs a command to its end, checks what it shows, and returns that."""
        process, mine = self.start(*args)
        shown = self.read(mine)
        os.close(mine)
        status = process.wait(PATIENCE_S)
        assert status >= 0, (args, status, shown)
        try:
            check(shown)
        except (AssertionError, UnicodeDecodeError) as error:
            raise AssertionError(f"gsprof {args}: {error}") from None
        return shown


@pytest.fixture(name="terminal")
def make_terminal(runtime: Dict[str, str], tmp_path: Path) -> Terminal:
    return Terminal({**runtime, "PYTHONPATH": str(PACKAGE)}, tmp_path)


@pytest.fixture(name="target")
def make_target(runtime: Dict[str, str], tmp_path: Path) -> Iterator[Target]:
    """A process with a rude command line, working directory, function, file and thread."""
    folder = tmp_path / "rude\x1b[5m\r"
    folder.mkdir()
    script = shutil.copy(program("rude_names.py"), folder)
    target = Target(
        [main_python(), str(script), "600", RUDE],
        env={**runtime, "PYTHONPATH": str(PACKAGE)},
        cwd=folder,
    )
    yield target
    target.end()


def profile_formats(terminal: Terminal, profile: Path) -> None:
    for name in ("gsp", "folded", "json", "speedscope", "chrome", "pprof", "pstats", "svg"):
        terminal.run("convert", "-i", profile, "-o", "-", "-f", name)
    terminal.run("flamegraph", "-i", profile, "-o", "-")
    for form in ("text", "json", "csv", "csv-raw", "md"):
        terminal.run("report", profile, "-f", form)
    for form in ("--json", "--csv", "--markdown", "--tree"):
        terminal.run("report", profile, form, "--threads", "--full-filenames")
    for form in ("text", "json", "md"):
        terminal.run("compare", profile, profile, "-f", form)


def recordings(terminal: Terminal, pid: int, folder: Path) -> None:
    """A rude file name is also the name of the output."""
    path = folder / f"{RUDE}.gsp"
    terminal.run("record", "-p", pid, "-d", "0.3", "-o", path)
    terminal.run("record", "-p", pid, "-d", "0.1", "-o", path)  # it exists
    profile_formats(terminal, path)
    path = folder / f"{RUDE}.gspm"
    terminal.run("mem", "record", "-d", "0.5", "-p", pid, "-o", path)
    for form in ("text", "json", "csv", "csv-raw", "md", "svg", "folded", "pprof"):
        terminal.run("mem", "report", path, "-f", form)


def live(terminal: Terminal, pid: int) -> None:
    assert b"title" in terminal.run("dump", "-p", pid)
    terminal.run("dump", "-p", pid, "--json", "--locals")
    terminal.run("dump", "-p", pid, "--native")
    terminal.run("inject", pid)
    terminal.run("list")
    terminal.run("list", "--json")
    terminal.run("config", pid)
    code = "print('\\x1b]0;title\\x07\\x9b\\r'); '\\x1b[5m\\u202e'"
    assert b"title" in terminal.run("eval", "--yes", pid, code)
    terminal.run("eval", "--yes", pid, "raise ValueError('\\x1b]0;t\\x07\\x9b\\r')")
    for form in ("table", "json", "csv", "csv-raw"):
        assert b"title" in terminal.run("query", pid, "FROM python.backtrace", "-f", form)
    terminal.run("query", pid, f"SELECT '{RUDE}' AS \"{RUDE}\" FROM {RUDE}")
    assert b"title" in terminal.run("backtrace", pid)
    terminal.run("backtrace", pid, "--json")
    terminal.run("tables", pid)
    assert b"title" in terminal.run("report", pid)
    terminal.run("eject", pid)
    assert b"title" in terminal.run("top", "-p", pid, "--once", "--delay", "0.2")
    terminal.run("top", "-p", pid, "--json", "-n", "1", "--delay", "0.2")


def screens(terminal: Terminal, pid: int) -> None:
    """Interactive views: the live table and the prompt."""
    process, mine = terminal.start("top", "-p", pid)
    shown = terminal.read(mine, b"title")
    os.write(mine, b"q")
    shown += terminal.read(mine)
    os.close(mine)
    assert process.wait(PATIENCE_S) == 0
    check(shown, CURSES)
    process, mine = terminal.start("query", pid, "-f", "csv")
    shown = terminal.read(mine, b"> ")
    os.write(mine, b"SELECT function, thread_name FROM python.backtrace;\n\\q\n")
    shown += terminal.read(mine)
    os.close(mine)
    assert process.wait(PATIENCE_S) == 0
    check(shown, CURSES)


def errors(terminal: Terminal) -> None:
    """Every command with arguments that do not exist, or mean nothing to it."""
    for command in every_command():
        words = command.split()
        for more in ([RUDE_ARG], [RUDE_ARG, RUDE_ARG], [b"--" + RUDE_ARG]):
            terminal.run(*words, *more)


def every_command() -> List[str]:
    pages = sorted(path.stem for path in (ROOT / "docs" / "cli").glob("gsprof-*.md"))
    names = [page[len("gsprof-") :] for page in pages]
    return [name.replace("mem-", "mem ") for name in names]


@NEEDS_EXTENSION
def test_live_commands(terminal: Terminal, target: Target) -> None:
    live(terminal, target.pid)
    screens(terminal, target.pid)


@NEEDS_EXTENSION
def test_recordings(terminal: Terminal, target: Target, tmp_path: Path) -> None:
    recordings(terminal, target.pid, tmp_path)


@NEEDS_EXTENSION
def test_runs(terminal: Terminal, tmp_path: Path) -> None:
    """The program's own output is its own affair; it writes only one line."""
    words = [main_python(), program("rude_names.py"), "0.3", RUDE]
    assert b"title" in terminal.run("run", "--name", "rude", "--", *words)
    run = tmp_path / "gsprof-runs" / "rude"
    assert b"title" in terminal.run("report", run)
    assert b"title" in terminal.run("report", run, "-f", "md")
    assert b"title" in terminal.run("query", run, "FROM python.span", "-f", "csv")


def test_answers_of_a_server(terminal: Terminal, tmp_path: Path) -> None:
    server = Standin()
    try:
        session = {"name": RUDE, "is_active": True, "output_file": RUDE, "labels": {RUDE: RUDE}}
        server.sessions.append({**session, "start_time": RUDE, "frame_count": 1})
        server.config = {RUDE: RUDE}
        columns = [{"name": RUDE, "type": "VARCHAR"}]
        made = {"columns": columns, "rows": [{RUDE: RUDE}], "warnings": [RUDE]}
        raw = json.dumps([RUDE], ensure_ascii=False).encode()
        for reply in ((200, json.dumps(made).encode()), (200, RUDE.encode() + raw), (400, raw)):
            server.replies["/query"] = reply
            for form in ("table", "json", "csv"):
                terminal.run("query", server.address, "SELECT 1", "-f", form)
        server.replies["/query"] = server.fail(400, RUDE, RUDE)
        for words in (["query", server.address, "SELECT 1"], ["config", server.address]):
            terminal.run(*words)
        for command in ("http-status", "http-sessions", "http-profile", "http-stop"):
            terminal.run(command, server.address)
            terminal.run(command, server.address, "--json")
        terminal.run("http-stop", server.address, "--name", RUDE)
        for status in (200, 400):
            for path in ("/status", "/profiling/sessions", "/profiling/start", "/profiling/stop"):
                server.replies[path] = (status, RUDE_ARG)
            for command in ("http-status", "http-sessions", "http-profile", "http-stop"):
                terminal.run(command, server.address)
                terminal.run(command, server.address, "--json")
    finally:
        server.close()
    frame = {"ts_ns": 1, "metrics": {RUDE: 1.0}}
    file = tmp_path / f"{RUDE}.json"
    file.write_text(json.dumps({"name": RUDE, "frames": [frame], "summary": []}))
    terminal.run("stat", file)
    terminal.run("stat", file, "--json")


def test_errors(terminal: Terminal) -> None:
    errors(terminal)
    missing = set(every_command()) - terminal.commands
    assert not missing, f"commands without a case: {missing}"


def test_json_escapes_in_files_too(runtime: Dict[str, str], tmp_path: Path) -> None:
    """JSON never contains the bytes; CSV in a file or pipe has the text as it is."""
    sql = "SELECT chr(155) || chr(127) || chr(8238) || chr(27) || 'x' AS a"
    made = gsprof("query", os.getpid(), sql, "-f", "json", env=runtime).out
    assert r'"\u009b\u007f\u202e\u001bx"' in made
    assert json.loads(made) == [{"a": "\x9b\x7f\u202e\x1bx"}]
    path = tmp_path / "x.csv"
    gsprof("query", os.getpid(), sql, "-o", path, env=runtime)
    assert path.read_text(encoding="utf-8") == "a\n\x9b\x7f\u202e\x1bx\n"


def test_a_daemon_on_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "out\x1b[5m\x9b"
    process, mine = terminal.start("serve", "--port", "0", "--output", folder)
    shown = terminal.read(mine, b"http://")
    process.send_signal(signal.SIGTERM)
    shown += terminal.read(mine)
    os.close(mine)
    process.wait(PATIENCE_S)
    check(shown)
