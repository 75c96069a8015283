# SPDX-License-Identifier: Apache-2.0
"""gsprof serve and clients that send slowly, do not read, or close one half: the daemon closes
their connections in time, serves other clients meanwhile, and releases all their resources."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Iterator, List, Set

import pytest
from conftest import Serve
from serving import Daemon
from support import PATIENCE_S, wait_for

LIMIT_S = 1
HEAD = b"POST /profiling/start HTTP/1.1\r\nHost: localhost\r\nX-Filler: "
BODY = HEAD + b"x\r\nContent-Length: 100000\r\n\r\n"


def descriptors(daemon: Daemon) -> Set[str]:
    """Returns the open files of the daemon: sockets by their names, the rest by paths."""
    found = set()
    for entry in Path(f"/proc/{daemon.pid}/fd").iterdir():
        try:
            found.add(os.readlink(entry))
        except OSError:
            pass  # closed since it was listed
    return found


def sockets(daemon: Daemon) -> int:
    return sum(name.startswith("socket:") for name in descriptors(daemon))


def connect(daemon: Daemon, first: bytes = b"", receive_bytes: int = 0) -> socket.socket:
    client = socket.socket()
    if receive_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.settimeout(PATIENCE_S)
    client.connect(("127.0.0.1", daemon.port))
    client.sendall(first)
    return client


def is_closed(client: socket.socket) -> bool:
    """Returns whether the other side closed the connection; discards received data."""
    if not select.select([client], [], [], 0)[0]:
        return False
    try:
        return client.recv(65536) == b""
    except OSError:
        return True


def drip(clients: List[socket.socket]) -> float:
    """Sends bytes slowly until all connections are closed; returns how long that took."""
    begin = time.monotonic()
    remaining = list(clients)
    while remaining:
        assert time.monotonic() < begin + PATIENCE_S, len(remaining)
        for client in list(remaining):
            try:
                client.sendall(b"x")
                closed = is_closed(client)
            except OSError:
                closed = True
            if closed:
                remaining.remove(client)
        select.select(remaining, [], [], 0.02)  # or until one is closed
    return time.monotonic() - begin


@pytest.fixture
def daemon(serve: Serve) -> Daemon:
    return serve(env={"GSPROF_REQUEST_TIMEOUT": str(LIMIT_S)})


@pytest.fixture
def others(daemon: Daemon) -> Iterator[None]:
    """Another client sends requests all the time and gets answers."""
    done = threading.Event()
    slowest: List[float] = []

    def send_requests() -> None:
        while not done.is_set():
            begin = time.monotonic()
            assert daemon.get("/health")["status"] == "ok"
            slowest[:] = [max([time.monotonic() - begin, *slowest])]

    thread = threading.Thread(target=send_requests)
    thread.start()
    yield
    done.set()
    thread.join()
    # Far below the limit for slow clients: other clients do not wait for those.
    assert slowest and slowest[0] < PATIENCE_S / 4, slowest


def test_requests_sent_byte_by_byte(daemon: Daemon, others: None) -> None:
    before = sockets(daemon)
    with ExitStack() as stack:
        firsts = [b"", b"GET /", HEAD, BODY] * 10
        clients = [stack.enter_context(connect(daemon, first)) for first in firsts]
        assert drip(clients) >= LIMIT_S / 2
        wait_for(lambda: sockets(daemon) <= before + 1)  # the other client has at most one
    assert daemon.get("/profiling/sessions")["total_sessions"] == 0


def test_incomplete_requests(daemon: Daemon, others: None) -> None:
    before = sockets(daemon)
    with ExitStack() as stack:
        firsts = [b"", b"GET /sta", HEAD, BODY] * 2
        clients = [stack.enter_context(connect(daemon, first)) for first in firsts]
        for client in clients[:4]:
            client.shutdown(socket.SHUT_WR)
        for client in clients:
            wait_for(lambda client=client: is_closed(client))  # type: ignore[misc]
        wait_for(lambda: sockets(daemon) <= before + 1)
    assert daemon.get("/profiling/sessions")["total_sessions"] == 0


def test_answers_that_are_not_read(daemon: Daemon, others: None) -> None:
    daemon.post("/profiling/start", {"name": "big"})
    daemon.post("/profiling/stop", {"name": "big"})
    file = daemon.output / "big.json"
    os.truncate(file, 64 << 20)  # more than a socket buffers
    before = sockets(daemon)
    get = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    download = get.format("/profiling/sessions/big/download").encode()
    with ExitStack() as stack:
        for request in (download, get.format("/stream").encode()):
            for half_closed in (False, True):
                client = stack.enter_context(connect(daemon, request, 4096))
                if half_closed:
                    client.shutdown(socket.SHUT_WR)
        wait_for(lambda: str(file) in descriptors(daemon))
        # The streams have not filled their sockets yet: they end when their clients do.
        wait_for(lambda: str(file) not in descriptors(daemon))
    wait_for(lambda: sockets(daemon) <= before + 1)


def test_idle_clients_are_closed_when_connections_run_out(serve: Serve) -> None:
    """Idle clients are closed earlier when connections run out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 2048:
        pytest.skip(f"needs 2048 open files, the limit is {hard}")
    # The usual limit is longer than the test.
    env = {"GSPROF_REQUEST_TIMEOUT": str(int(10 * PATIENCE_S))}
    daemon = serve(env={**env, "GSPROF_CONNECTIONS_PER_ADDRESS": "1024"})
    before = sockets(daemon)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    try:
        with ExitStack() as stack:
            clients = [stack.enter_context(connect(daemon, HEAD)) for _ in range(1000)]
            daemon.get("/health")
            # A quarter of the 1,024 is free again; the remaining clients have the usual limit.
            wait_for(lambda: sockets(daemon) <= before + 1 + 768)
            assert sum(map(is_closed, clients)) >= 1000 - 768 - 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_clients_cannot_use_up_all_descriptors(serve: Serve) -> None:
    few = 100
    limit = ["prlimit", f"--nofile={few}:{few}"]
    daemon = serve(env={"GSPROF_REQUEST_TIMEOUT": str(LIMIT_S)}, before=limit)
    before = sockets(daemon)
    with ExitStack() as stack:
        for _ in range(few * 4 // 5):  # most of these are closed at once
            stack.enter_context(connect(daemon))
        # 503 until the time limit of the others has passed
        wait_for(lambda: daemon.ask("POST", "/profiling/start", {"name": "kept"})[0] == 200)
        daemon.frames(2)
        assert len(descriptors(daemon)) < few
        daemon.post("/profiling/stop", {"name": "kept"})
        assert json.loads((daemon.output / "kept.json").read_text())["frames"]
        assert daemon.ask("POST", "/query", {"sql": "SELECT 1 AS x"}) == (200, [{"x": 1}])
    wait_for(lambda: sockets(daemon) <= before + 1)


def workers(daemon: Daemon) -> int:
    """Returns the number of the daemon's query processes."""
    found = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = (path / "stat").read_text().rsplit(")", 1)[1].split()[1]
            is_worker = b"query-worker" in (path / "cmdline").read_bytes()
        except OSError:
            continue
        found += is_worker and int(parent) == daemon.pid
    return found


def test_a_query_ends_with_its_client(serve: Serve) -> None:
    daemon = serve(env={"GSPROF_QUERY_TIMEOUT": str(10 * PATIENCE_S)})
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"
    body = json.dumps({"sql": sql})
    head = f"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    with connect(daemon, (head + body).encode()):
        wait_for(lambda: workers(daemon) == 1)
    wait_for(lambda: workers(daemon) == 0)
    assert daemon.post("/query", {"sql": "SELECT 1 AS one"}) == [{"one": 1}]
    assert daemon.stop() == 0
