# SPDX-License-Identifier: Apache-2.0
"""Has the gsprof program follow this process from outside."""

from __future__ import annotations

import _signal
import os

# Not from os: gevent and eventlet replace functions there, by ones that wait in the program's loop.
import posix
from typing import Any, List, Optional, Tuple

from . import _gsprof

HERE = os.path.dirname(os.path.abspath(__file__))


def find_program() -> Optional[str]:
    """The gsprof program that belongs to this package."""
    places = [
        os.environ.get("GSPROF_PROGRAM", ""),
        os.path.join(HERE, "_program", "bin", "gsprof"),
        os.path.join(HERE, "..", "..", "..", "..", "bin", "gsprof"),
        os.path.join(HERE, "..", "..", "src", "cli", "gsprof"),
    ]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        places.append(os.path.join(folder or ".", "gsprof"))
    for place in places:
        if place and os.path.isfile(place) and os.access(place, os.X_OK):
            return os.path.realpath(place)
    return None


def must_be_allowed() -> bool:
    """Whether the kernel lets only ancestors look at this process (Yama)."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
            return file.read().strip() == b"1"
    except OSError:
        return False


def _reap(child: int) -> None:
    """Waits for it and takes its SIGCHLD, which is blocked."""
    try:
        posix.waitpid(child, 0)
    except ChildProcessError:
        return  # the program ignores SIGCHLD
    pending = _signal.sigtimedwait([_signal.SIGCHLD], 0)
    if pending is not None and pending.si_pid != child:
        posix.kill(posix.getpid(), _signal.SIGCHLD)  # another child's, which is the program's


def start() -> None:
    """gsprof follow PID, as nobody's child: a shell starts it and ends at once."""
    program = find_program()
    if program is None or not os.access("/bin/sh", os.X_OK):
        return
    if must_be_allowed():
        _gsprof.allow_tracing(-1)
    actions: List[Tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
    ]
    # Descriptors that the program lets its children have are not for this one: a pipe that it
    # kept open would never come to its end.
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            actions.append((os.POSIX_SPAWN_CLOSE, int(name)))
    env = {key: text for key, text in os.environ.items() if key != "LD_PRELOAD"}
    command = ["sh", "-c", '"$0" "$@" &', program, "follow", str(os.getpid()), "--detach"]
    if "GSPROF_RUN_FILE" in os.environ:
        command.append("--no-metrics")  # `gsprof run` looks at all its processes by itself
    # A forked process may have its parent's handler of SIGCHLD, which is not to hear of this child.
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGCHLD])
    try:
        child = posix.posix_spawn(
            "/bin/sh", command, env, file_actions=actions, setpgroup=0, setsigmask=mask
        )
        _reap(child)
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
