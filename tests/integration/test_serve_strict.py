# SPDX-License-Identifier: Apache-2.0
"""gsprof serve refuses requests that a proxy in front of it could read differently: each is sent
byte for byte, gets status 400, and the connection is closed."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Iterator, List, Tuple

import pytest
from serving import Daemon
from support import PATIENCE_S

LINE = b"GET /health HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
HEAD = LINE + HOST
POST = b"POST /profiling/start HTTP/1.1\r\n" + HOST

REFUSED: List[Tuple[str, bytes, int]] = [
    ("two lengths", POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    ("the same length twice", POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    ("a list of lengths", POST + b"Content-Length: 2, 2\r\n\r\n{}", 400),
    ("a signed length", POST + b"Content-Length: +2\r\n\r\n{}", 400),
    ("a negative length", POST + b"Content-Length: -2\r\n\r\n{}", 400),
    ("a hexadecimal length", POST + b"Content-Length: 0x2\r\n\r\n{}", 400),
    ("an empty length", POST + b"Content-Length:\r\n\r\n{}", 400),
    (
        "a length and an encoding",
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        400,
    ),
    (
        "an encoding and a length",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        400,
    ),
    ("two encodings", POST + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n", 400),
    ("an unknown encoding", POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    ("an encoding with a tab", POST + b"Transfer-Encoding:\tchunked\t\r\n\r\n0\r\n\r\n", 400),
    (
        "an encoding in HTTP/1.0",
        POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    ("a line feed after the request line", LINE[:-2] + b"\n" + HOST + b"\r\n", 400),
    ("a line feed after a header", HEAD[:-2] + b"\n" + b"A: b\r\n\r\n", 400),
    ("a line feed after the last header", HEAD + b"A: b\n\r\n", 400),
    ("a line feed as the empty line", HEAD + b"A: b\r\n\n", 400),
    ("only line feeds", HEAD.replace(b"\r", b"") + b"\n", 400),
    ("a folded header", HEAD + b"A: b\r\n c\r\n\r\n", 400),
    ("a header folded with a tab", HEAD + b"A: b\r\n\tc\r\n\r\n", 400),
    ("a folded host", LINE + b"Host: localhost\r\n :80\r\n\r\n", 400),
    ("a folded first line", LINE + b" A: b\r\n" + HOST + b"\r\n", 400),
    ("a space before the colon", HEAD + b"A : b\r\n\r\n", 400),
    ("a tab before the colon", HEAD + b"A\t: b\r\n\r\n", 400),
    ("a space before the colon of the length", POST + b"Content-Length : 2\r\n\r\n{}", 400),
    ("a space before the colon of Host", LINE + b"Host : localhost\r\n\r\n", 400),
    ("no colon", HEAD + b"A\r\n\r\n", 400),
    ("no name", HEAD + b": b\r\n\r\n", 400),
    ("a name with brackets", HEAD + b"A(b): c\r\n\r\n", 400),
    ("a name with a high byte", HEAD + b"\xe4: c\r\n\r\n", 400),
    ("no host", LINE + b"A: b\r\n\r\n", 400),
    ("two hosts", HEAD + HOST + b"\r\n", 400),
    ("two different hosts", HEAD + b"Host: 127.0.0.1\r\n\r\n", 400),
    ("an empty host", LINE + b"Host:\r\n\r\n", 400),
    ("a host with a path", LINE + b"Host: localhost/x\r\n\r\n", 400),
    ("a host with a user", LINE + b"Host: localhost:80@evil.com\r\n\r\n", 400),
    ("a host with text for a port", LINE + b"Host: localhost:evil.com\r\n\r\n", 400),
    ("a host with text behind the address", LINE + b"Host: [::1].evil.com\r\n\r\n", 400),
    ("a host with an open bracket", LINE + b"Host: [::1\r\n\r\n", 400),
    ("a list of hosts", LINE + b"Host: localhost evil.com\r\n\r\n", 400),
    ("a NUL in a value", HEAD + b"A: b\0c\r\n\r\n", 400),
    ("a NUL in a name", HEAD + b"A\0: b\r\n\r\n", 400),
    ("a NUL in the host", LINE + b"Host: localhost\0.evil.com\r\n\r\n", 400),
    ("an escape character in a value", HEAD + b"A: \x1b[2J\r\n\r\n", 400),
    ("a delete character in a value", HEAD + b"A: \x7f\r\n\r\n", 400),
    ("a bare carriage return in a value", HEAD + b"A: b\rc\r\n\r\n", 400),
    ("two carriage returns", HEAD + b"A: b\r\r\n\r\n", 400),
    ("a NUL in the path", HEAD.replace(b"/health", b"/health\0x") + b"\r\n", 400),
    ("a control character in the path", HEAD.replace(b"/health", b"/health\x01") + b"\r\n", 400),
    ("two spaces in the request line", HEAD.replace(b" /health", b"  /health") + b"\r\n", 400),
    ("a tab in the request line", HEAD.replace(b"/health ", b"/health\tx ") + b"\r\n", 400),
    ("a method with a bracket", HEAD.replace(b"GET", b"G(T") + b"\r\n", 400),
    ("a space in the path", HEAD.replace(b"/health", b"/health x") + b"\r\n", 400),
    ("no version", b"GET /health\r\n" + HOST + b"\r\n", 400),
    ("another version", HEAD.replace(b"1.1", b"3.1") + b"\r\n", 505),
]

ACCEPTED: List[Tuple[str, bytes]] = [
    ("a plain request", HEAD + b"\r\n"),
    ("a port", LINE + b"Host: localhost:80\r\n\r\n"),
    ("an IPv6 address", LINE + b"Host: [::1]:80\r\n\r\n"),
    ("no space after the colon", LINE + b"Host:localhost\r\n\r\n"),
    ("spaces around a value", HEAD + b"A: \t b c \t\r\nB:\r\nC:  \r\n\r\n"),
    ("a header twice", HEAD + b"Accept: a\r\nAccept: b\r\nCookie: a=b; c=d\r\n\r\n"),
    ("a high byte in a value", HEAD + b"A: \xe4\xff\r\n\r\n"),
    ("parameters", HEAD.replace(b"/health", b"/health?a=%20&b=%00&c") + b"\r\n"),
    ("HTTP/1.0 without a host", b"GET /health HTTP/1.0\r\n\r\n"),
    ("an empty line before", b"\r\n" + HEAD + b"\r\n"),
    ("many headers", HEAD + b"".join(b"A%d: %d\r\n" % (i, i) for i in range(100)) + b"\r\n"),
]


@pytest.fixture(name="daemon", scope="module")
def _daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("strict")
    daemon = Daemon(folder)
    yield daemon
    assert daemon.get("/profiling/sessions")["total_sessions"] == 0
    daemon.end()


def connect(daemon: Daemon) -> socket.socket:
    return socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE_S)


def read_to_end(client: socket.socket) -> bytes:
    text = b""
    while True:
        try:
            more = client.recv(65536)
        except ConnectionResetError:
            return text
        if not more:
            return text
        text += more


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("name, sent, status", REFUSED, ids=[row[0] for row in REFUSED])
def test_refused(daemon: Daemon, name: str, sent: bytes, status: int) -> None:
    # A second request follows, as if the first had ended earlier: it must not be answered.
    for parts in ([sent + HEAD + b"\r\n"], [sent[:30], sent[30:] + HEAD + b"\r\n"]):
        with connect(daemon) as client:
            for part in parts:
                client.sendall(part)
            answer = read_to_end(client)
        assert status_of(answer) == status and b" 200 OK" not in answer, (name, answer)
        assert b"\r\nConnection: close\r\n" in answer, (name, answer)


def test_refused_in_a_connection_that_was_used(daemon: Daemon) -> None:
    with connect(daemon) as client:
        client.sendall(HEAD + b"\r\n" + HEAD + b"A: b\n\r\n" + HEAD + b"\r\n")
        answers = read_to_end(client).split(b"HTTP/1.1 ")[1:]
    assert [int(answer[:3]) for answer in answers] == [200, 400], answers


def test_an_encoded_body_ends_the_connection(daemon: Daemon) -> None:
    chunks = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    query = b"POST /profiling/stop HTTP/1.1\r\n" + HOST + chunks
    with connect(daemon) as client:
        client.sendall(query + HEAD + b"\r\n")
        answer = read_to_end(client)
    assert status_of(answer) in (200, 404) and answer.count(b"HTTP/1.1 ") == 1, answer
    assert b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize("name, sent", ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_accepted(daemon: Daemon, name: str, sent: bytes) -> None:
    # Also in pieces: libmicrohttpd then parses the head in several steps.
    for parts in ([sent], [sent[:25], sent[25:45], sent[45:]]):
        with connect(daemon) as client:
            for part in parts:
                client.sendall(part)
            client.sendall(HEAD + b"Connection: close\r\n\r\n")
            answers = read_to_end(client).split(b"HTTP/1.")[1:]
        assert int(answers[0][2:5]) == 200, (name, answers)
        assert len(answers) == (1 if b"HTTP/1.0" in sent else 2), (name, answers)
