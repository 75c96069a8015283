# SPDX-License-Identifier: Apache-2.0
"""Limits of gsprof serve and gsprof query: memory, time and size of queries, answers that wait for
slow clients, streams, connections. Beyond a limit, a clear error; meanwhile, others are served."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Iterator, List, Optional, Set, Tuple

import pytest
from conftest import Serve, StartTarget
from measure import measure
from serving import Daemon
from support import EXIT_FORMAT, GSPROF, PATIENCE_S, gsprof, wait_for

MIB = 1 << 20
BASE_MIB = 256  # docs/security.md: what a worker may use beyond its memory limit
GREEDY = "SELECT length(repeat(repeat('x', 100000), 30000))"  # 3 GB
# The engine computes it when it plans the query, and does not notice an interrupt then.
LONG = "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))"
BIG_MIB = 8  # more than the buffers of a socket
BIG = f"SELECT repeat('x', 16384) AS x FROM range({BIG_MIB * 64})"


def ask(daemon: Daemon, sql: str) -> Tuple[int, Any]:
    status, answer = daemon.ask("POST", "/query", {"sql": sql})
    return status, answer["error"] if status >= 400 else answer


def request(path: str, body: Optional[object] = None) -> bytes:
    text = b"" if body is None else json.dumps(body).encode()
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


def send(daemon: Daemon, sent: bytes, receive_bytes: int = 4096) -> socket.socket:
    client = socket.socket(socket.AF_UNIX if daemon.owner else socket.AF_INET)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.settimeout(PATIENCE_S)
    client.connect(str(daemon.socket_path) if daemon.owner else ("127.0.0.1", daemon.port))
    client.sendall(sent)
    return client


def status_of(client: socket.socket) -> int:
    """Reads the first line of an answer; the rest stays unread."""
    head = b""
    while b"\r\n" not in head:
        more = client.recv(1)
        assert more, head
        head += more
    return int(head.split(b" ")[1])


def head_of(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        more = client.recv(1)
        assert more, head
        head += more
    return head


def workers(daemon: Daemon) -> List[int]:
    path = Path(f"/proc/{daemon.pid}/task")
    found: List[int] = []
    for task in path.iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:
            pass  # the thread has ended
    return found


def test_memory_of_a_query(serve: Serve) -> None:
    daemon = serve(env={"GSPROF_QUERY_MEMORY_MB": "64"})
    status, error = ask(daemon, GREEDY)
    assert (status, error["code"]) == (422, "LIMIT") and "64 MiB" in error["message"]
    assert "query_" in error["hint"]
    assert ask(daemon, "SELECT 1 AS one") == (200, [{"one": 1}])
    worker = measure(GSPROF, "query-worker", "--memory", "64M", given=GREEDY)
    assert json.loads(worker.err)["code"] == "LIMIT" and worker.peak_mb < 64 + BASE_MIB
    local = gsprof("query", "--memory", "64M", os.getpid(), GREEDY, status=EXIT_FORMAT)
    assert "more memory than its limit of 64 MiB" in local.err and "--memory" in local.err


def test_memory_that_the_engine_does_not_count(serve: Serve) -> None:
    """The engine ends the process, because it cannot allocate where it handles no error."""
    daemon = serve(env={"GSPROF_QUERY_MEMORY_MB": "64"})
    status, error = ask(daemon, "SELECT histogram(repeat('x',500)||i) FROM range(5000000) t(i)")
    assert (status, error["code"]) == (422, "LIMIT") and "query_" in error["hint"], error


def test_time_of_a_query(serve: Serve) -> None:
    daemon = serve(env={"GSPROF_QUERY_TIMEOUT": "0.1"})
    endless = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"
    for sql in (endless, LONG):
        begin = time.monotonic()
        status, error = ask(daemon, sql)
        assert (status, error["code"]) == (504, "TIMEOUT") and error["hint"], error
        assert time.monotonic() - begin < PATIENCE_S / 4
        assert not workers(daemon)


def test_an_aborted_worker_is_an_internal_error(serve: Serve) -> None:
    daemon = serve()
    for number, status, code, words in (
        (signal.SIGABRT, 500, "IO", "crashed"),
        (signal.SIGKILL, 503, "NOMEM", "killed"),
    ):
        answers: List[Tuple[int, Any]] = []
        thread = threading.Thread(target=lambda: answers.append(ask(daemon, LONG)))
        thread.start()
        wait_for(lambda: len(workers(daemon)) == 1)
        os.kill(workers(daemon)[0], number)
        thread.join()
        assert answers[0][0] == status and answers[0][1]["code"] == code
        assert words in answers[0][1]["message"]


def start_session(daemon: Daemon, name: str) -> Tuple[int, Any]:
    return daemon.ask("POST", "/profiling/start", {"name": name})


def test_number_of_anonymous_sessions(serve: Serve) -> None:
    daemon = serve("--freq", "60s")
    for number in range(64):
        assert start_session(daemon, f"s{number}")[0] == 200
    for _ in range(2):  # also after a restart
        status, answer = start_session(daemon, "more")
        assert (status, answer["error"]["code"]) == (413, "LIMIT") and answer["error"]["hint"]
        assert daemon.stop(signal.SIGKILL) != 0
        daemon.start()
    daemon.owner = True
    assert start_session(daemon, "mine")[0] == 200
    daemon.post("/profiling/stop", {"name": "s0"})
    daemon.owner = False
    assert start_session(daemon, "more")[0] == 200


def test_disk_of_anonymous_sessions(serve: Serve) -> None:
    daemon = serve("--freq", "10ms", env={"GSPROF_ANONYMOUS_MB": "1"}, owner=True)
    start_session(daemon, "mine")
    daemon.owner = False
    for name in ("a", "b"):
        assert start_session(daemon, name)[0] == 200
    for name in ("a", "b"):
        ended = daemon.until(f"/profiling/sessions/{name}", lambda now: not now["is_active"])
        assert "stopped early" in ended["error"] and not ended["failed"]
        file = daemon.output / f"{name}.json"
        wait_for(file.exists, "the file is not written")
        made = json.loads(file.read_text(encoding="utf-8"))
        assert len(made["frames"]) == ended["frame_count"]
    bytes_used = sum((daemon.output / f"{name}.json").stat().st_size for name in ("a", "b"))
    assert MIB / 2 < bytes_used < 1.5 * MIB
    for _ in range(2):  # also after a restart
        status, answer = start_session(daemon, "more")
        assert (status, answer["error"]["code"]) == (507, "NOWRITE") and answer["error"]["hint"]
        assert daemon.stop(signal.SIGKILL) != 0
        daemon.start()
    assert "stopped early" in daemon.get("/profiling/sessions/a")["error"]
    daemon.owner = True
    assert daemon.get("/profiling/sessions/mine")["is_active"]
    assert start_session(daemon, "second")[0] == 200
    (daemon.output / "a.json").unlink()
    assert daemon.ask("DELETE", "/profiling/sessions/b")[0] == 200
    daemon.owner = False
    assert start_session(daemon, "more")[0] == 200


def run_session(daemon: Daemon, name: str) -> None:
    assert start_session(daemon, name)[0] == 200
    daemon.post("/profiling/stop", {"name": name})


def listed(daemon: Daemon) -> Set[str]:
    return {row["name"] for row in daemon.get("/profiling/sessions")["sessions"]}


def written(daemon: Daemon) -> Set[str]:
    return {path.stem for path in daemon.output.iterdir()}


def test_places_of_anonymous_sessions(serve: Serve) -> None:
    """They neither displace each other, nor the half of the owner."""
    daemon = serve("--freq", "60s", env={"GSPROF_KEEP_SESSIONS": "4"}, owner=True)
    for name in ("mine", "his"):
        run_session(daemon, name)
    daemon.owner = False
    for name in ("a", "b"):
        run_session(daemon, name)
    for _ in range(2):  # also after a restart
        status, answer = start_session(daemon, "more")
        assert (status, answer["error"]["code"]) == (507, "LIMIT") and answer["error"]["hint"]
        assert daemon.stop(signal.SIGKILL) != 0
        daemon.start()
    assert listed(daemon) == written(daemon) == {"mine", "his", "a", "b"}
    daemon.owner = True
    run_session(daemon, "third")
    wait_for(lambda: listed(daemon) == {"his", "third", "a", "b"}, "not the newest are listed")
    assert written(daemon) == {"mine", "his", "third", "a", "b"}
    assert daemon.ask("DELETE", "/profiling/sessions/a")[0] == 200
    daemon.owner = False
    run_session(daemon, "more")


def test_files_of_forgotten_sessions_stay(serve: Serve) -> None:
    limits = {"GSPROF_KEEP_SESSIONS": "2", "GSPROF_KEEP_TIME": "2"}
    daemon = serve("--freq", "60s", env=limits, owner=True)
    run_session(daemon, "mine")
    daemon.owner = False
    run_session(daemon, "a")
    assert start_session(daemon, "b")[0] == 507
    wait_for(lambda: not listed(daemon), "old sessions are listed", pause_s=0.1)
    assert written(daemon) == {"mine", "a"}
    run_session(daemon, "b")


def test_statements_that_change_the_engine(serve: Serve) -> None:
    daemon = serve()
    for sql in (
        "/* x */;/*y*/ \u00a0PRAGMA database_list",
        "--\rPRAGMA version /*\nSELECT 1 --*/",
        "FROM query('FROM enable_' || 'logging(storage=''stdout'')')",
    ):
        status, error = ask(daemon, sql)
        assert (status, error["code"]) == (403, "PERM"), (sql, error)
    assert ask(daemon, "SELECT 'enable_x(1)' AS enable_x") == (200, [{"enable_x": "enable_x(1)"}])


def state_of(pid: int) -> str:
    """The state of a process: R, S, T (stopped), Z or, if there is none, X."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def has_settled(pid: int) -> bool:
    return state_of(pid) in "TZX"


