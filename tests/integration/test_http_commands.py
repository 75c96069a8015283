# SPDX-License-Identifier: Apache-2.0
"""http-profile, http-stop, http-status, http-sessions, config: their requests, how they show the
answers, and their messages for refusals, malformed answers and missing servers."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Dict, Iterator

import pytest

from http_standin import Standin
from support import EXIT_FORMAT, EXIT_NOFILE, EXIT_NOPROC, EXIT_NOWRITE, EXIT_PERM, EXIT_USAGE
from support import gsprof


@pytest.fixture(name="server")
def _server() -> Iterator[Standin]:
    server = Standin()
    yield server
    server.close()


@pytest.fixture(name="clean", autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the token of the user who runs the tests."""
    monkeypatch.delenv("GSPROF_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def asked(server: Standin) -> Dict[str, object]:
    body: Dict[str, object] = json.loads(server.requests[-1][2])
    return body


def test_a_session_from_start_to_stop(server: Standin) -> None:
    result = gsprof("http-profile", server.address, "--name", "training_epoch_1")
    assert "training_epoch_1.json" in result.out
    assert asked(server) == {"name": "training_epoch_1"}
    gsprof(
        "http-profile",
        server.address,
        "--name",
        "memory_phase",
        "--label",
        "k=v=w",
        "--label",
        "phase=1",
    )
    assert asked(server) == {"name": "memory_phase", "labels": {"k": "v=w", "phase": "1"}}
    listed = gsprof("http-sessions", server.address).out
    assert (
        "training_epoch_1" in listed and "active" in listed and '{"k":"v=w","phase":"1"}' in listed
    )
    gsprof("http-stop", server.address, "--name", "training_epoch_1")
    assert asked(server) == {"name": "training_epoch_1"}
    assert "done" in gsprof("http-sessions", server.address).out
    stopped = gsprof("http-stop", server.address)
    assert asked(server) == {} and "memory_phase" in stopped.out
    assert not server.active()


def test_processes_and_switches(server: Standin) -> None:
    gsprof(
        "http-profile",
        server.address,
        "--name",
        "x",
        "--pid",
        "1,2",
        "-p",
        "3",
        "--stacks",
        "--force",
    )
    assert asked(server) == {"name": "x", "pids": [1, 2, 3], "stacks": True, "force": True}


def test_json_is_the_answer(server: Standin) -> None:
    made = json.loads(gsprof("http-profile", server.address, "--json").out)
    assert made["success"] is True
    assert asked(server) == {}
    assert json.loads(gsprof("http-status", server.address, "--json").out)["freq"] == 200
    sessions = json.loads(gsprof("http-sessions", server.address, "--json").out)
    assert sessions["total_sessions"] == 1


def test_status_has_names_and_sessions(server: Standin) -> None:
    gsprof("http-profile", server.address, "--name", "epoch")
    shown = gsprof("http-status", server.address).out
    assert "freq" in shown and "200" in shown and '["box"]' in shown and "epoch" in shown
    assert "off: no driver" in shown


def test_no_sessions_suggests_http_profile(server: Standin) -> None:
    result = gsprof("http-sessions", server.address)
    assert result.out == "" and "http-profile" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ["http-profile", "--label", "novalue"],
        ["http-profile", "--label", "=v"],
        ["http-profile", "--pid", "x"],
        ["http-profile", "--pid", "0"],
        ["http-profile", "--stacks"],
        ["http-profile", "--token", "a b"],
        ["http-stop", "--token", "a", "--token-file", "b"],
        ["http-status", "https://localhost"],
        ["config", "localhost:1", "a=1", "b"],
        ["config", "localhost:1", "a", "b"],
    ],
)
def test_misuse_sends_no_request(words: list[str], server: Standin) -> None:
    result = gsprof(*words, status=EXIT_USAGE)
    assert not server.requests and "gsprof" in result.err


