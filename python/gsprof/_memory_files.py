# SPDX-License-Identifier: Apache-2.0
"""PROFILING=1: writes the live memory by allocation site to text files:
<tmp>/<app>_memory_snapshot.txt while the program runs, and <tmp>/<app>_memory_final.txt at exit.

The program's main thread writes the snapshot between two of its own instructions, after an
allocation, when the pause is over: gsprof starts no thread and uses no signal."""

import atexit
import os
import sys
import time

from . import _device_memory, _gsprof, _memory
from ._quiet import quietly

# As in _boot: import only modules that a bare interpreter has loaded. Not later either: a program
# may have modules with names of the standard library (tempfile, linecache).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

TOP = 25
# Mean bytes between two samples; less than the default, to resolve programs of some megabytes.
INTERVAL = 64 << 10
# Time until the first snapshot; the pause doubles after each one, up to LONGEST_S.
FIRST_S = 2.0
LONGEST_S = 60.0
# Pid of the process that writes the files: its children inherit PROFILING and may have its name.
_WRITER = "GSPROF_PROFILING_PID"
_TITLES = {"snapshot": "Memory snapshot", "final": "Memory at the end"}


# Source lines by file; filled while a text is made.
_sources: "Dict[str, List[bytes]]" = {}


class _State:
    def __init__(self) -> None:
        self.app = "python"
        self.next_s = 0.0
        self.pause_s = FIRST_S
        self.pid = 0


_state = _State()


def _size(count: float) -> str:
    """Formats a size as tracemalloc does."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 100 and unit != "B":
            return f"{count:.1f} {unit}"
        if abs(count) < 10 * 1024 or unit == "TiB":
            return f"{count:.0f} {unit}"
        count /= 1024
    return ""


def _source(file: str, line: int) -> str:
    """Returns a line of a file, or "" if it cannot be read."""
    if file not in _sources:
        try:
            with open(file, "rb") as source:
                _sources[file] = source.read().splitlines()
        except (OSError, ValueError):
            _sources[file] = []
    lines = _sources[file]
    return lines[line - 1].decode("utf-8", "replace").strip() if 0 < line <= len(lines) else ""


def _line(number: int, row: "Tuple[str, int, int, int, float]", is_sampled: bool) -> "List[str]":
    file, line, size, count, error = row
    about = f" (+- {_size(error)})" if is_sampled else ""
    average = f", average={_size(size / count)}" if count > 0 else ""
    where = f"{file}:{line}" if line else file
    lines = [f"#{number}: {where}: size={_size(size)}{about}, count={count}{average}"]
    source = _source(file, line)
    if source:
        lines.append(f"    {source}")
    return lines


def _device_line(device: "Tuple[int, int, int]") -> str:
    allocated, reserved, peak = device
    return (
        f"PyTorch on GPUs {_size(allocated)}, at the peak {_size(peak)}; "
        f"reserved {_size(reserved)}"
    )


def text(what: str, top: int = TOP) -> str:
    """Returns the lines with the most live memory, in the format of tracemalloc's top lists."""
    snapshot = _memory.snapshot()
    is_sampled = snapshot.mode == "sampled"
    how = "exact"
    if is_sampled:
        how = f"sampled, one byte in {snapshot.interval_bytes}; +- is one standard error"
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    live = snapshot.live_by_allocator
    python = live["pyraw"] + live["pymem"] + live["pyobject"]
    rows = [row for row in snapshot.by_line() if row[2] > 0]
    device = quietly(_device_memory.read)
    lines = [
        f"{what} of {_state.app} (process {os.getpid()}), {now}",
        f"allocated since counting began, and not freed: {how}",
        f"Python {_size(python)}, native {_size(live['malloc'])}, mapped {_size(live['mmap'])}; "
        f"at the peak {_size(snapshot.peak_bytes)} in all",
        *([] if device is None else [_device_line(device)]),
        "",
        f"Top {min(top, len(rows))} lines",
    ]
    for number, row in enumerate(rows[:top], 1):
        lines += _line(number, row, is_sampled)
    _sources.clear()
    if rows[top:]:
        lines.append(f"{len(rows) - top} other: {_size(sum(row[2] for row in rows[top:]))}")
    lines.append(f"Total allocated size: {_size(snapshot.live_bytes)}")
    lost = [f"{name} {count}" for name, count in snapshot.lost.items() if count]
    if lost:
        lines.append("Lost: " + ", ".join(lost))
    return "\n".join(lines) + "\n"


def _folder() -> str:
    """Returns the folder of tempfile.gettempdir()."""
    places = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    for place in [*places, "/tmp", "/var/tmp", "/usr/tmp"]:
        if place and os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK):
            return os.path.abspath(place)
    return os.getcwd()


def path_of(kind: str) -> str:
    """kind: "snapshot" or "final"."""
    return os.path.join(_folder(), f"{_state.app}_memory_{kind}.txt")


def write(kind: str) -> None:
    """Writes the file atomically; an existing file or symbolic link of its name is replaced."""
    _gsprof.memory_pause(True)
    try:
        content = text(_TITLES[kind]).encode("utf-8", "replace")
        path = path_of(kind)
        name = os.path.join(os.path.dirname(path), f".gsprof_memory_{os.urandom(8).hex()}")
        fd = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            try:
                os.write(fd, content)
            finally:
                os.close(fd)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
    finally:
        _gsprof.memory_pause(False)


def _tick() -> None:
    now_s = time.monotonic()
    if now_s < _state.next_s or os.getpid() != _state.pid:
        return
    _state.pause_s = min(2 * _state.pause_s, LONGEST_S)
    _state.next_s = now_s + _state.pause_s
    quietly(write, "snapshot")


def _at_exit() -> None:
    if os.getpid() == _state.pid:
        quietly(write, "final")


def is_writer() -> bool:
    """Whether PROFILING=1 is set and no ancestor of this process writes the files."""
    writer = os.environ.get(_WRITER, "")
    return os.environ.get("PROFILING") == "1" and writer in ("", str(os.getpid()))


def install(script: "Optional[str]" = None) -> None:
    """Starts writing the files; memory is being counted."""
    name = os.path.splitext(os.path.basename(script or ""))[0]
    _state.app = name or os.path.basename(sys.executable or "") or "python"
    _state.pid = os.getpid()
    _state.next_s = time.monotonic() + FIRST_S
    os.environ[_WRITER] = str(os.getpid())
    _memory.on_tick(_tick)
    atexit.register(_at_exit)
