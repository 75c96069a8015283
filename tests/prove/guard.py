# SPDX-License-Identifier: Apache-2.0
"""Ends what a run of prove.py leaves behind if it is killed: processes and temporary folders.

Each process of a run has the name of the run in its environment. A guard is a process that notices
the end of prove.py by the end of a pipe; if the guard is killed too, the next run does its work."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

VARIABLE = "GSPROVE_RUN"
# A folder of a run that has ended has no lock. Until it has its lock, a folder has another name.
PREFIX = "gsprove."
NEW_PREFIX = "gsprove-new."
SHM = Path("/dev/shm")
LIMIT_S = 30.0  # for processes to end after SIGKILL


def start_time(pid: int) -> str:
    """Returns when a process started, in ticks since the boot; "" if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def namespace() -> str:
    """Returns the name of the namespace in which process ids are valid."""
    return "".join(filter(str.isdigit, os.readlink("/proc/self/ns/pid")))


def own_name() -> str:
    return f"{namespace()}-{os.getpid()}-{start_time(os.getpid())}"


def is_over(name: str) -> bool:
    """Returns whether a run has ended. One of another namespace may not have."""
    where, _, rest = name.partition("-")
    pid, _, began = rest.partition("-")
    return where == namespace() and pid.isdigit() and start_time(int(pid)) != began


def processes() -> Iterator[Tuple[int, str]]:
    """All processes of runs, and the names of their runs."""
    mark = f"{VARIABLE}=".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            variables = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or belongs to another user
            continue
        for variable in variables:
            if variable.startswith(mark):
                yield int(entry), variable[len(mark) :].decode("ascii", "replace")


def end_processes() -> None:
    """Kills the processes of runs that have ended, until none is left."""
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        left = [pid for pid, name in processes() if is_over(name)]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.02)


def temporary() -> Path:
    return SHM if os.access(SHM, os.W_OK) else Path(tempfile.gettempdir())


def lock(path: Path, flags: int) -> Optional[int]:
    """Returns a descriptor that holds the lock of a file or folder; None if another run has it."""
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


class Folder:
    """A temporary folder of a run. Ring folders and sockets have short names, and rings belong in
    memory."""

    def __init__(self) -> None:
        new = Path(tempfile.mkdtemp(prefix=NEW_PREFIX, dir=temporary()))
        self.fd = lock(new, os.O_DIRECTORY)
        self.path = new.with_name(PREFIX + new.name[len(NEW_PREFIX) :])
        new.rename(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self.fd is not None:
            os.close(self.fd)


def remove_folders() -> None:
    """Removes the folders of runs that have ended."""
    for folder in temporary().glob(f"{PREFIX}*"):
        try:
            fd = lock(folder, os.O_DIRECTORY)
        except OSError:  # of another user, or removed meanwhile
            continue
        if fd is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(fd)


def sweep() -> None:
    end_processes()
    remove_folders()


class Guard:
    """Starts a guard for this process. Its processes are known from now on."""

    def __init__(self) -> None:
        ours: List[int] = list(os.pipe())
        self.process = subprocess.Popen(
            [sys.executable, __file__, own_name()],
            stdin=ours[0],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C does not end it
            cwd="/",
        )
        os.close(ours[0])
        self.fd = ours[1]
        os.environ[VARIABLE] = own_name()


def main() -> None:
    name = sys.argv[1]
    os.read(0, 1)
    until_s = time.monotonic() + LIMIT_S
    # A process that ends closes its descriptors first.
    while not is_over(name) and time.monotonic() < until_s:
        time.sleep(0.01)
    sweep()


if __name__ == "__main__":
    main()
