# SPDX-License-Identifier: Apache-2.0
"""Who may send which request to gsprof serve: the table, and a check of every cell.

check_matrix(folder, users) starts the daemons, sends each request through each door as each user,
and returns the number of requests. docs/security.md has the same tables; markdown() writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from serving import Daemon
from support import PATIENCE_S

TOKEN = "a-token-for-the-matrix"
OTHER_USER = 1501
# A pid that no process has.
NO_PID = 4194305

# What each request needs. The names are those of /openapi.json (x-needs).
ROUTES: Dict[str, Tuple[str, ...]] = {
    "nothing": ("GET /", "GET /health", "GET /ready", "POST /login"),
    "access": (
        "GET /status",
        "GET /clients",
        "GET /metrics",
        "GET /metrics/latest",
        "GET /stream",
        "GET /profiling/sessions",
        "GET /profiling/sessions/{name}",
        "GET /profiling/sessions/{name}/download",
        "POST /profiling/start",
        "POST /profiling/stop",
        "POST /query",
        "GET /openapi.json",
    ),
    "trust": (
        "GET /config",
        "DELETE /profiling/sessions/{name}",
        "GET /targets",
        "POST /targets/{pid}/dump",
        "GET /flamegraph",
        "POST /login/code",
    ),
    "control": (
        "PUT /config",
        "POST /targets/{pid}/attach",
        "POST /targets/{pid}/detach",
        "POST /targets/{pid}/record",
    ),
}


class Special(NamedTuple):
    """A request that needs more than its route does."""

    needs: str
    route: str
    shown: str
    path: str
    body: Optional[Dict[str, Any]]


SPECIALS = (
    Special("trust", "POST /profiling/start", "`force`", "", {"name": "f", "force": True}),
    Special("trust", "GET /profiling/sessions/{name}/download", "`?stacks=N`", "?stacks=1", None),
    Special("trust", "POST /query", "a table `python.*`", "", {"sql": "FROM python.stack_sample"}),
    Special("trust", "POST /query", "`gsprof.setting`", "", {"sql": "FROM gsprof.setting"}),
    Special("control", "POST /profiling/start", "`pids`", "", {"stacks": True, "pids": [NO_PID]}),
)

# The status of a refused request, by door and need; 0: it is allowed.
DOORS: Dict[str, Dict[str, int]] = {
    "TCP, daemon without token": {"nothing": 0, "access": 0, "trust": 403, "control": 403},
    "TCP, daemon with token, not sent": {"nothing": 0, "access": 401, "trust": 401, "control": 401},
    "TCP with token or login": {"nothing": 0, "access": 0, "trust": 0, "control": 403},
    "the same, and `--allow-control`": {"nothing": 0, "access": 0, "trust": 0, "control": 0},
    "owner's Unix socket": {"nothing": 0, "access": 0, "trust": 0, "control": 0},
    "Unix socket, another user": {"nothing": 403, "access": 403, "trust": 403, "control": 403},
}


def markdown() -> str:
    """The tables of docs/security.md."""
    lines = ["| door | " + " | ".join(f"*{need}*" for need in ROUTES) + " |"]
    lines.append("|---" * (len(ROUTES) + 1) + "|")
    for door, cells in DOORS.items():
        shown = ["yes" if not cells[need] else f"no ({cells[need]})" for need in ROUTES]
        lines.append(f"| {door} | " + " | ".join(shown) + " |")
    lines += ["", "| need | requests |", "|---|---|"]
    for need, routes in ROUTES.items():
        cells_of = [f"`{route}`" for route in routes]
        cells_of += [f"`{row.route}` with {row.shown}" for row in SPECIALS if row.needs == need]
        lines.append(f"| *{need}* | " + ", ".join(cells_of) + " |")
    return "\n".join(lines) + "\n"


class Request(NamedTuple):
    """One row of the matrix."""

    name: str
    needs: str
    method: str
    path: str
    body: Optional[Dict[str, Any]]


def requests_of(description: Dict[str, Any]) -> Iterator[Request]:
    """Every route of /openapi.json. A route that is missing in ROUTES fails."""
    needs = {route: need for need, routes in ROUTES.items() for route in routes}
    found = {
        f"{method.upper()} {path}": operation["x-needs"]
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    }
    assert found == needs
    for route, need in sorted(needs.items()):
        yield request_of(route, need, "", {} if route.startswith(("POST", "PUT")) else None)
    for row in SPECIALS:
        yield request_of(row.route, row.needs, row.path, row.body)


def request_of(route: str, need: str, query: str, body: Optional[Dict[str, Any]]) -> Request:
    method, path = route.split()
    path = path.replace("{name}", "no-such").replace("{pid}", str(NO_PID)) + query
    return Request(f"{route} {query}{body or ''}", need, method, path, body)


# Sends requests from stdin (JSON) as another user; prints their statuses and error codes. /stream
# has no end, so only the head of an answer is read.
SENDER = """
import encodings.idna, http.client, json, os, socket, sys
if int(sys.argv[1]):
    os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
