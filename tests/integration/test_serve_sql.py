# SPDX-License-Identifier: Apache-2.0
"""Sessions and metric frames in SQL over HTTP: parameters, formats, the command line, a Unix
socket."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import pytest

from conftest import NEEDS_EXTENSION
from serving import Daemon
from support import EXIT_NOWRITE, EXIT_USAGE, PACKAGE, PATIENCE_S, gsprof, main_python


@pytest.fixture(name="daemon")
def _daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.delenv("GSPROF_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    # With --socket, the usual path is a link.
    daemon = Daemon(tmp_path, "--freq", "20ms", "--socket", tmp_path / "s")
    yield daemon
    daemon.end()


def rows(daemon: Daemon, sql: str, params: object = None) -> List[Any]:
    answer = daemon.post("/query", {"sql": sql, "params": params})
    assert isinstance(answer, list)
    return answer


def test_frames_are_rows(daemon: Daemon) -> None:
    daemon.post("/profiling/start", {"name": "outer", "labels": {"lr": "3e-4", "n": [1, 2]}})
    daemon.frames(3)
    daemon.post("/profiling/start", {"name": "inner"})
    daemon.frames(3)
    daemon.post("/profiling/stop", {"name": "inner"})
    daemon.frames(2)
    # A frame that is in the log when the query starts is in its result.
    newest = daemon.get("/status")["frame_id_counter"]
    count = "count(DISTINCT frame_id) AS n, min(frame_id) AS low, max(frame_id) AS high"
    whole = rows(daemon, f"SELECT {count} FROM session.frame")[0]
    assert whole["low"] == 1 and whole["n"] == whole["high"] >= newest
    inner = rows(daemon, f"SELECT {count} FROM gsprof.session_frames('inner')")[0]
    both = rows(
        daemon, f"SELECT {count} FROM session.frame WHERE sessions = ?", ['["inner","outer"]']
    )
    assert both == [inner]
    # The same numbers as in the session's file.
    made = json.loads((daemon.output / "inner.json").read_text(encoding="utf-8"))
    assert inner["n"] == len(made["frames"])
    found = rows(
        daemon,
        "SELECT avg(value) AS mean, max(value) AS high FROM gsprof.session_frames(?)"
        " WHERE metric = ? AND device IS NULL",
        ["inner", "system.memory.used_bytes"],
    )[0]
    summary = {row["metric"]: row for row in made["summary"] if row["device"] is None}
    memory = summary["system.memory.used_bytes"]
    assert found["mean"] == pytest.approx(memory["mean"]) and found["high"] == memory["max"]
    # Also after a restart, because the query reads the frame log.
    assert daemon.stop() == 0
    daemon.start()
    again = rows(daemon, f"SELECT {count} FROM gsprof.session_frames('inner')")[0]
    assert again == inner
    table = gsprof("query", f"127.0.0.1:{daemon.port}", "SELECT max(frame_id) FROM session.frame")
    assert "(1 row)" in table.out


def test_object_format_has_columns_and_warnings(daemon: Daemon) -> None:
    sql = "SELECT name::VARCHAR AS name, ts_ns FROM session.list WHERE name = 'none'"
    answer = daemon.post("/query", {"sql": sql, "format": "object"})
    assert answer == {
        "columns": [{"name": "name", "type": "VARCHAR"}, {"name": "ts_ns", "type": "BIGINT"}],
        "rows": [],
        "warnings": [],
    }
    where = f"127.0.0.1:{daemon.port}"
    assert gsprof("query", where, sql).out.split()[:2] == ["name", "ts_ns"]
    assert gsprof("query", where, sql, "-f", "csv").out == "name,ts_ns\n"
    cut = daemon.post("/query", {"sql": "FROM range(10)", "format": "object", "limit": 2})
    assert len(cut["rows"]) == 2 and "limit" in cut["warnings"][0]
    # A request has one statement; the command sends several requests.
    status, error = daemon.ask("POST", "/query", {"sql": "SELECT 1; SELECT 2"})
    assert status == 403 and "one statement" in error["error"]["message"]
    both = gsprof("query", where, "-- two\nSELECT 41 AS a; SELECT 42 AS b", "-f", "csv").out
    assert both == "a\n41\n\nb\n42\n"
    assert "session.list" in gsprof("query", where, "SHOW TABLES").out


def test_csv_text_is_not_a_formula(daemon: Daemon) -> None:
    sql = "SELECT -1 AS n, '=1+1' AS \"@t\""
    for form, made in (("csv", b'n,"\'@t"\n-1,"\'=1+1"\n'), ("csv-raw", b"n,@t\n-1,=1+1\n")):
        body = json.dumps({"sql": sql, "format": form}).encode()
        assert daemon.raw("POST", "/query", body)[2] == made
        assert gsprof("query", f"127.0.0.1:{daemon.port}", sql, "-f", form).out == made.decode()


def test_sessions_have_labels_and_rate(daemon: Daemon) -> None:
    labels = {"lr": "3e-4", "n": [1, {"deep": None}], "ä": "ö"}
    started = daemon.post("/profiling/start", {"name": "a", "labels": labels})
    daemon.post("/profiling/start", {"name": "plain"})
    assert started["session"]["labels"] == labels and started["session"]["freq_ms"] == 20
    for answer in (
        daemon.get("/profiling/sessions")["sessions"],
        daemon.get("/status")["active_sessions"],
        [daemon.get("/profiling/sessions/plain"), daemon.get("/profiling/sessions/a")],
    ):
        assert [(s["name"], s["labels"], s["freq_ms"]) for s in answer] == [
            ("plain", {}, 20),
            ("a", labels, 20),
        ]
    daemon.owner = True
    assert daemon.ask("PUT", "/config", {"sample_rate": 0.05})[0] == 200
    daemon.until("/profiling/sessions/plain", lambda session: bool(session["freq_ms"] == 50))
    daemon.frames(2)
    assert daemon.post("/profiling/stop", {"name": "a"})["stopped"][0]["labels"] == labels
    assert daemon.ask("PUT", "/config", {"sample_rate": 0.02})[0] == 200
    daemon.until("/profiling/sessions/plain", lambda session: bool(session["freq_ms"] == 20))
    sql = "SELECT name, freq_ms, labels, status FROM session.list ORDER BY name"
    first, second = rows(daemon, sql)
    assert json.loads(first["labels"]) == labels and second["labels"] is None
    assert (first["freq_ms"], second["freq_ms"]) == (50, 20)
    # The next daemon returns the values at the end of the session.
    daemon.stop()
    daemon.start()
    assert rows(daemon, sql)[0] == first
    ended = daemon.post("/profiling/stop", {})["stopped"]
    assert [s["name"] for s in ended] == ["plain"]


def test_parameters(daemon: Daemon) -> None:
    evil = "x'); DROP TABLE session.list; --"
    assert rows(daemon, "SELECT ? AS a, ? AS b, ? AS c, ? AS d", [evil, 2**62, None, True]) == [
        {"a": evil, "b": 2**62, "c": None, "d": True}
    ]
    assert rows(daemon, "SELECT $b || $a AS x", {"a": "1", "b": "2"}) == [{"x": "21"}]
    assert rows(daemon, "SELECT $2 - $1 AS x", [1, 3.5]) == [{"x": 2.5}]
    assert rows(daemon, "SELECT 1 AS x", []) == [{"x": 1}]
    wrong: List[Tuple[str, object, str]] = [
        ("SELECT ?, ?", [1], "$2"),
        ("SELECT ?", None, "$1"),
        ("SELECT ?", [1, 2], "has 1 parameter, not 2"),
        ("SELECT $a", {"a": 1, "b": 2}, "$b"),
        ("SELECT $a", {}, "$a"),
        ("SELECT $a", [1], "$a"),
        ("SELECT ?", [[1]], "value 1 of params"),
        ("SELECT $a", {"a": {}}, "a of params"),
        ("SELECT ?", [2**64 - 1], "value 1 of params"),
        ("SELECT ?", 7, "params must be"),
        ("SELECT ?", "x", "params must be"),
        ("SELECT ?::INTEGER + 1", ["x"], "'x'"),
        ("SELECT 1", [0] * 2000, "params has more than"),
    ]
    for sql, params, word in wrong:
        status, answer = daemon.ask("POST", "/query", {"sql": sql, "params": params})
        assert (status, word in answer["error"]["message"]) == (400, True), (sql, params, answer)


def test_tables_and_values_from_the_command_line(daemon: Daemon) -> None:
    at = f"127.0.0.1:{daemon.port}"
    daemon.frames(3)
    listed = {row["table"]: row["rows"] for row in json.loads(gsprof("tables", at, "--json").out)}
    assert listed["session.frame"] > 0 and listed["system.cpu"] > 0
    assert listed["session.list"] == 0
    assert "python.backtrace" in listed  # may have rows of other processes
    columns = gsprof("tables", at, "--columns").out
    assert "first_frame" in columns and "names of the sessions" in columns
    for endpoint in (at, str(os.getpid())):
        found = gsprof(
            *("query", endpoint, "SELECT ? AS a, ? AS b, ? AS c", "-f", "json"),
            *("--param", "5", "--param", "=x=y", "--param", "1e3"),
        )
        assert json.loads(found.out) == [{"a": 5, "b": "x=y", "c": 1000}]
        found = gsprof("query", endpoint, "SELECT $a AS a", "--param", "a=b=c", "-f", "json")
        assert json.loads(found.out) == [{"a": "b=c"}]
        assert "$2" in gsprof("query", endpoint, "SELECT ?, ?", "--param", "1", status=None).err
    gsprof("query", at, "SELECT 1", "--param", "a=1", "--param", "2", status=EXIT_USAGE)
    assert "no server is listening" in gsprof("tables", "127.0.0.1:1", status=None).err


COUNTING_PROGRAM = """
import time

