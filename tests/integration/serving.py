# SPDX-License-Identifier: Apache-2.0
"""A daemon for one test, with its own folders and a free port; requests and answers in JSON."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from support import GSPROF, PATIENCE_S, Lines, wait_for

Answer = Tuple[int, Any]


class UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(self.path))


class Daemon:
    """A running gsprof serve. Requests come from anybody on this machine; with owner=True, over the
    Unix socket of its owner."""

    def __init__(
        self,
        folder: Path,
        *args: object,
        env: Optional[Mapping[str, str]] = None,
        token: Optional[str] = None,
        before: Sequence[str] = (),
        owner: bool = False,
    ) -> None:
        self.folder = folder
        self.output = folder / "out"
        self.args = args
        self.token = token
        self.owner = owner
        self.before = before
        self.port = 0
        self.env = {
            **os.environ,
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            **(env or {}),
        }
        (folder / "run").mkdir(mode=0o700, exist_ok=True)
        self.process: Optional["subprocess.Popen[bytes]"] = None
        self.start()

    def start(self) -> None:
        """Starts or restarts the daemon and waits until the port is open."""
        given = [str(arg) for arg in self.args]
        if "--output-dir" not in given:
            given += ["--output-dir", str(self.output)]
        if "--port" not in given:
            given += ["--port", "0"]
        self.process = subprocess.Popen(
            [*self.before, str(GSPROF), "serve", *given],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=self.env,
            start_new_session=True,
        )
        assert self.process.stderr is not None
        output = "\n".join(Lines(self.process.stderr.fileno()).until("Serving"))
        found = re.search(r"http://[^ ]*:(\d+),", output)
        assert found, output
        self.port = int(found[1])

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket_path(self) -> Path:
        return self.folder / "state" / "gsprof" / f"port-{self.port}.sock"

    def connect(self, owner: bool) -> http.client.HTTPConnection:
        """Connects as the daemon's owner, or as anybody."""
        if owner:
            return UnixConnection(self.socket_path)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def raw(
        self,
        method: str,
        path: str,
        body: Optional[bytes] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Tuple[int, Dict[str, str], bytes]:
        connection = self.connect(self.owner)
        sent = dict(headers or {})
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        try:
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Returns the status and the JSON of an answer. Checks the form of an error."""
        given = None if body is None else json.dumps(body).encode()
        status, _, text = self.raw(method, path, given)
        answer = json.loads(text)
        if status >= 400:
            check_error(answer)
        return status, answer

    def get(self, path: str) -> Any:
        status, answer = self.ask("GET", path)
        assert status == 200, (path, status, answer)
        return answer

    def post(self, path: str, body: object = None) -> Any:
        status, answer = self.ask("POST", path, {} if body is None else body)
        assert status == 200, (path, status, answer)
        return answer

    def until(self, path: str, true: Callable[[Any], bool]) -> Any:
        """Repeats a request until true() accepts the answer. 503: there is no metric frame yet."""
        last: List[Any] = [None]

        def is_true() -> bool:
            status, last[0] = self.ask("GET", path)
            assert status in (200, 503), (path, status, last[0])
            return status == 200 and true(last[0])

        wait_for(is_true, f"{path}: no answer was accepted", pause_s=0.02)
        return last[0]

    def frames(self, more: int) -> None:
        """Waits for this many more metric frames."""
        first = self.get("/status")["frame_id_counter"]
        self.until("/status", lambda status: bool(status["frame_id_counter"] >= first + more))

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(timeout=PATIENCE_S)
        assert self.process.stderr is not None
        output = self.process.stderr.read().decode("utf-8", "replace")
        self.process.stderr.close()
        assert "Sanitizer" not in output and "runtime error:" not in output, output
        return status

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def check_error(answer: Any) -> None:
    error = answer["error"]
    assert error["code"] and error["message"], answer
    assert "hint" in error, answer


def names_of(answer: Any) -> List[str]:
    return [session["name"] for session in answer["sessions"]]