def test_no_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        for command in ("http-status", "http-sessions", "http-stop", "http-profile", "config"):
            result = gsprof(command, f"127.0.0.1:{port}", status=EXIT_NOPROC)
            assert f"no server is listening at 127.0.0.1:{port}" in result.err
            assert f"gsprof serve --port {port}" in result.err


def test_refusals(server: Standin) -> None:
    gsprof("http-profile", server.address, "--name", "a")
    again = gsprof("http-profile", server.address, "--name", "a", status=EXIT_NOWRITE)
    assert "is active" in again.err and "http-stop" in again.err
    unknown = gsprof("http-stop", server.address, "--name", "b", status=EXIT_NOFILE)
    assert "active: a" in unknown.err and "http-sessions" in unknown.err


def test_tokens(server: Standin, tmp_path: Path) -> None:
    server.token = "right"
    result = gsprof("http-status", server.address, status=EXIT_PERM)
    assert "none was given" in result.err and "--token-file" in result.err
    result = gsprof("http-status", server.address, "--token", "wrong", status=EXIT_PERM)
    assert "does not match the server's" in result.err and "wrong" not in result.err
    gsprof("http-status", server.address, "--token", "right")
    gsprof("http-status", server.address, env={"GSPROF_TOKEN": "right"})
    file = tmp_path / "config" / "gsprof" / "token"
    file.parent.mkdir(parents=True)
    file.write_text("right\n", encoding="ascii")
    gsprof("http-status", server.address)
    gsprof("http-status", server.address, "--token-file", file, env={"GSPROF_TOKEN": "wrong"})
    gsprof("http-status", server.address, "--token-file", tmp_path / "none", status=EXIT_NOFILE)


# Answers of other servers with status 200, and why gsprof rejects them. An empty body is accepted.
FOREIGN = {
    b"<html>hello</html>": "not JSON",
    b"[1, 2]": "not a JSON object",
    b"": "",
    b"[" * 100000: "nested deeper than 24",
    b'{"a":': "unexpected end of data",
}


@pytest.mark.parametrize("body", FOREIGN, ids=["html", "array", "empty", "deep", "truncated"])
@pytest.mark.parametrize("status", [200, 404, 500])
def test_other_servers(server: Standin, body: bytes, status: int) -> None:
    server.replies["/status"] = (status, body)
    if status == 200 and not body:
        assert gsprof("http-status", server.address).err == ""
        return
    result = gsprof("http-status", server.address, status=EXIT_FORMAT)
    first = result.err.splitlines()[0]
    cause = FOREIGN[body] if status == 200 else f"/status with {status}"
    assert first.startswith(f"gsprof: {server.address} "), result
    assert "gsprof serve" in first and cause in first, result
    assert result.out == "", result


def test_an_answer_cannot_harm_the_terminal(server: Standin) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J"
    server.replies["/status"] = (200, json.dumps({evil: evil, "x": {"y": [evil]}}).encode())
    assert "\x1b" not in gsprof("http-status", server.address).out
    refusal = {"error": {"code": evil, "message": evil, "hint": evil}}
    server.replies["/status"] = (403, json.dumps(refusal).encode())
    result = gsprof("http-status", server.address, status=EXIT_PERM)
    assert "\x1b" not in result.err and "owned" in result.err


def test_config(server: Standin) -> None:
    assert "gsprof.sample_rate" in gsprof("config", server.address).out
    one = gsprof("config", server.address, "gsprof.sample_rate").out
    assert "gsprof.sample_rate" in one and "freq" not in one
    gsprof("config", server.address, "gsprof.sample_rate=0.1", "on=true", "word=a b")
    assert asked(server) == {"gsprof.sample_rate": 0.1, "on": True, "word": "a b"}
    assert server.requests[-1][0] == "PUT"
    gsprof(server.address, "config", "gsprof.sample_rate=0.5")
    assert asked(server) == {"gsprof.sample_rate": 0.5}
    whole = json.loads(gsprof("config", server.address, "--json").out)
    assert whole["gsprof.sample_rate"] == 0.5
