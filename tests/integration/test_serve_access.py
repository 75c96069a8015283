# SPDX-License-Identifier: Apache-2.0
"""gsprof serve: who may do what. The matrix of doors and routes, files that no session owns, the
login of the page, and the commands of the daemon's owner."""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import shutil
import subprocess
import tempfile
import urllib.parse
from pathlib import Path
from typing import Dict

import pytest
from access_matrix import (
    OTHER_USER,
    ROUTES,
    SPECIALS,
    all_users,
    ask_owner,
    check_matrix,
    log_in,
    markdown,
)
from conftest import Serve
from serving import Daemon
from support import EXIT_PERM, GSPROF, PATIENCE_S, ROOT, Lines, gsprof, wait_for

TABLES = ("<!-- access: begin -->\n", "<!-- access: end -->\n")


def test_matrix() -> None:
    # pytest closes its own folders to other users, also while this test runs.
    with tempfile.TemporaryDirectory(prefix="gsprof-access-") as folder:
        check_rows(Path(folder))


def check_rows(folder: Path) -> None:
    rows = sum(len(routes) for routes in ROUTES.values()) + len(SPECIALS)
    # Over TCP it makes no difference who asks, so the last user is enough here.
    assert check_matrix(folder, all_users()[-1:]) >= rows * 11