def hold_worker(daemon: Daemon, held: Set[int]) -> None:
    """Stops the next worker, if it has not ended yet."""
    end = time.monotonic() + 1
    while time.monotonic() < end:
        for pid in set(workers(daemon)) - held:
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                return
            wait_for(partial(has_settled, pid))
            if state_of(pid) == "T":
                held.add(pid)
            return


def test_flame_graphs_are_drawn_by_workers(serve: Serve, start: StartTarget) -> None:
    target = start("deep.py", 12)
    daemon = serve(owner=True)
    daemon.post("/profiling/start", {"name": "deep", "pids": [target.pid], "stacks": True})
    daemon.until("/targets", lambda now: bool(now["recordings"][0]["samples"] >= 1))
    daemon.post("/profiling/stop", {"name": "deep"})
    path = "/flamegraph?session=deep"
    assert daemon.raw("GET", path)[0] == 200
    recording = daemon.output / "deep.gsp"
    drawn = recording.read_bytes()
    recording.write_bytes(b"not a recording")
    status, answer = daemon.ask("GET", path)
    assert status in (400, 422) and answer["error"]["code"] == "FORMAT"
    status, answer = daemon.ask("GET", "/profiling/sessions/deep/download?stacks=1")
    assert (status, answer["error"]["code"]) == (404, "NOFILE"), answer
    recording.unlink()
    os.mkfifo(recording)  # a reader would wait
    begin = time.monotonic()
    status, answer = daemon.ask("GET", path)
    assert (status, answer["error"]["code"]) == (400, "FORMAT"), answer
    assert time.monotonic() - begin < PATIENCE_S / 4 and not workers(daemon)
    recording.unlink()
    recording.write_bytes(drawn)
    with ExitStack() as stack:
        held: Set[int] = set()
        while len(held) < 2:
            stack.enter_context(send(daemon, request(path)))
            hold_worker(daemon, held)
        status, answer = daemon.ask("GET", path)
        assert (status, answer["error"]["code"]) == (503, "BUSY")
        for pid in held:  # one may have stopped before it ran the program, and the daemon waits
            os.kill(pid, signal.SIGCONT)
    wait_for(lambda: not workers(daemon))