def hold():
    kept = [bytes(1000) for _ in range(10000)]
    print("ready", flush=True)
    time.sleep(600)

hold()
"""


@NEEDS_EXTENSION
def test_tables_of_a_process(daemon: Daemon, tmp_path: Path) -> None:
    """Allocations and current stacks; the stacks only for a trusted client."""
    path = os.pathsep.join([str(PACKAGE), str(PACKAGE / "start")])
    env = {
        **os.environ,
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        "PYTHONPATH": path,
        "GSPROF_MEMORY": "sampled",
    }
    command = [main_python(), "-c", COUNTING_PROGRAM]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            pid = process.pid
            live = f"WHERE kind = 'live' AND pid = {pid}"
            counted = f"SELECT sum(bytes)::BIGINT AS n FROM python.allocation {live}"
            sql = f"SELECT func FROM python.backtrace WHERE pid = {pid} ORDER BY depth"
            for private in (counted, sql):
                status, answer = daemon.ask("POST", "/query", {"sql": private})
                assert status == 403 and answer["error"]["code"] == "TRUST", answer
                assert "gsprof http-login" in answer["error"]["hint"]
            daemon.owner = True
            assert rows(daemon, counted)[0]["n"] > 5_000_000
            assert [row["func"] for row in rows(daemon, sql)] == ["hold", "<module>"]
            local = gsprof("query", f"unix:{tmp_path / 's'}", sql, "-f", "json")
            assert [row["func"] for row in json.loads(local.out)] == ["hold", "<module>"]
        finally:
            process.kill()


def test_unix_socket(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "s"
    at = f"unix:{path}"
    assert stat.S_ISSOCK(path.stat().st_mode) and path.stat().st_mode & 0o777 == 0o600
    gsprof("http-profile", at, "--name", "x")
    assert "x" in gsprof("http-sessions", at).out
    assert "frame_id_counter" in gsprof("http-status", at).out
    assert "sample_rate" in gsprof("config", at).out
    assert json.loads(gsprof("query", at, "SELECT name FROM session.list", "-f", "json").out) == [
        {"name": "x"}
    ]
    assert json.loads(gsprof(at, "query", "SELECT 1 AS n", "-f", "json").out) == [{"n": 1}]
    gsprof("http-stop", at, "--name", "x")
    # A socket in use is rejected; one left by a killed daemon is replaced.
    rejected = gsprof(
        "serve",
        "--port",
        "0",
        "--socket",
        path,
        status=EXIT_NOWRITE,
        env={"XDG_STATE_HOME": str(tmp_path / "other")},
    )
    assert "in use" in rejected.err
    daemon.end()
    assert path.exists()
    daemon.start()
    gsprof("http-status", at)
    assert daemon.stop() == 0 and not path.exists()
    assert "serve --socket" in gsprof("http-status", at, status=None).err
    long = tmp_path / ("x" * 120)
    gsprof(
        "serve",
        "--port",
        "0",
        "--socket",
        long,
        status=EXIT_USAGE,
        env={"XDG_STATE_HOME": str(tmp_path / "o")},
    )


# Sends a request as another user, whom the mode of the folder allows.
OTHER_USER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"GET /status HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
print(s.recv(100).split()[1].decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_is_rejected(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "s"
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode | 0o001)
    command = [sys.executable, "-c", OTHER_USER, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "PermissionError" in done.stderr
    # The mode alone does not grant access.
    path.chmod(0o666)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout.strip() == "403", done
    assert daemon.get("/health")["status"] == "ok"
