# SPDX-License-Identifier: Apache-2.0
"""Sessions of a daemon (gsprof serve), from Python."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import struct
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union
from urllib.parse import quote

from .errors import GsprofError, NotPermitted, UsageError, from_code

PORT = 8091
TIMEOUT_S = 30.0
# Most names that an error lists.
NAMES_SHOWN = 20

Params = Union[Sequence[object], Mapping[str, object]]


class NoServer(GsprofError, ConnectionError):
    """No daemon answers there."""


class NoSuchSession(GsprofError, KeyError):
    """The daemon has no session of that name; the message lists the existing ones."""

    # KeyError would print the repr() of the message.
    __str__ = Exception.__str__


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _split(endpoint: str) -> Tuple[str, int, str]:
    """Returns host, port and socket path; the path is "" unless it is a Unix socket.

    >>> _split("localhost"), _split("8092"), _split("http://gpu7:9000/"), _split("[::1]:1")
    (('localhost', 8091, ''), ('localhost', 8092, ''), ('gpu7', 9000, ''), ('::1', 1, ''))
    >>> _split("unix:/run/gsprof.sock")
    ('', 0, '/run/gsprof.sock')
    """
    if not isinstance(endpoint, str):
        raise TypeError(f"endpoint must be a str, not {endpoint!r}")
    if endpoint.startswith("unix:"):
        return "", 0, endpoint[len("unix:") :]
    if endpoint.isdigit():
        return "localhost", int(endpoint), ""
    form = r"(?:http://)?(?:\[([^]]+)\]|([^:/\[\]]+))(?::(\d{1,5}))?/?"
    found = re.fullmatch(form, endpoint)
    if not found:
        raise UsageError(f"{endpoint!r} is not an endpoint: HOST, PORT, HOST:PORT or unix:PATH")
    return found.group(1) or found.group(2), int(found.group(3) or PORT), ""


_HERE = ("localhost", "127.0.0.1", "::1")
# Local addresses at which a connection to 127.0.0.1 or ::1 arrives, as numbers of 32 bits. A socket
# of [::] usually gets connections over IPv4, too.
_REACHED_4: Set[Tuple[int, ...]] = {(0,), (0x7F000001,), (0, 0, 0xFFFF, 0x7F000001)}
_REACHED_4 |= {(0, 0, 0xFFFF, 0), (0, 0, 0, 0)}
_REACHED_6: Set[Tuple[int, ...]] = {(0, 0, 0, 0), (0, 0, 0, 1)}
_REACHED = {"127.0.0.1": _REACHED_4, "::1": _REACHED_6}


def _listeners(host: str, port: int) -> Set[int]:
    """Returns the users who listen on this port where a connection to the host may arrive."""
    users: Set[int] = set()
    reached = _REACHED.get(host, _REACHED_4 | _REACHED_6)
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as file:
                rows = [line.split() for line in file]
        except OSError:
            continue
        for row in rows:
            if len(row) < 8 or row[3] != "0A":
                continue
            address, number = row[1].split(":")
            # The kernel prints each group as a number in the byte order of this machine.
            parts = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
            local = tuple(socket.ntohl(part) for part in parts)
            if int(number, 16) == port and local in reached:
                users.add(int(row[7]))
    return users


def _configured_token(host: str, port: int) -> Optional[str]:
    """Returns the token of this user's configuration, which is for this machine only. It is not
    sent to a server of another user, who may listen on the port."""
    if host not in _HERE:
        return None
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if not config.startswith("/"):
        config = os.path.join(os.path.expanduser("~"), ".config")
    try:
        with open(os.path.join(config, "gsprof", "token"), encoding="ascii") as file:
            token = file.read().strip() or None
    except FileNotFoundError:
        return None
    users = _listeners(host, port)
    others = users - {0, os.geteuid()}
    if others:
        raise from_code(
            "PERM",
            f"port {port} belongs to user {min(others)}, not to you, so the token of your "
            "configuration is not sent",
            "pass token= to send one nevertheless",
        )
    return token if users else None


def _own_socket(host: str, port: int) -> str:
    """Returns the socket of this user's daemon at that port of this machine, or "". The daemon
    gives its owner more rights than other local users."""
    if host not in _HERE:
        return ""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    path = os.path.join(state, "gsprof", f"port-{port}.sock")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(path)
            data = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return ""
    return path if struct.unpack("3i", data)[1] == os.geteuid() else ""


class Session:
    """A session of a daemon: a named interval of its metrics, written to a file.

        with gsprof.Session("epoch_5", labels={"lr": "3e-4"}) as session:
            train()
        session.download("epoch_5.json")

    endpoint is HOST, PORT, HOST:PORT or unix:PATH; the default is this machine. A daemon of this
    user on this machine is asked over its Unix socket. The default token is $GSPROF_TOKEN, or for
    this machine the one in $XDG_CONFIG_HOME/gsprof/token, which is not sent to a server of another
    user. Without a name the daemon chooses one, which name has after start(). The session has the
    metrics of the processes `pids`; with stacks=True their stacks are recorded, `rate` times a
    second, with native frames if native=True. force=True replaces the file of a finished session of
    that name."""

    def __init__(
        self,
        name: Optional[str] = None,
        endpoint: str = "localhost",
        *,
        token: Optional[str] = None,
        timeout_s: float = TIMEOUT_S,
        labels: Optional[Mapping[str, object]] = None,
        pids: Optional[Sequence[int]] = None,
        stacks: bool = False,
        rate: Optional[float] = None,
        native: bool = False,
        force: bool = False,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a str or None, not {name!r}")
        self.name = name
        self.endpoint = endpoint
        self._host, self._port, self._socket = _split(endpoint)
        self._token = os.environ.get("GSPROF_TOKEN", "").strip() if token is None else token
        self._given = token is not None
        self._timeout_s = timeout_s
        flags = {"stacks": stacks, "native": native, "force": force}
        values = {"labels": labels, "pids": pids, "rate": rate}
        self._options: Dict[str, object] = {key: flag for key, flag in flags.items() if flag}
        self._options.update((key, one) for key, one in values.items() if one is not None)

    def __repr__(self) -> str:
        return f"Session({self.name!r}, {self.endpoint!r})"

    # ------------------------------------------------------------------- one session

    def __enter__(self) -> "Session":
        return self.start()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.stop()
        except GsprofError:
            # The block's own exception takes precedence.
            if kind is None:
                raise

    def start(self) -> "Session":
        """Starts the session. Raises AlreadyExists (a FileExistsError) if the name is active."""
        body = {**self._options, **({} if self.name is None else {"name": self.name})}
        self.name = str(self._request("POST", "/profiling/start", body)["name"])
        return self

    def stop(self) -> Dict[str, Any]:
        """Ends the session. Returns the daemon's answer, with output_file and output_dir."""
        if self.name is None:
            raise UsageError("the session has no name yet: start() gives it one")
        answer: Dict[str, Any] = self._request("POST", "/profiling/stop", {"name": self.name})
        return answer

    def info(self) -> Dict[str, Any]:
        """Returns the daemon's description: is_active, frame_count, start_time, labels, ..."""
        answer: Dict[str, Any] = self._request("GET", self._path())
        return answer

    def download(self, path: Optional[str] = None, *, stacks: Optional[int] = None) -> Any:
        """Writes the session's file to path, or returns its content. With stacks=N, the N-th file
        of its stacks (.gsp), as bytes."""
        where = f"{self._path()}/download" + ("" if stacks is None else f"?stacks={int(stacks)}")
        answer = self._open("GET", where)
        with answer:
            if path is not None:
                with open(path, "wb") as file:
                    shutil.copyfileobj(answer, file)
                return path
            data = answer.read()
        return data if stacks is not None else json.loads(data)

    def delete(self) -> None:
        """Deletes the session and its file; an active one has to be stopped first."""
        self._request("DELETE", self._path())

    def _path(self) -> str:
        if self.name is None:
            raise UsageError("the session has no name yet: start() gives it one")
        return f"/profiling/sessions/{quote(self.name, safe='')}"

    # -------------------------------------------------------------------- the daemon

    def list(self) -> List[Dict[str, Any]]:
        """Returns all sessions of the daemon, the active ones first."""
        found: List[Dict[str, Any]] = self._request("GET", "/profiling/sessions")["sessions"]
        return found

    def status(self) -> Dict[str, Any]:
        """Returns the daemon's rate, sources with their errors, and losses."""
        answer: Dict[str, Any] = self._request("GET", "/status")
        return answer

    def query(self, sql: str, params: Optional[Params] = None) -> List[Dict[str, Any]]:
        """Returns the rows of a SELECT over the daemon's tables; params are for ? or $name."""
        body: Dict[str, object] = {"sql": sql}
        if params is not None:
            body["params"] = dict(params) if isinstance(params, Mapping) else [*params]
        rows: List[Dict[str, Any]] = self._request("POST", "/query", body)
        return rows

    # -------------------------------------------------------------------- requests

    def _request(self, method: str, path: str, body: Optional[Mapping[str, object]] = None) -> Any:
        with self._open(method, path, body) as answer:
            return json.loads(answer.read())

    def _open(
        self, method: str, path: str, body: Optional[Mapping[str, object]] = None
    ) -> http.client.HTTPResponse:
        """Returns the answer, or raises if it is an error. Closing it closes the connection."""
        own = self._socket or ("" if self._given else _own_socket(self._host, self._port))
        if own:
            connection: http.client.HTTPConnection = _Unix(own, self._timeout_s)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        headers = {"Connection": "close"}
        secret: Optional[str] = self._token
        if not secret and not self._given and not own:
            secret = _configured_token(self._host, self._port)
        if secret and not own:
            headers["Authorization"] = f"Bearer {secret}"
        text = None if body is None else json.dumps(body, allow_nan=False).encode()
        try:
            connection.request(method, path, body=text, headers=headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                with answer:
                    raise self._refused(answer.status, answer.read(), path)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if isinstance(error, GsprofError):
                raise
            raise NoServer(
                f"no daemon answers at {self.endpoint}: {error or type(error).__name__};"
                " `gsprof serve` starts one"
            ) from error
        return answer

    def _refused(self, status: int, data: bytes, path: str) -> GsprofError:
        try:
            error_member = json.loads(data)["error"]
            code, message = str(error_member["code"]), str(error_member["message"])
            hint = error_member.get("hint")
        except (ValueError, KeyError, TypeError):
            code, message, hint = "", f"the daemon answered with status {status}", None
        if status in (401, 403):
            error: GsprofError = NotPermitted(message)
            error.hint = hint
            return error
        if status == 404 and path.startswith("/profiling/"):
            return NoSuchSession(f"{message}; known: {self._names()}")
        return from_code(code, message, hint)

    def _names(self) -> str:
        names = [repr(one["name"]) for one in self.list()]
        more = ", ..." if len(names) > NAMES_SHOWN else ""
        return ", ".join(names[:NAMES_SHOWN]) + more or "none"
