# SPDX-License-Identifier: Apache-2.0
"""Runs the gsprof program: to its end, or as a recorder of this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from typing import IO, Any, Dict, Iterable, Iterator, List, Optional, Sequence

from . import _follower, _gsprof
from .errors import GsprofError, NoSuchFile, TimedOut, from_code, from_status

# Longer than a recorder needs to finish, on any machine.
PATIENCE_S = 60.0


def program() -> str:
    found = _follower.find_program()
    if found is None:
        raise NoSuchFile("the gsprof program is not beside the package and not on PATH")
    return found


def _environment() -> "dict[str, str]":
    """Returns the environment without the variables that switch the agent on."""
    hidden = ("GSPROF", "GSPROF_TORCH_PROFILING", "LD_PRELOAD")
    return {key: text for key, text in os.environ.items() if key not in hidden}


def _events(lines: Iterable[bytes]) -> Iterator[Dict[str, Any]]:
    """What the program wrote to --ready-fd."""
    for line in lines:
        event = json.loads(line)
        if isinstance(event, dict):
            yield event


def _error(status: int, events: Iterable[Dict[str, Any]]) -> GsprofError:
    """The exception for the program's last error, with its message and hints."""
    errors = [event for event in events if event.get("event") == "error"]
    if not errors:
        return from_status(status, f"gsprof exited with status {status}")
    text = errors[-1]["message"].strip()
    prefix = "gsprof: "
    return from_code(errors[-1]["code"], text[len(prefix) :] if text.startswith(prefix) else text)


def run(*args: str, warnings: Optional[List[str]] = None) -> bytes:
    """Runs the program and returns its standard output. Raises the exception of its exit status,
    and appends its warnings to `warnings`."""
    with tempfile.TemporaryFile() as reported:
        done = subprocess.run(
            [program(), "--color", "never", "--ready-fd", str(reported.fileno()), *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[reported.fileno()],
            env=_environment(),
            check=False,
        )
        reported.seek(0)
        events = list(_events(reported))
    if done.returncode != 0:
        raise _error(done.returncode, events)
    if warnings is not None:
        warnings += [event["message"] for event in events if event.get("event") == "warning"]
    return done.stdout


class Recording:
    """Runs `gsprof record` on this process from start() to stop()."""

    def __init__(self, output: str, options: Sequence[str] = ()) -> None:
        self.output = output
        self._options = list(options)
        self._process: "Optional[subprocess.Popen[bytes]]" = None
        self._reported: Optional[IO[bytes]] = None
        self._pid = 0
        self._allowed = False
        self.samples = 0  # set by stop()

    def start(self) -> None:
        """Starts the recorder and returns when it samples this process."""
        # The kernel may let only ancestors read a process, and the recorder is a child.
        self._allowed = _follower.must_be_allowed() and _gsprof.allow_tracing(-1)
        self._pid = os.getpid()
        reading, writing = os.pipe()
        command = [program(), "--color", "never", "--ready-fd", str(writing), "record"]
        command += ["--pid", str(os.getpid()), "-o", self.output]
        try:
            self._process = subprocess.Popen(
                [*command, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[writing],
                env=_environment(),
                # An interrupt from the terminal is for the program, which stops the recorder.
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._reported = os.fdopen(reading, "rb")
        events: List[Dict[str, Any]] = []
        for event in _events(self._reported):
            if event.get("event") == "ready":
                return
            events.append(event)
        status = self._process.wait()
        self._end()
        raise _error(status, events)

    def _end(self) -> None:
        self._process = None
        if self._reported is not None:
            self._reported.close()
            self._reported = None
        self._refuse()

    def _refuse(self) -> None:
        if self._allowed:
            _gsprof.allow_tracing(0)
            self._allowed = False

    def stop(self) -> None:
        """Stops the recorder and waits until the output is written. Does nothing in a child of
        fork."""
        process = self._process
        if process is None or self._pid != os.getpid():
            return
        # Not SIGINT, which background jobs of a shell ignore.
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self._end()
            raise TimedOut(f"the recorder did not end within {PATIENCE_S:.0f} s") from None
        assert self._reported is not None
        events = list(_events(self._reported))
        self._end()
        done = [event for event in events if event.get("event") == "done"]
        self.samples = done[-1]["samples"] if done else 0
        if process.returncode != 0:
            raise _error(process.returncode, events)