def test_answers_that_are_read_slowly(serve: Serve) -> None:
    limits = {"GSPROF_ANSWERS_MB": str(5 * BIG_MIB), "GSPROF_QUERY_ANSWER_MB": "10"}
    daemon = serve(env=limits)
    status, error = ask(daemon, BIG + ", range(2)")  # longer than one answer may be
    assert (status, error["code"]) == (422, "LIMIT") and error["hint"]
    sent = request("/query", {"sql": BIG})
    with ExitStack() as stack:
        clients = [stack.enter_context(send(daemon, sent)) for _ in range(2)]
        assert [status_of(client) for client in clients] == [200, 200]
        status, error = ask(daemon, BIG)
        assert (status, error["code"]) == (503, "BUSY") and error["hint"]
        daemon.owner = True  # half is for the owner
        assert ask(daemon, BIG)[0] == 200
        daemon.owner = False
        clients[0].close()
        wait_for(lambda: ask(daemon, BIG)[0] == 200)


def test_anonymous_requests_leave_half_to_the_owner(serve: Serve) -> None:
    daemon = serve("--freq", "60s")
    waiting = request("/query", {"sql": "SELECT sleep_ms(25000)"})
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(send(daemon, waiting))
        wait_for(lambda: len(workers(daemon)) == 2)
        status, error = ask(daemon, "SELECT 1 AS one")
        assert (status, error["code"]) == (503, "BUSY") and error["hint"]
        daemon.owner = True
        for _ in range(2):
            assert ask(daemon, "SELECT 1 AS one") == (200, [{"one": 1}])
        # Both together have no more than before.
        for _ in range(2):
            stack.enter_context(send(daemon, waiting))
        wait_for(lambda: len(workers(daemon)) == 4)
        assert ask(daemon, "SELECT 1")[0] == 503
    wait_for(lambda: not workers(daemon))
    assert ask(daemon, "SELECT 1 AS one") == (200, [{"one": 1}])
    daemon.owner = False
    assert ask(daemon, "SELECT 1 AS one") == (200, [{"one": 1}])


