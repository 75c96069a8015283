# SPDX-License-Identifier: Apache-2.0
"""A fake server for the client commands. Answers as documented for gsprof serve, or as a test
prescribes."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, List, Optional, Tuple

START = "2026-01-15T10:30:00.000+00:00"


class Standin:
    """A server with sessions in memory. `replies` sets the raw answer of a path: (status, body)."""

    def __init__(self, token: Optional[str] = None) -> None:
        self.token = token
        self.sessions: List[Dict[str, Any]] = []
        self.config: Dict[str, Any] = {"gsprof.sample_rate": 1.0, "freq": "200ms"}
        self.replies: Dict[str, Tuple[int, bytes]] = {}
        self.requests: List[Tuple[str, str, bytes, Dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                outer.requests.append((self.command, self.path, body, dict(self.headers)))
                status, text = outer.reply(self.command, self.path, body, dict(self.headers))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def fail(self, status: int, code: str, message: str) -> Tuple[int, bytes]:
        return status, json.dumps({"error": {"code": code, "message": message}}).encode()

    def reply(
        self, method: str, path: str, body: bytes, headers: Dict[str, str]
    ) -> Tuple[int, bytes]:
        if path in self.replies:
            return self.replies[path]
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            return self.fail(401, "PERM", "a token is needed")
        made: Any = None
        if (method, path) == ("GET", "/status"):
            made = {"freq": 200, "is_profiling": bool(self.active()), "connected_clients": ["box"]}
            made["active_sessions"] = self.active()
            made["sources"] = [{"name": "gpu_nvml", "open": False, "trouble": "no driver"}]
        elif (method, path) == ("GET", "/profiling/sessions"):
            made = {"total_sessions": len(self.sessions), "active_sessions": len(self.active())}
            made["sessions"] = self.sessions
        elif (method, path) == ("POST", "/profiling/start"):
            return self.start(json.loads(body))
        elif (method, path) == ("POST", "/profiling/stop"):
            return self.stop(json.loads(body))
        elif path == "/config":
            if method == "PUT":
                self.config.update(json.loads(body))
            made = self.config
        else:
            return self.fail(404, "NOFILE", f"there is no {path}")
        return 200, json.dumps(made).encode()

    def active(self) -> List[Dict[str, Any]]:
        return [session for session in self.sessions if session["is_active"]]

    def start(self, asked: Dict[str, Any]) -> Tuple[int, bytes]:
        name = asked.get("name", "profiling_20260115_103000")
        if any(session["name"] == name for session in self.active()):
            return self.fail(409, "EXISTS", f"a session {name} is active")
        session = {"name": name, "is_active": True, "start_time": START, "frame_count": 0}
        session["output_file"] = f"{name}.json"
        session["labels"] = asked.get("labels", {})
        self.sessions.append(session)
        made = {"success": True, "message": f"session {name} started"}
        return 200, json.dumps({**made, "output_file": f"{name}.json"}).encode()

    def stop(self, asked: Dict[str, Any]) -> Tuple[int, bytes]:
        ended = [s for s in self.active() if asked.get("name") in (None, s["name"])]
        if asked.get("name") and not ended:
            names = ", ".join(session["name"] for session in self.active())
            return self.fail(404, "NOFILE", f"no active session {asked['name']}; active: {names}")
        for session in ended:
            session["is_active"] = False
        made = {"success": True, "message": f"{len(ended)} stopped", "stopped": ended}
        return 200, json.dumps(made).encode()