where, headers, wanted = json.load(sys.stdin)
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(where)
results = []
for method, path, body in wanted:
    kind = Unix if isinstance(where, str) else http.client.HTTPConnection
    one = kind("127.0.0.1", 0 if isinstance(where, str) else where, timeout=float(sys.argv[2]))
    one.request(method, path, None if body is None else json.dumps(body), headers)
    answer = one.getresponse()
    code = ""
    if answer.status >= 400:
        text = answer.read()
        try:
            code = json.loads(text)["error"]["code"]
        except ValueError:
            pass
    results.append([answer.status, code])
    one.close()
print(json.dumps(results))
"""


def send(
    where: object, headers: Dict[str, str], rows: Sequence[Request], user: int
) -> List[Tuple[int, str]]:
    given = json.dumps([where, headers, [(row.method, row.path, row.body) for row in rows]])
    done = subprocess.run(
        [sys.executable, "-c", SENDER, str(user), str(PATIENCE_S)],
        input=given,
        stdout=subprocess.PIPE,
        text=True,
        timeout=3 * PATIENCE_S,
        check=True,
    )
    return [(int(status), str(code)) for status, code in json.loads(done.stdout)]


def check_door(door: str, where: object, headers: Dict[str, str], user: int, daemon: Daemon) -> int:
    """Sends every request through a door. Returns their number."""
    rows = list(requests_of(ask_owner(daemon, "GET", "/openapi.json")))
    wrong = []
    for row, (status, code) in zip(rows, send(where, headers, rows, user)):
        refused = status if code in ("TRUST", "CONTROL", "PERM", "TOKEN") else 0
        if refused != DOORS[door][row.needs] or status >= 500:
            wrong.append((door, user, row.name, status, code))
    assert not wrong, wrong
    return len(rows)


def ask_owner(daemon: Daemon, method: str, path: str, body: object = None) -> Any:
    connection = daemon.connect(owner=True)
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def log_in(daemon: Daemon) -> Dict[str, str]:
    """Returns the header of a client that has logged in."""
    code = ask_owner(daemon, "POST", "/login/code", {})["code"]
    given = json.dumps({"code": code}).encode()
    status, headers, _ = daemon.raw("POST", "/login", given, {"Authorization": ""})
    assert status == 200, status
    return {"Cookie": headers["Set-Cookie"].split(";")[0]}


def open_folders(path: Path) -> None:
    """Lets every user reach a file, so that only the daemon itself can refuse."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if mode & 0o001 == 0:
            folder.chmod(mode | 0o001)


def check_daemon(daemon: Daemon, has_token: bool, allows_control: bool, users: List[int]) -> int:
    daemon.frames(1)
    anonymous = "TCP, daemon with token, not sent" if has_token else "TCP, daemon without token"
    known = "the same, and `--allow-control`" if allows_control else "TCP with token or login"
    count = check_door("owner's Unix socket", str(daemon.socket_path), {}, 0, daemon)
    for user in users:
        if not allows_control:
            count += check_door(anonymous, daemon.port, {}, user, daemon)
        count += check_door(known, daemon.port, log_in(daemon), user, daemon)
        if has_token:
            sent = {"Authorization": f"Bearer {TOKEN}"}
            count += check_door(known, daemon.port, sent, user, daemon)
        if has_token and not allows_control:
            wrong = {"Authorization": f"Bearer {TOKEN}x", "Cookie": f"gsprof_{daemon.port}=x"}
            count += check_door(anonymous, daemon.port, wrong, user, daemon)
        if user:
            open_folders(daemon.socket_path)
            daemon.socket_path.chmod(0o666)
            other = "Unix socket, another user"
            count += check_door(other, str(daemon.socket_path), {}, user, daemon)
    return count


def all_users() -> List[int]:
    """0 is this user. Only root can be another one too."""
    return [0, OTHER_USER] if os.geteuid() == 0 else [0]


def check_matrix(folder: Path, users: List[int]) -> int:
    """Starts a daemon of each kind in an empty folder and checks all cells. Raises AssertionError
    with the wrong ones, or returns the number of requests."""
    secret = folder / "token"
    secret.touch(mode=0o600)
    secret.write_text(TOKEN, encoding="ascii")
    with_token = ("--token-file", secret)
    count = 0
    for number, args in enumerate(((), with_token, (*with_token, "--allow-control"))):
        (folder / str(number)).mkdir()
        daemon = Daemon(
            folder / str(number), "--freq", "20ms", *args, token=TOKEN if args else None
        )
        try:
            count += check_daemon(daemon, bool(args), "--allow-control" in args, users)
            assert daemon.stop() == 0
        finally:
            daemon.end()
    return count
