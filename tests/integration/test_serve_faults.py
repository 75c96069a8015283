# SPDX-License-Identifier: Apache-2.0
"""gsprof serve with invalid requests and misbehaving clients."""

from __future__ import annotations

import json
import random
import socket
import threading
from pathlib import Path
from typing import Any, List

from conftest import Serve, StartTarget
from serving import Daemon, check_error, names_of
from support import PATIENCE_S


def check_rejected(daemon: Daemon, method: str, path: str, body: bytes, *expected: int) -> Any:
    status, _, text = daemon.raw(method, path, body)
    answer = json.loads(text)
    assert status in expected, (status, answer)
    check_error(answer)
    return answer


# ---------------------------------------------------------------------- requests


def test_invalid_bodies(serve: Serve) -> None:
    daemon = serve()
    for body in (b"{", b"[]", b'"x"', b"nul", b"{}{}", b'{"name": "\xff"}', b"{'name': 1}", b"\0"):
        check_rejected(daemon, "POST", "/profiling/start", body, 400)
    for value in (5, True, ["x"], {"x": 1}, 1.5):
        check_rejected(
            daemon, "POST", "/profiling/start", json.dumps({"name": value}).encode(), 400
        )
    for wrong in (
        {"labels": []},
        {"labels": "x"},
        {"pids": 5},
        {"pids": ["x"]},
        {"pids": [0]},
        {"pids": [2**40]},
        {"stacks": "yes"},
        {"force": 1},
        {"rate": "fast"},
        {"rate": -1},
        {"stacks": True},
    ):
        check_rejected(daemon, "POST", "/profiling/start", json.dumps(wrong).encode(), 400)
    check_rejected(daemon, "POST", "/profiling/start", b'{"a":' * 100000, 413)
    check_rejected(
        daemon, "POST", "/profiling/start", b'{"labels":' + b"[" * 30 + b"]" * 30 + b"}", 413
    )
    check_rejected(
        daemon, "POST", "/profiling/start", b'{"name": "' + b"x" * (2 << 20) + b'"}', 413
    )
    check_rejected(daemon, "POST", "/query", b"{}", 400)
    check_rejected(daemon, "POST", "/query", b'{"sql": 5}', 400)
    check_rejected(daemon, "POST", "/query", b'{"sql": "SELECT $1", "params": [[1]]}', 400)
    check_rejected(daemon, "POST", "/query", b'{"sql": "SELECT 1", "format": "xml"}', 400)
    assert daemon.get("/profiling/sessions")["total_sessions"] == 0


def test_names_that_could_leave_the_folder(serve: Serve) -> None:
    daemon = serve()
    for name in (
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc/passwd",
        ".hidden",
        "a\0b",
        "a\nb",
        "x" * 10240,
    ):
        check_rejected(daemon, "POST", "/profiling/start", json.dumps({"name": name}).encode(), 400)
    for path in ("..%2f..%2fetc", "%2e%2e", "a%00b", "a%0ab", "x" * 5000):
        for rest in ("", "/download"):
            status, _, text = daemon.raw("GET", f"/profiling/sessions/{path}{rest}")
            assert status in (400, 404, 414), (path, status)
    assert sorted(daemon.output.iterdir()) == []
    for name in ("\N{ROCKET} \N{SNOWMAN}", "a'b\"c", "CON", "-rf", "%2e%2e", "x" * 200):
        daemon.post("/profiling/start", {"name": name})
        assert daemon.post("/profiling/stop", {"name": name})["output_file"] == f"{name}.json"
        assert (daemon.output / f"{name}.json").is_file()


def test_unknown_paths_and_methods(serve: Serve) -> None:
    daemon = serve()
    for path in ("/nothing", "/profiling", "/profiling/sessions/", "/status/", "//", "/targets/1"):
        status, _, text = daemon.raw("GET", path)
        assert status == 404, path
        check_error(json.loads(text))
    for method, path, allow in (
        ("POST", "/status", "GET, HEAD"),
        ("GET", "/profiling/start", "POST"),
        ("PATCH", "/config", "GET, HEAD, PUT"),
        ("PUT", "/profiling/sessions/x", "GET, HEAD, DELETE"),
        ("BREW", "/", "GET, HEAD"),
    ):
        status, headers, text = daemon.raw(method, path)
        assert (status, headers["Allow"]) == (405, allow), (method, path)
        check_error(json.loads(text))
    status, headers, text = daemon.raw("HEAD", "/status")
    assert status == 200 and text == b"" and int(headers["Content-Length"]) > 100