def test_the_document_has_the_tables() -> None:
    """Write them with: python3 -c 'import access_matrix; print(access_matrix.markdown())'."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    begin, end = (text.index(mark) for mark in TABLES)
    assert text[begin + len(TABLES[0]) : end] == markdown()


def test_other_files_are_neither_replaced_nor_removed(serve: Serve, tmp_path: Path) -> None:
    daemon = serve(owner=True)
    mine = daemon.output / "package.json"
    mine.write_text('{"precious": true}', encoding="utf-8")
    body = {"name": "package", "force": True}
    assert daemon.post("/profiling/start", body)["output_file"] == "package_2.json"
    daemon.post("/profiling/stop", {"name": "package"})
    # A file that appears while the session runs, and one that replaces the session's file.
    daemon.post("/profiling/start", {"name": "late", "force": True})
    (daemon.output / "late.json").write_text("late", encoding="utf-8")
    assert daemon.post("/profiling/stop", {"name": "late"})["output_file"] == "late_2.json"
    assert (daemon.output / "late.json").read_text(encoding="utf-8") == "late"
    swapped = daemon.output / "late_2.json"
    swapped.write_text("swapped", encoding="utf-8")
    for owner in (True, False):
        daemon.owner = owner
        status, answer = daemon.ask("GET", "/profiling/sessions/late/download")
        assert (status, answer["error"]["code"]) == (404, "NOFILE"), answer
    daemon.owner = True
    for name in ("package", "late"):
        assert daemon.ask("DELETE", f"/profiling/sessions/{name}")[0] == 200
    assert mine.read_text(encoding="utf-8") == '{"precious": true}'
    assert swapped.read_text(encoding="utf-8") == "swapped"
    assert not (daemon.output / "package_2.json").exists()

    # The file of a finished session is replaced once it is safe on disk, and also if the daemon has
    # forgotten the session.
    def is_replaced() -> bool:
        daemon.post("/profiling/start", {"name": "x", "force": True})
        return bool(daemon.post("/profiling/stop", {"name": "x"})["output_file"] == "x.json")

    assert is_replaced()
    wait_for(is_replaced, "x.json is never replaced", pause_s=0.1)
    assert daemon.stop() == 0
    shutil.rmtree(tmp_path / "state")
    daemon.start()
    assert is_replaced()
    # Links and other names are not the session's file.
    kept = (daemon.output / "x.json").read_bytes()
    (daemon.output / "copy.json").write_bytes(kept)
    (daemon.output / "link.json").symlink_to("x.json")
    for name in ("copy", "link"):
        started = daemon.post("/profiling/start", {"name": name, "force": True})
        assert started["output_file"] == f"{name}_2.json"
    daemon.post("/profiling/stop", {})
    assert (daemon.output / "x.json").read_bytes() == kept


def test_a_pipe_in_the_place_of_a_file_stops_nothing(serve: Serve) -> None:
    daemon = serve(owner=True)
    daemon.post("/profiling/start", {"name": "a"})
    daemon.post("/profiling/stop", {"name": "a"})
    file = daemon.output / "a.json"
    file.unlink()
    os.mkfifo(file)
    assert daemon.ask("GET", "/profiling/sessions/a/download")[0] == 404
    assert daemon.get("/health")["status"] == "ok"
    started = daemon.post("/profiling/start", {"name": "a", "force": True})
    assert started["output_file"] == "a_2.json"
    assert daemon.ask("POST", "/profiling/stop", {"name": "a"})[0] == 200
    assert daemon.ask("DELETE", "/profiling/sessions/a")[0] == 200
    assert file.is_fifo()


def test_anonymous_queries_see_the_tables_of_the_daemon(serve: Serve) -> None:
    daemon = serve(owner=True)
    daemon.post("/profiling/start", {"name": "seen", "pids": [os.getpid()]})
    daemon.frames(3)
    daemon.owner = False
    tables = ("system.memory", "system.cpu", "process.metrics", "session.list")
    counts = ", ".join(f'(SELECT count(*) FROM {table}) AS "{table}"' for table in tables)
    (found,) = daemon.post("/query", {"sql": f"SELECT {counts}"})
    assert all(found[table] > 0 for table in tables), found
    listed = daemon.post("/query", {"sql": "SELECT table_name FROM information_schema.tables"})
    assert "stack_sample" in {row["table_name"] for row in listed}
    settings = "SELECT name, value FROM gsprof.setting"
    for sql in (
        settings,
        "SELECT (SELECT count(*) FROM gsprof.setting) AS n, * FROM gsprof.loss",
        "SELECT count(*) FROM python.span",
        "WITH a AS (FROM python.variables) SELECT (SELECT max(ts_ns) FROM a) AS newest",
    ):
        status, answer = daemon.ask("POST", "/query", {"sql": sql})
        assert status == 403 and "http-login" in answer["error"]["hint"], (sql, answer)
    daemon.owner = True
    assert "gsprof.bind" in {row["name"] for row in daemon.post("/query", {"sql": settings})}


# --------------------------------------------------------------------------- the page


def submit(daemon: Daemon, code: str, **headers: str) -> http.client.HTTPResponse:
    """Sends the form of the page as a browser does."""
    connection = daemon.connect(owner=False)
    sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    connection.request("POST", "/login", urllib.parse.urlencode({"code": code}), sent)
    answer = connection.getresponse()
    answer.body = answer.read()  # type: ignore[attr-defined]
    return answer


def page(daemon: Daemon, headers: Dict[str, str]) -> str:
    status, _, text = daemon.raw("GET", "/", None, {"Authorization": "", **headers})
    assert status == 200
    return text.decode()


def test_anonymous_sessions_are_small(serve: Serve) -> None:
    daemon = serve()
    labels = {str(number): "x" * 1000 for number in range(17)}
    status, answer = daemon.ask("POST", "/profiling/start", {"name": "x", "labels": labels})
    assert (status, answer["error"]["code"]) == (413, "LIMIT")
    assert daemon.ask("GET", "/status")[1]["overheads"] == []


def test_the_page_logs_in_with_a_code(serve: Serve, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("right", encoding="ascii")
    daemon = serve("--token-file", secret, token="right")
    daemon.post("/profiling/start", {"name": "my-session"})
    assert "<form" in page(daemon, {}) and "my-session" not in page(daemon, {})
    code = daemon.post("/login/code")["code"]
    assert re.fullmatch(r"(\w{4}-){3}\w{4}", code)
    foreign = submit(daemon, code, Origin="http://localhost:1")
    assert foreign.status == 403
    wrong = submit(daemon, "0000-0000-0000-0000")
    assert wrong.status == 403 and b"<form" in wrong.body  # type: ignore[attr-defined]
    right = submit(daemon, code.upper().replace("-", " "), Origin=daemon.url)
    assert right.status == 303 and right.getheader("Location") == "/"
    cookie = str(right.getheader("Set-Cookie"))
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    sent = {"Cookie": cookie.split(";")[0]}
    assert "my-session" in page(daemon, sent) and "<form" not in page(daemon, sent)
    assert submit(daemon, code).status == 403  # once only
    # The cookie counts for the daemon's own page only.
    for site, status in (("same-origin", 200), ("none", 200), ("same-site", 401)):
        headers = {**sent, "Authorization": "", "Sec-Fetch-Site": site}
        assert daemon.raw("GET", "/targets", None, headers)[0] == status, site
    headers = {**sent, "Authorization": "", "Sec-Fetch-Site": "cross-site"}
    assert daemon.raw("POST", "/profiling/stop", b"{}", headers)[0] == 403
    # Wrong codes of other users do not keep the owner from logging in.
    code = daemon.post("/login/code")["code"]
    for wrong_code in ("x", "0000-0000-0000-0000"):
        assert [submit(daemon, wrong_code).status for _ in range(10)] == [403] * 10
    assert submit(daemon, code).status == 303


def test_the_links_of_the_page_work(serve: Serve) -> None:
    daemon = serve()
    daemon.frames(1)
    for owner, trusted in ((False, 0), (True, 2)):
        daemon.owner = owner
        links = re.findall(r'href="([^"]+)"', page(daemon, {}))
        assert len(links) == 5 + trusted
        for link in links:
            assert daemon.raw("GET", link)[0] == 200, link


def test_a_login_without_a_token(serve: Serve) -> None:
    daemon = serve()
    assert daemon.ask("GET", "/targets")[0] == 403
    assert daemon.raw("GET", "/targets", None, log_in(daemon))[0] == 200
    assert daemon.raw("PUT", "/config", b"{}", log_in(daemon))[0] == 403


def test_serve_shows_a_code_only_on_a_terminal(serve: Serve, tmp_path: Path) -> None:
    daemon = serve()
    assert daemon.stop() == 0
    mine, other = pty.openpty()
    command = [str(GSPROF), "serve", "--port", "0", "--output-dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=other, env={**daemon.env, "TERM": "dumb"}) as process:
        os.close(other)
        try:
            text = "\n".join(Lines(mine).until("once"))
            found = re.search(r"http://127.0.0.1:(\d+) accepts the code ([-\w]+) once", text)
            assert found, text
            daemon.port = int(found[1])
            assert submit(daemon, found[2]).status == 303
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)
            os.close(mine)


# ------------------------------------------------------------------------ the commands


def test_commands_of_the_owner_use_the_socket(serve: Serve, tmp_path: Path) -> None:
    daemon = serve()
    at = f"127.0.0.1:{daemon.port}"
    owner = {"XDG_STATE_HOME": str(tmp_path / "state")}
    stranger = {"XDG_STATE_HOME": str(tmp_path / "nowhere")}
    sql = ("query", at, "SELECT count(*) AS n FROM python.stack_sample", "-f", "json")
    for args in (
        ("http-profile", at, "--name", "x", "--force"),
        ("config", at, "sample_rate=50ms"),
        sql,
        ("http-login", at),
    ):
        refused = gsprof(*args, env=stranger, status=EXIT_PERM)
        assert "gsprof http-login" in refused.err
        gsprof(*args, env=owner)
    code = gsprof("http-login", at, env=owner).out.strip()
    assert submit(daemon, code).status == 303
    assert json.loads(gsprof("http-login", at, "--json", env=owner).out)["url"] == daemon.url
    # A socket that a killed daemon has left does not hinder the command.
    path = daemon.socket_path
    daemon.end()
    assert path.exists()
    assert "no server is listening" in gsprof("http-status", at, env=owner, status=None).err
    daemon.start()
    assert not path.exists() and daemon.socket_path.exists()
    assert ask_owner(daemon, "GET", "/status")["pid"] == daemon.pid
    assert daemon.stop() == 0 and not daemon.socket_path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_commands_of_another_user_do_not(serve: Serve, tmp_path: Path) -> None:
    daemon = serve()
    become = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
    env = {"PATH": os.environ["PATH"], "HOME": "/", "XDG_STATE_HOME": str(tmp_path / "state")}
    at = f"127.0.0.1:{daemon.port}"

    def run(*args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*become, str(GSPROF), *args],
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    assert run("http-profile", at, "--name", "of-another").returncode == 0
    assert run("http-profile", at, "--force").returncode == EXIT_PERM
    assert run("query", at, "FROM python.stack").returncode == EXIT_PERM
    assert run("config", at, "query_rows=1000000").returncode == EXIT_PERM
    assert run("http-login", at).returncode == EXIT_PERM
