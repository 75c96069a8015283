# SPDX-License-Identifier: Apache-2.0
"""The client commands against gsprof serve, and the documented workflow of a Python program that
uses only the requests library."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Iterator, List, Tuple

import pytest

from serving import Daemon
from support import (
    EXIT_NOFILE,
    EXIT_NOPROC,
    EXIT_NOWRITE,
    EXIT_PERM,
    EXIT_USAGE,
    GSPROF,
    PACKAGE,
    PATIENCE_S,
    gsprof,
    program,
)

# Runs an unchanged program, but with the port of the test, and with sleeps that last until three
# more frames exist.
LAUNCHER = """
import runpy, sys, time, requests
port, path = sys.argv[1:]
send = requests.Session.send
real_sleep = time.sleep

def send_to_test(self, request, **options):
    request.url = request.url.replace(":8091/", f":{port}/")
    answer = send(self, request, **options)
    answer.raise_for_status()
    return answer

def frames():
    return requests.get("http://localhost:8091/status").json()["frame_id_counter"]

def sleep(seconds):
    first = frames()
    while frames() < first + 3:
        real_sleep(0.01)

requests.Session.send = send_to_test
time.sleep = sleep
runpy.run_path(path, run_name="__main__")
"""


@pytest.fixture(name="daemon")
def _daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.delenv("GSPROF_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    # The commands find the daemon's Unix socket there.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    daemon = Daemon(tmp_path, "--freq", "20ms")
    yield daemon
    daemon.end()


def test_sessions_from_the_command_line(daemon: Daemon) -> None:
    at = f"127.0.0.1:{daemon.port}"
    gsprof("http-profile", at, "--name", "full_training", "--label", "lr=3e-4")
    gsprof("http-profile", at, "--name", "epoch_5")
    assert (
        "is already active"
        in gsprof("http-profile", at, "--name", "epoch_5", status=EXIT_NOWRITE).err
    )
    daemon.frames(3)
    listed = json.loads(gsprof("http-sessions", at, "--json").out)
    assert (listed["total_sessions"], listed["active_sessions"]) == (2, 2)
    status = gsprof("http-status", at).out
    assert "epoch_5" in status and "frame_id_counter" in status and "source.cpu" in status
    gsprof("http-stop", at, "--name", "epoch_5")
    unknown = gsprof("http-stop", at, "--name", "epoch_5", status=EXIT_NOFILE)
    assert "full_training" in unknown.err
    ended = gsprof("http-stop", at).out
    assert str(daemon.output / "full_training.json") in ended  # can be passed to stat
    made = json.loads(gsprof("stat", daemon.output / "full_training.json", "--json").out)
    assert made["metadata"]["labels"] == {"lr": "3e-4"} and made["frames"] >= 3
    assert any(row["metric"] == "system.memory.used_bytes" for row in made["summary"])


@pytest.mark.parametrize("end", ["svg", "png", "html"])
def test_plots_a_session(daemon: Daemon, tmp_path: Path, end: str) -> None:
    at = f"127.0.0.1:{daemon.port}"
    gsprof("http-profile", at, "--name", "s")
    daemon.frames(20)
    gsprof("http-stop", at)
    picture = tmp_path / f"s.{end}"
    gsprof("stat", daemon.output / "s.json", "--plot", picture)
    assert picture.stat().st_size > 5000


def test_config(daemon: Daemon) -> None:
    at = f"127.0.0.1:{daemon.port}"
    assert "gsprof.sample_rate" in gsprof("config", at).out
    changed = gsprof("config", at, "gsprof.sample_rate=0.1").out
    assert "0.1" in changed and "gsprof.port" not in changed
    assert daemon.get("/status")["freq"] == 100
    gsprof(at, "config", "sample_rate=50ms")
    assert daemon.get("/status")["freq"] == 50
    shown = gsprof("config", at, "sample_rate").out
    assert "gsprof.sample_rate" in shown and "gsprof.port" not in shown
    refused = gsprof("config", at, "gsprof.nosuch=1", status=None)
    assert refused.status and "nosuch" in refused.err and f"gsprof config {at}" in refused.err


def on_terminal(columns: int, *args: object) -> str:
    """The output on a terminal with the given number of columns."""
    mine, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 500, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    argv = [str(GSPROF), *(str(arg) for arg in args)]
    with subprocess.Popen(argv, stdin=other, stdout=other, stderr=other, env=env) as process:
        os.close(other)
        seen = b""
        while True:
            try:
                chunk = os.read(mine, 65536)
            except OSError:  # the last process has closed it
                break
            seen += chunk
        assert process.wait(PATIENCE_S) == 0, seen
    os.close(mine)
    text = seen.decode().replace("\r\n", "\n")
    assert max(len(line) for line in text.splitlines()) <= columns, text
    return text


def test_tables_fit_eighty_columns(daemon: Daemon) -> None:
    at = f"127.0.0.1:{daemon.port}"
    for name in ("memory_intensive_phase", "optimization_step"):
        daemon.post("/profiling/start", {"name": name})
    daemon.frames(2)
    daemon.post("/profiling/stop", {"name": "optimization_step"})
    listed = on_terminal(80, "http-sessions", at)
    for row in daemon.get("/profiling/sessions")["sessions"]:
        when = row["start_time"][:19].replace("T", " ")
        (line,) = (line for line in listed.splitlines() if line.startswith(row["name"]))
        assert when in line and ("done" in line) != row["is_active"]
    assert "NULL" not in listed and "labels" not in listed
    settings = on_terminal(80, "config", at)
    daemon.owner = True
    assert all(f"{name} " in settings for name in daemon.get("/config")["config"])
    made = on_terminal(80, "stat", daemon.output / "optimization_step.json")
    assert "system.memory.used_bytes " in made and "nothing lost" in made
    assert "mean" in made and "columns not shown:" in made


def test_missing_processes(daemon: Daemon, tmp_path: Path) -> None:
    at = f"127.0.0.1:{daemon.port}"
    gone = subprocess.Popen(["true"])
    gone.wait()
    begun = gsprof("http-profile", at, "--name", "x", "--pid", gone.pid)
    assert f"process {gone.pid} does not exist" in begun.err
    words: List[object] = ["--name", "y", "--stacks", "--pid", gone.pid]
    assert "gsprof list" in gsprof("http-profile", at, *words, status=EXIT_NOPROC).err
    # Without the daemon's socket the command is a stranger.
    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "other")}
    refused = gsprof("http-profile", at, *words, status=EXIT_PERM, env=elsewhere).err
    assert "gsprof http-login" in refused
    assert "at most 200 bytes" in gsprof("http-profile", at, "--name", "a/b", status=None).err


def test_query(daemon: Daemon, tmp_path: Path) -> None:
    at = f"127.0.0.1:{daemon.port}"
    daemon.frames(3)
    count = "SELECT count(*) AS n, max(ts_ns) AS newest FROM system.memory"
    table = gsprof("query", at, count).out
    assert "newest" in table and "(1 row)" in table
    rows = json.loads(gsprof(at, "query", count, "-f", "json").out)
    assert rows[0]["n"] >= 3
    gsprof("query", f"http://{at}", count, "-o", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text(encoding="utf-8").startswith("n,newest\n")
    exact = gsprof("query", at, "SELECT 9223372036854775807 AS big, [1, 2] AS l, NULL AS e").out
    assert "9223372036854775807" in exact and "[1,2]" in exact and "NULL" in exact
    wrong = gsprof("query", at, "SELECT nosuch FROM system.memory", status=EXIT_USAGE)
    assert "nosuch" in wrong.err and "column 8" in wrong.err
    gsprof("query", at, "DROP TABLE system.memory", status=None).err.index("gsprof:")
    gsprof("query", at, count, "-o", tmp_path / "x.parquet", status=EXIT_USAGE)
    gsprof("query", at, count, "-o", tmp_path / "x.csv", status=EXIT_NOWRITE)


def test_readable_token_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("aVeryLongTokenForThisTest\n", encoding="ascii")
    for mode, is_warned in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        words = ["serve", "--bind", "nowhere", "--token-file", file, "--state-dir", tmp_path / "s"]
        message = gsprof(*words, status=EXIT_USAGE).err
        assert (f"all users can read the token file {file}" in message) == is_warned, message


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GSPROF_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / "token"
    file.write_text("aVeryLongTokenForThisTest\n", encoding="ascii")
    file.chmod(0o600)
    daemon = Daemon(tmp_path, "--token-file", file, token="aVeryLongTokenForThisTest")
    try:
        at = f"127.0.0.1:{daemon.port}"
        assert "token" in gsprof("http-status", at, status=EXIT_PERM).err
        gsprof("http-status", at, "--token", "wrong", status=EXIT_PERM)
        gsprof("query", at, "SELECT 1", "--token", "wrong", status=EXIT_PERM)
        gsprof("http-status", at, "--token-file", file)
        gsprof("query", at, "SELECT 1", env={"GSPROF_TOKEN": "aVeryLongTokenForThisTest"})
    finally:
        daemon.end()


LISTENER = """
import os, socket, sys
user, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setgroups([]); os.setgid(user); os.setuid(user)
server = socket.create_server(
    (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
)
print(server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    print(client.recv(65536), flush=True)
    client.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\n{}")
    client.close()
"""


@contextmanager
def listener(user: int, host: str = "127.0.0.1", port: int = 0) -> Iterator[Tuple[int, IO[bytes]]]:
    """Yields the port of a server, and its lines: what each client has sent."""
    argv = [sys.executable, "-c", LISTENER, str(user), host, str(port)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd="/") as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline()), server.stdout
        finally:
            server.kill()


@pytest.fixture(name="secret")
def fixture_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token of the configuration."""
    monkeypatch.delenv("GSPROF_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    (tmp_path / "gsprof").mkdir()
    secret = tmp_path / "gsprof" / "token"
    secret.write_text("myOwnSecret\n", encoding="ascii")
    return secret


def ask_from_python(endpoint: str) -> "subprocess.CompletedProcess[bytes]":
    asks = "import gsprof, sys; gsprof.Session('x', sys.argv[1]).list()"
    argv = [sys.executable, "-c", asks, endpoint]
    return subprocess.run(argv, stderr=subprocess.PIPE, check=False)


@pytest.mark.needs_root
def test_the_configured_token_is_not_sent_to_another_user(secret: Path) -> None:
    with listener(1501) as (port, received):
        for host in ("localhost", "127.0.0.1"):
            refused = gsprof("http-status", f"{host}:{port}", status=EXIT_PERM).err
            assert f"port {port} belongs to user 1501" in refused, refused
            assert "why" in refused and "--token-file FILE" in refused
            done = ask_from_python(f"{host}:{port}")
            assert done.returncode and b"belongs to user 1501" in done.stderr
        # A token that the user gives to the command is sent.
        gsprof("http-status", str(port), "--token-file", secret, status=None)
        assert b"myOwnSecret" in received.readline()


@pytest.mark.needs_root
@pytest.mark.usefixtures("secret")
@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="needs IPv6")
def test_another_user_on_the_other_loopback_address() -> None:
    """He cannot get what is sent to this one."""
    with listener(0) as (port, received), listener(1501, "::1", port):
        done = gsprof("http-status", f"127.0.0.1:{port}", status=None)
        assert "belongs" not in done.err
        assert b"myOwnSecret" in received.readline()
        assert b"belongs" not in ask_from_python(f"127.0.0.1:{port}").stderr
        assert b"myOwnSecret" in received.readline()
        for host in ("localhost", "[::1]"):  # localhost may be both
            refused = gsprof("http-status", f"{host}:{port}", status=EXIT_PERM).err
            assert f"port {port} belongs to user 1501" in refused, refused
            assert b"belongs to user 1501" in ask_from_python(f"{host}:{port}").stderr


def test_the_documented_workflow(daemon: Daemon) -> None:
    pytest.importorskip("requests", reason="needs python3-requests")
    argv = ["/usr/bin/python3", "-c", LAUNCHER, str(daemon.port), program("session_workflow.py")]
    subprocess.run(argv, check=True, timeout=PATIENCE_S)
    frames = {}
    for name in ("main_workflow", "data_loading_phase", "training_phase"):
        made = json.loads((daemon.output / f"{name}.json").read_text(encoding="utf-8"))
        assert made["metadata"]["name"] == name
        frames[name] = len(made["frames"])
        assert frames[name] >= 3
    assert frames["main_workflow"] >= frames["data_loading_phase"] + frames["training_phase"]
    assert sorted(path.name for path in daemon.output.iterdir()) == sorted(
        f"{name}.json" for name in frames
    )
    assert not daemon.get("/status")["is_profiling"]
