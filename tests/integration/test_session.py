# SPDX-License-Identifier: Apache-2.0
"""gsprof.Session against a daemon, and the exceptions of the error table."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import NEEDS_EXTENSION, Serve
from support import PACKAGE, PATIENCE_S, ROOT, main_python


pytestmark = NEEDS_EXTENSION


@pytest.fixture(scope="module")
def package() -> Any:
    """Imports the package of the build into this process, with the agent off."""
    sys.path.insert(0, str(PACKAGE))
    try:
        import gsprof

        yield gsprof
    finally:
        sys.path.remove(str(PACKAGE))


def test_session_from_start_to_end(
    package: Any, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = serve()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with package.Session("epoch 5/6".replace("/", "-"), daemon.url, labels={"lr": "1"}) as one:
        daemon.frames(2)
        assert one.info()["is_active"] and one.info()["labels"] == {"lr": "1"}
        with pytest.raises(FileExistsError, match="epoch 5-6"):
            package.Session("epoch 5-6", daemon.url).start()
    assert not one.info()["is_active"] and one.info()["frame_count"] >= 2
    assert [session["name"] for session in one.list()] == ["epoch 5-6"]
    path = one.download(str(tmp_path / "got.json"))
    assert json.loads(Path(path).read_text()) == one.download()
    rows = one.query("SELECT name FROM session.list WHERE name = ?", ["epoch 5-6"])
    assert rows == [{"name": "epoch 5-6"}]
    assert one.status()["frame_id_counter"] >= 2
    one.delete()
    assert one.list() == []
    unnamed = package.Session(endpoint=str(daemon.port)).start()
    assert unnamed.name.startswith("profiling_")
    assert unnamed.stop()["output_file"]


def test_errors(
    package: Any, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = serve()
    with pytest.raises(PermissionError, match="owner"):
        package.Session("x", daemon.url).delete()
    # There the session finds the socket of its own daemon.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Session, errors = package.Session, package.errors
    with Session("there", daemon.url) as known:
        for call in ("stop", "info", "download", "delete"):
            with pytest.raises(KeyError, match="known: 'there'$"):
                getattr(Session("not there", daemon.url), call)()
        with pytest.raises(ValueError, match="start"):
            Session(endpoint=daemon.url).stop()
        with pytest.raises(errors.GsprofError) as caught:
            known.query("SELECT nothing FROM nowhere")
        assert "nowhere" in str(caught.value)
        with pytest.raises(ZeroDivisionError):
            with Session("gone", daemon.url) as gone:
                gone.stop()
                raise ZeroDivisionError
    for wrong in ({"name": 5}, {"endpoint": 5}):
        with pytest.raises(TypeError):
            Session(**wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        Session("x", speed=9)
    with pytest.raises(ValueError):
        Session("x", "http://user@host:1/path")
    with pytest.raises(ValueError):
        Session("../x", daemon.url).start()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionError, match="gsprof serve"):
            Session("x", f"127.0.0.1:{unused.getsockname()[1]}").start()


def test_tokens_and_the_socket(
    package: Any, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "it.sock"
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("right-token\n")
    daemon = serve("--token-file", secret, "--socket", path, token="right-token")
    monkeypatch.delenv("GSPROF_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "cfg"))
    with pytest.raises(package.errors.NotPermitted) as caught:
        package.Session("x", daemon.url).list()
    assert caught.value.hint and isinstance(caught.value, PermissionError)
    with pytest.raises(PermissionError):
        package.Session("x", daemon.url, token="wrong").list()
    assert package.Session("x", daemon.url, token="right-token").list() == []
    (tmp_path / "cfg" / "gsprof").mkdir(parents=True)
    (tmp_path / "cfg" / "gsprof" / "token").write_text("right-token\n")
    assert package.Session("x", daemon.url).list() == []
    monkeypatch.setenv("GSPROF_TOKEN", "wrong")
    with pytest.raises(PermissionError):
        package.Session("x", daemon.url).list()
    assert package.Session("x", f"unix:{path}").list() == []


def test_exceptions_match_the_error_table() -> None:
    done = subprocess.run(
        [main_python(), str(ROOT / "tools" / "gen_errors.py"), "--check"],
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


def test_exceptions_of_query(package: Any) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(package.errors.GsprofError):
        package.query("SELECT nothing FROM nowhere", pid=os.getpid())
    with pytest.raises(ProcessLookupError):
        package.query("SELECT 1", pid=ended.pid)
    for wrong in (5, None, b"SELECT 1"):
        with pytest.raises(TypeError, match="str"):
            package.query(wrong)
    with pytest.raises(TypeError, match="pid"):
        package.query("SELECT 1", pid="me")
