# SPDX-License-Identifier: Apache-2.0
"""PROFILING=1: what memory is held and where it was allocated, as text files that appear by
themselves: <tmp>/<app>_memory_snapshot.txt while the program runs, and
<tmp>/<app>_memory_final.txt when it ends.

The snapshot is written by the program's main thread, between two of its own instructions, when it
has allocated something and the time has come: there is no thread of ours, and no signal."""

from __future__ import annotations

import atexit
import linecache
import os
import sys
import tempfile
import time
from typing import List, Optional, Tuple

from . import _device_memory, _gsprof, _memory
from ._quiet import quietly

TOP = 25
# Closer than by default: programs are to be seen that hold some megabytes.
INTERVAL = 64 << 10
# The first snapshot soon, so that it is there; then less and less often.
FIRST_S = 2.0
LONGEST_S = 60.0
# Which process writes the files: those that it starts have the same name and the same variable.
_WRITER = "GSPROF_PROFILING_PID"
_TITLES = {"snapshot": "Memory snapshot", "final": "Memory at the end"}


class _State:
    app = "python"
    next_s = 0.0
    pause_s = FIRST_S
    pid = 0


def _size(count: float) -> str:
    """As tracemalloc writes sizes."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 100 and unit != "B":
            return f"{count:.1f} {unit}"
        if abs(count) < 10 * 1024 or unit == "TiB":
            return f"{count:.0f} {unit}"
        count /= 1024
    return ""


def _line(number: int, row: Tuple[str, int, int, int, float], is_sampled: bool) -> List[str]:
    file, line, size, count, error = row
    about = f" (+- {_size(error)})" if is_sampled else ""
    average = f", average={_size(size / count)}" if count > 0 else ""
    where = f"{file}:{line}" if line else file
    lines = [f"#{number}: {where}: size={_size(size)}{about}, count={count}{average}"]
    source = linecache.getline(file, line).strip() if line else ""
    if source:
        lines.append(f"    {source}")
    return lines


def _device_line(device: _device_memory.DeviceMemory) -> str:
    return (
        f"PyTorch on GPUs {_size(device.allocated)}, at the peak {_size(device.peak)}; "
        f"reserved {_size(device.reserved)}"
    )


def text(what: str, top: int = TOP) -> str:
    """The lines that hold the most memory, as tracemalloc's top lists have them."""
    snapshot = _memory.snapshot()
    is_sampled = snapshot.mode == "sampled"
    how = "exact"
    if is_sampled:
        how = f"sampled, one byte in {snapshot.interval_bytes}; +- is one standard error"
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    live = snapshot.live_by_allocator
    python = live["pyraw"] + live["pymem"] + live["pyobject"]
    rows = [row for row in snapshot.by_line() if row[2] > 0]
    device = quietly(_device_memory.look)
    lines = [
        f"{what} of {_State.app} (process {os.getpid()}), {now}",
        f"allocated since counting began, and not freed: {how}",
        f"Python {_size(python)}, native {_size(live['malloc'])}, mapped {_size(live['mmap'])}; "
        f"at the peak {_size(snapshot.peak_bytes)} in all",
        *([] if device is None else [_device_line(device)]),
        "",
        f"Top {min(top, len(rows))} lines",
    ]
    for number, row in enumerate(rows[:top], 1):
        lines += _line(number, row, is_sampled)
    if rows[top:]:
        lines.append(f"{len(rows) - top} other: {_size(sum(row[2] for row in rows[top:]))}")
    lines.append(f"Total allocated size: {_size(snapshot.live_bytes)}")
    lost = [f"{name} {count}" for name, count in snapshot.lost.items() if count]
    if lost:
        lines.append("Lost: " + ", ".join(lost))
    return "\n".join(lines) + "\n"


def path_of(kind: str) -> str:
    """kind: "snapshot" or "final"."""
    return os.path.join(tempfile.gettempdir(), f"{_State.app}_memory_{kind}.txt")


def write(kind: str) -> None:
    """The file appears whole; whatever had its name, a link even, is replaced and not followed."""
    _gsprof.memory_pause(True)
    try:
        content = text(_TITLES[kind]).encode("utf-8", "replace")
        path = path_of(kind)
        fd, name = tempfile.mkstemp(prefix=".gsprof_memory_", dir=os.path.dirname(path))
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
    if now_s < _State.next_s or os.getpid() != _State.pid:
        return
    _State.pause_s = min(2 * _State.pause_s, LONGEST_S)
    _State.next_s = now_s + _State.pause_s
    quietly(write, "snapshot")


def _at_exit() -> None:
    if os.getpid() == _State.pid:
        quietly(write, "final")


def is_asked_for() -> bool:
    """Whether the environment says PROFILING=1, and to this process first."""
    writer = os.environ.get(_WRITER, "")
    return os.environ.get("PROFILING") == "1" and writer in ("", str(os.getpid()))


def install(script: Optional[str] = None) -> None:
    """Counting has begun: files from now on."""
    name = os.path.splitext(os.path.basename(script or ""))[0]
    _State.app = name or os.path.basename(sys.executable or "") or "python"
    _State.pid = os.getpid()
    _State.next_s = time.monotonic() + FIRST_S
    os.environ[_WRITER] = str(os.getpid())
    _memory.on_tick(_tick)
    atexit.register(_at_exit)
