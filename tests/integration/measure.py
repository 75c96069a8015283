# SPDX-License-Identifier: Apache-2.0
"""Runs a command and measures its peak memory, processor time and duration."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Mapping, NamedTuple, Optional, Sequence

from support import PATIENCE_S

# The kernel starts the peak of a process with the memory of the process that it was forked from.
# So a small process forks the command, and returns what the command used.
SCRIPT = """
import os, signal, sys
answer = int(sys.argv[1])
pid = os.fork()
if pid == 0:
    os.close(answer)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
used = (os.waitstatus_to_exitcode(status), usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
os.write(answer, " ".join(map(str, used)).encode())
"""


class Measured(NamedTuple):
    """What a command printed and used."""

    status: int
    out: str
    err: str
    peak_mb: float
    cpu_s: float
    time_s: float


def become(uid: Optional[int]) -> None:
    """Becomes another user; None changes nothing."""
    if uid is not None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


def measure(
    *command: object,
    given: str = "",
    env: Optional[Mapping[str, str]] = None,
    uid: Optional[int] = None,
    limit_s: float = PATIENCE_S,
) -> Measured:
    """Runs a command to its end, with given as its input; kills it after limit_s. The command has
    the path of a program."""
    read_end, answer = os.pipe()
    argv: Sequence[str] = [sys.executable, "-SE", "-c", SCRIPT, str(answer), *map(str, command)]
    with tempfile.TemporaryFile() as in_, tempfile.TemporaryFile() as out, (
        tempfile.TemporaryFile()
    ) as err, os.fdopen(read_end, "rb") as answers:
        in_.write(given.encode())
        in_.seek(0)
        begin = time.monotonic()
        child = subprocess.Popen(
            argv,
            stdin=in_,
            stdout=out,
            stderr=err,
            env=None if env is None else dict(env),
            cwd="/",
            pass_fds=[answer],
            preexec_fn=lambda: become(uid),
            start_new_session=True,
        )
        os.close(answer)
        try:
            child.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        time_s = time.monotonic() - begin
        words = answers.read().split() or [b"%d" % child.returncode, b"0", b"0"]
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return Measured(
        int(words[0]), texts[0], texts[1], int(words[1]) / 1024, float(words[2]), time_s
    )