def test_errors_for_unknown_names_list_known_names(serve: Serve) -> None:
    daemon = serve()
    daemon.post("/profiling/start", {"name": "one"})
    daemon.post("/profiling/start", {"name": "two"})
    status, answer = daemon.ask("POST", "/profiling/stop", {"name": "three"})
    assert status == 404
    assert sorted(answer["error"]["active_sessions"]) == ["one", "two"]
    assert "one" in answer["error"]["hint"]


def test_simultaneous_starts_of_one_name(serve: Serve) -> None:
    daemon = serve()
    for turn in range(5):
        statuses: List[int] = []
        gate = threading.Barrier(8)

        def start(name: str) -> None:
            gate.wait()
            statuses.append(daemon.ask("POST", "/profiling/start", {"name": name})[0])

        threads = [threading.Thread(target=start, args=(f"same{turn}",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200] + [409] * 7


# -------------------------------------------------------------------------- access


def test_token(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open-sesame\n")
    daemon = serve("--token-file", tmp_path / "token", "--bind", "0.0.0.0", token="open-sesame")
    assert daemon.get("/status")["pid"] == daemon.pid
    assert daemon.raw("GET", "/status", headers={"Authorization": "Bearer other"})[0] == 401
    assert daemon.raw("GET", "/status?token=open-sesame", headers={"Authorization": ""})[0] == 401
    for path, expected in (
        ("/health", 200),
        ("/ready", (200, 503)),
        ("/metrics", 401),
        ("/x", 401),
    ):
        status, headers, _ = daemon.raw("GET", path, headers={"Authorization": ""})
        assert status == expected or status in (expected if isinstance(expected, tuple) else ())
        assert status != 401 or headers["WWW-Authenticate"] == "Bearer"
    check_rejected(daemon, "POST", "/targets/1/attach", b"", 403)


def test_requests_from_other_sites_are_rejected(serve: Serve) -> None:
    daemon = serve()
    for headers in (
        {"Host": "evil.example"},
        {"Host": f"evil.example:{daemon.port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ):
        status, _, text = daemon.raw("POST", "/profiling/start", b"{}", headers)
        assert status == 403, headers
        check_error(json.loads(text))
    assert daemon.get("/profiling/sessions")["total_sessions"] == 0


def test_attach_dump_detach(serve: Serve, start: StartTarget) -> None:
    target = start("deep.py", 12)
    daemon = serve(owner=True)
    path = f"/targets/{target.pid}"
    for wrong in ("0", "-1", "x", "99999999999"):
        assert daemon.ask("POST", f"/targets/{wrong}/attach", {})[0] == 400
    assert daemon.ask("POST", "/targets/4194305/attach", {})[0] == 404
    assert daemon.ask("POST", f"{path}/detach", {})[0] == 404
    daemon.post(f"{path}/attach")
    assert daemon.get("/targets")["attached"] == [target.pid]
    daemon.until("/metrics/latest", lambda now: str(target.pid) in json.dumps(now["frame"]))
    dumped = daemon.post(f"{path}/dump")
    assert any(thread["frames"] for thread in dumped), dumped
    daemon.post(f"{path}/detach")
    assert daemon.get("/targets")["attached"] == []


def test_stacks_of_a_session(serve: Serve, start: StartTarget) -> None:
    target = start("deep.py", 12)
    daemon = serve(owner=True)
    daemon.post("/profiling/start", {"name": "deep", "pids": [target.pid], "stacks": True})
    daemon.until("/targets", lambda now: bool(now["recordings"][0]["samples"] >= 5))
    daemon.post("/profiling/stop", {"name": "deep"})
    (recording,) = daemon.get("/targets")["recordings"]
    assert recording["file"] == "deep.gsp" and not recording["is_active"]
    assert recording["error"] is None
    status, headers, text = daemon.raw("GET", "/flamegraph?session=deep")
    assert status == 200 and headers["Content-Type"] == "image/svg+xml" and b"<svg" in text
    assert (
        daemon.raw("GET", "/profiling/sessions/deep/download?stacks=1")[2]
        == (daemon.output / "deep.gsp").read_bytes()
    )
    assert daemon.ask("GET", "/flamegraph?session=no")[0] == 404
    # If the stacks cannot be captured, no session is created.
    status, _ = daemon.ask(
        "POST", "/profiling/start", {"name": "no", "pids": [4194305], "stacks": True}
    )
    assert status == 404
    assert "no" not in names_of(daemon.get("/profiling/sessions"))
    answer = daemon.post(f"/targets/{target.pid}/record", {"duration": 0.2, "name": "short"})
    assert answer["file"] == "short.gsp"
    daemon.until("/targets", lambda now: not any(row["is_active"] for row in now["recordings"]))


# ----------------------------------------------------------------------------- SQL


def test_queries(serve: Serve) -> None:
    daemon = serve(owner=True)
    daemon.post("/profiling/start", {"name": "queried"})
    daemon.frames(3)
    rows = daemon.ask("POST", "/query", {"sql": "SELECT name, status FROM session.list"})[1]
    assert rows == [{"name": "queried", "status": "active"}]
    sql = "SELECT count(*) AS n FROM memory.system.memory"
    status, headers, text = daemon.raw(
        "POST", "/query", json.dumps({"sql": sql, "format": "csv"}).encode()
    )
    assert status == 200 and headers["Content-Type"].startswith("text/csv")
    assert int(text.split()[1]) >= 3
    status, _, text = daemon.raw(
        "POST", "/query", json.dumps({"sql": "SELECT 1 AS x", "format": "arrow"}).encode()
    )
    assert status == 200 and text[:4] == b"\xff\xff\xff\xff"
    status, answer = daemon.ask("POST", "/query", {"sql": "SELECT xname FROM session.list"})
    assert status == 400 and "xname" in answer["error"]["message"]
    for sql in ("DELETE FROM session.list", "COPY (SELECT 1) TO '/tmp/x'", "SELECT 1; SELECT 2"):
        assert daemon.ask("POST", "/query", {"sql": sql})[0] in (400, 403), sql
    sql = "SELECT * FROM read_csv('/etc/passwd')"
    assert daemon.ask("POST", "/query", {"sql": sql})[0] in (400, 403)
    daemon.ask("PUT", "/config", {"query_timeout": 0.2})
    sql = "SELECT count(*) FROM range(1000000000000)"
    assert daemon.ask("POST", "/query", {"sql": sql})[0] == 504
    daemon.ask("PUT", "/config", {"query_timeout": PATIENCE_S, "query_rows": 10})
    assert len(daemon.ask("POST", "/query", {"sql": "SELECT * FROM range(1000)"})[1]) == 10


# --------------------------------------------------------------------------- clients


def test_slow_and_half_closed_clients_do_not_block_others(serve: Serve) -> None:
    daemon = serve()
    silent = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(200)]
    for number, client in enumerate(silent):
        client.sendall(b"POST /profiling/start HTTP/1.1\r\nHost: localhost\r\n"[: number % 50])
    closed = socket.create_connection(("127.0.0.1", daemon.port))
    closed.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    closed.shutdown(socket.SHUT_WR)
    answer = b""
    closed.settimeout(PATIENCE_S)
    while chunk := closed.recv(65536):
        answer += chunk
    assert answer == b"" or answer.startswith(b"HTTP/1.1 200")
    partial = socket.create_connection(("127.0.0.1", daemon.port))
    partial.sendall(
        b'POST /profiling/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"na'
    )
    partial.close()
    daemon.frames(3)
    assert daemon.get("/profiling/sessions")["total_sessions"] == 0
    for client in silent:
        client.close()
    assert daemon.stop() == 0


def test_streams_without_readers(serve: Serve) -> None:
    daemon = serve()
    listeners = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(50)]
    for listener in listeners:
        listener.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    daemon.frames(5)
    for listener in listeners[::2]:
        listener.close()
    daemon.frames(5)
    assert daemon.stop() == 0
    for listener in listeners[1::2]:
        listener.close()


def test_bytes_that_are_not_http(serve: Serve) -> None:
    daemon = serve()
    rng = random.Random(1)
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", daemon.port)) as client:
            client.sendall(rng.randbytes(rng.randrange(1, 3000)))
            client.sendall(b"\r\n\r\n")
    assert daemon.get("/health")["status"] == "ok"
