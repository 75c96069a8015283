# SPDX-License-Identifier: Apache-2.0
"""Runs the gsprof program: to its end, or as a recorder of this process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import List, Optional, Sequence

from . import _follower, _gsprof
from .errors import GsprofError, NoSuchFile, TimedOut, from_status

# Longer than a recorder needs to finish, on any machine.
PATIENCE_S = 60.0
_WARNING = "gsprof: warning: "


def program() -> str:
    found = _follower.find_program()
    if found is None:
        raise NoSuchFile("the gsprof program is not beside the package and not on PATH")
    return found


def _environment() -> "dict[str, str]":
    """Returns the environment without the variables that switch the agent on."""
    hidden = ("GSPROF", "GSPROF_TORCH_PROFILING", "LD_PRELOAD")
    return {key: text for key, text in os.environ.items() if key not in hidden}


def _message(stderr: bytes) -> str:
    """Returns the error and its hints, without the lines printed before it."""
    text = "\n" + stderr.decode("utf-8", "replace").strip()
    return text.rpartition("\ngsprof: ")[2].strip()


def run(*args: str, warnings: Optional[List[str]] = None) -> bytes:
    """Runs the program and returns its stdout; raises the exception of its exit status. Appends its
    warnings to `warnings`."""
    done = subprocess.run(
        [program(), "--color", "never", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        check=False,
    )
    if done.returncode != 0:
        raise from_status(done.returncode, _message(done.stderr))
    if warnings is not None:
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        warnings += [line[len(_WARNING) :] for line in lines if line.startswith(_WARNING)]
    return done.stdout


class Recording:
    """Runs `gsprof record` on this process from start() to stop()."""

    def __init__(self, output: str, options: Sequence[str] = ()) -> None:
        self.output = output
        self._options = list(options)
        self._process: "Optional[subprocess.Popen[bytes]]" = None
        self._pid = 0
        self._allowed = False
        self.samples = 0  # set by stop()

    def start(self) -> None:
        """Returns when the recorder is recording."""
        command = [program(), "--color", "never", "record"]
        command += ["--pid", str(os.getpid()), "-o", self.output]
        # Yama may allow tracing to ancestors only, and the recorder is a child.
        self._allowed = _follower.must_be_allowed() and _gsprof.allow_tracing(-1)
        self._pid = os.getpid()
        self._process = subprocess.Popen(
            [*command, *self._options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_environment(),
            # Ctrl-C is for the program, which then stops the recorder.
            start_new_session=True,
        )
        assert self._process.stderr is not None
        said: List[bytes] = []
        for line in self._process.stderr:
            said.append(line)
            if line.startswith(b"Recording"):
                return
        raise self._failed(b"".join(said))

    def _failed(self, said: bytes) -> GsprofError:
        assert self._process is not None
        status = self._process.wait()
        self._process = None
        self._refuse()
        return from_status(status, _message(said))

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
            _, said = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self._process = None
            raise TimedOut(f"the recorder did not end within {PATIENCE_S:.0f} s") from None
        finally:
            self._refuse()
        self._process = None
        told = re.search(rb"^([0-9,]+) samples? in ", said, re.MULTILINE)
        self.samples = int(told.group(1).replace(b",", b"")) if told else 0
        if process.returncode != 0:
            raise from_status(process.returncode, _message(said))