def test_long_requests(serve: Serve) -> None:
    daemon = serve()
    long = "SELECT 1 AS one --" + "x" * (100 << 10)
    sent = request("/query", {"sql": long})[:-1]
    with ExitStack() as stack:
        for owner in (False, True):  # half is for the owner
            daemon.owner = owner
            for _ in range(32):
                assert ask(daemon, long) == (200, [{"one": 1}])
                stack.enter_context(send(daemon, sent))
            wait_for(lambda: ask(daemon, long)[0] == 503)
            assert ask(daemon, long)[1]["code"] == "BUSY" and ask(daemon, long)[1]["hint"]
            assert ask(daemon, "SELECT 1 AS one") == (200, [{"one": 1}])
    for owner in (False, True):
        daemon.owner = owner
        wait_for(lambda: ask(daemon, long) == (200, [{"one": 1}]))


def test_rate_of_reading(serve: Serve) -> None:
    daemon = serve(env={"GSPROF_REQUEST_TIMEOUT": "1", "GSPROF_ANSWER_RATE_KB": "1024"})
    with ExitStack() as stack:
        stream = stack.enter_context(send(daemon, request("/stream")))
        client = stack.enter_context(send(daemon, request("/query", {"sql": BIG})))
        assert [status_of(stream), status_of(client)] == [200, 200]
        # Some progress all the time, but too little.
        received, begin = 0, time.monotonic()
        while time.monotonic() < begin + PATIENCE_S:
            select.select([], [], [], 0.02)
            try:
                received += len(client.recv(4096))
            except ConnectionResetError:
                break
        # What the client did not read is discarded.
        assert received < BIG_MIB * MIB // 2, received
        # Streams have no minimum rate, and a client that reads at once gets everything.
        assert stream.recv(4096)
        assert len(ask(daemon, BIG)[1]) == BIG_MIB * 64


