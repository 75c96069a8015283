# SPDX-License-Identifier: Apache-2.0
"""A daemon that is asked through its Unix socket."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from support import PATIENCE_S, Lines, wait_for


# A daemon says within this time that it serves.
QUIET_S = 30.0


class Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(self.path))


class Served:
    """A daemon that is asked through its Unix socket."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        more: Sequence[str] = (),
        freq: str = "20ms",
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.socket = folder / "s"
        argv = [*command, "serve", "--socket", str(self.socket), "--port", "0", "--freq", freq]
        argv += ["--output-dir", str(folder / "out"), *more]
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
            start_new_session=True,
        )
        assert self.process.stderr is not None
        self.lines = Lines(self.process.stderr.fileno())
        self.said: List[str] = []
        try:
            self.wait_until_ready()
        except TimeoutError:
            self.end()
            raise

    def wait_until_ready(self) -> None:
        """Waits until the daemon serves or has ended."""
        while True:
            try:
                line = self.lines.next(QUIET_S)
            except TimeoutError:
                if self.ask("GET", "/health")[0] == 200:
                    return  # it could not write the line
                raise
            if line is None:
                return
            self.said.append(line)
            if "Serving" in line:
                return

    def ask(self, method: str, path: str, body: object = None) -> Tuple[int, Any]:
        """Returns status and answer; status 0 if the connection ended."""
        connection = Connection(self.socket)
        try:
            given = None if body is None else json.dumps(body)
            connection.request(method, path, body=given)
            answer = connection.getresponse()
            text = answer.read()
            try:
                return answer.status, json.loads(text)
            except ValueError:
                return answer.status, None
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    def frames(self, more: int, seen: Optional["Returned"] = None) -> int:
        """Waits for this many more ticks, also of frames that could not be written. Returns their
        number. Notes the frames that the daemon returns meanwhile."""
        first = self.ask("GET", "/status")[1]["ticks"]

        def ticks() -> Any:
            if seen:
                seen.note(self)
            status, now = self.ask("GET", "/status")
            return now["ticks"] if status == 200 and now["ticks"] >= first + more else 0

        return int(wait_for(ticks, "the daemon has no new frames"))

    def stop(self) -> int:
        """Sends SIGTERM. Returns the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(timeout=PATIENCE_S)
        while not self.lines.ended:
            line = self.lines.next(5)
            if line is None:
                break
            self.said.append(line)
        return status

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()


class Returned:
    """The metric frames that a daemon has returned since the start of a session, by their time."""

    def __init__(self) -> None:
        self.times: Set[str] = set()
        self.at_risk: Set[str] = set()  # returned while the daemon may have been unable to write
        self.is_at_risk = False

    def note(self, daemon: Served) -> None:
        status, answer = daemon.ask("GET", "/metrics/latest")
        frame = (answer or {}).get("frame") if status == 200 else None
        if frame:
            (self.at_risk if self.is_at_risk else self.times).add(frame["time"])

    def check(self, whole: Dict[str, Any]) -> List[str]:
        """Returns which of them the file of the session lacks. One that was at risk may be missing
        if the file says that frames were lost there."""
        recorded = {frame["time"] for frame in whole["frames"]}
        # The first frame that was returned may have begun before the session.
        first = min(recorded) if recorded else ""
        lost = {time for time in self.times if time >= first} - recorded
        gaps = [gap for gap in whole.get("gaps", []) if gap["frames_lost"]]
        for time in {time for time in self.at_risk if time >= first} - recorded:
            if not any((gap["from"] or "") < time < (gap["to"] or "~") for gap in gaps):
                lost.add(time)
        if not lost:
            return []
        return [f"{len(lost)} frames were returned and are not in the file, such as {min(lost)}"]