def test_streams(serve: Serve) -> None:
    daemon = serve(env={"GSPROF_STREAMS": "4"})

    def is_free() -> bool:
        with send(daemon, request("/stream")) as client:
            return status_of(client) == 200

    with ExitStack() as stack:
        for owner in (False, True):  # half is for the owner
            daemon.owner = owner
            clients = [stack.enter_context(send(daemon, request("/stream"))) for _ in range(2)]
            assert [status_of(client) for client in clients] == [200, 200]
            status, answer = daemon.ask("GET", "/stream")
            assert (status, answer["error"]["code"]) == (503, "BUSY") and answer["error"]["hint"]
        clients[0].close()
        wait_for(is_free)
        daemon.owner = False
        assert not is_free()


@pytest.fixture
def _many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 4096:
        pytest.skip(f"needs 4096 open files, the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_many_files")
@pytest.mark.parametrize("path", ["/stream", None])
def test_connections_of_one_client(serve: Serve, tmp_path: Path, path: Optional[str]) -> None:
    daemon = serve("--socket", tmp_path / "s")
    sent = request(path) if path else b"GET / HTTP/1.1\r\n"
    with ExitStack() as stack:
        for i in range(1100):
            try:
                stack.enter_context(send(daemon, sent))
            except ConnectionError:
                pass  # closed already
            if i % 100 == 99:
                begin = time.monotonic()
                assert daemon.get("/health")["status"] == "ok"
                assert time.monotonic() - begin < PATIENCE_S / 10
        if path:  # answers close their connections while there are many
            wait_for(lambda: daemon.ask("GET", "/status")[0] == 200)
        else:
            status, answer = daemon.ask("GET", "/status")
            assert (status, answer["error"]["code"]) == (503, "BUSY") and answer["error"]["hint"]
        local = gsprof("query", f"unix:{tmp_path / 's'}", "SELECT 41 + 1 AS x", "-f", "csv")
        assert local.out == "x\n42\n"
    wait_for(lambda: daemon.ask("GET", "/status")[0] == 200)


def test_loopback_addresses_count_as_one(serve: Serve) -> None:
    daemon = serve(env={"GSPROF_CONNECTIONS_PER_ADDRESS": "8"})
    with ExitStack() as stack:
        for number in range(8):
            client = stack.enter_context(socket.socket())
            client.bind((f"127.0.1.{number + 1}", 0))
            client.connect(("127.0.0.1", daemon.port))
        status, answer = daemon.ask("GET", "/status")
        assert (status, answer["error"]["code"]) == (503, "BUSY")
    wait_for(lambda: daemon.ask("GET", "/health")[0] == 200)


def test_busy_clients_do_not_keep_their_connections(serve: Serve) -> None:
    daemon = serve(env={"GSPROF_CONNECTIONS_PER_ADDRESS": "8"})
    with ExitStack() as stack:
        clients = [stack.enter_context(send(daemon, b"")) for _ in range(8)]
        for client in clients:
            client.sendall(request("/openapi.json"))
        heads = [head_of(client).lower() for client in clients]
        assert all(head.startswith(b"http/1.1 200") for head in heads)
        assert any(b"\r\nconnection: close" in head for head in heads)
    wait_for(lambda: daemon.ask("GET", "/status")[0] == 200)
    connection = daemon.connect(owner=False)
    for _ in range(3):  # a connection stays open while there are few
        connection.request("GET", "/health")
        answered = connection.getresponse()
        answered.read()
        assert answered.getheader("Connection") != "close"
    connection.close()
