# SPDX-License-Identifier: Apache-2.0
"""Counts the process's allocations by call site: start, stop, and snapshots of the counters.

The agent does the counting (src/agent/memory.h)."""

import atexit
import sys

from . import _device_memory, _gsprof
from ._quiet import quietly

# As in _boot: import only modules that a bare interpreter has loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple

MODES = ("off", "sampled", "exact")
INTERVAL = 512 << 10
_REASONS = {
    1: "counting is already on, or being switched",
    2: "no space left in shared memory for the counters",
    3: "no memory for the tables, or no module to hook",
}
_NOT_MAIN = "memory is counted for the whole process: only the main interpreter starts and stops it"


class Frame:
    """A frame of a stack; its kind is one of _KINDS."""

    __slots__ = ("name", "file", "line", "kind")

    def __init__(self, name: str, file: str, line: int, kind: str) -> None:
        self.name = name
        self.file = file
        self.line = line
        self.kind = kind


def _in_brackets(name: str) -> str:
    """Returns "<name>", shown instead of a file; "<listcomp>" is returned unchanged."""
    return name if name.endswith(">") else f"<{name}>"


class Site:
    """Counters of one stack and one allocator, in bytes and blocks. In sampled mode they are
    estimates, and error_bytes is the standard error of the live bytes."""

    __slots__ = (
        "frames",
        "allocator",
        "live_bytes",
        "live_count",
        "alloc_bytes",
        "alloc_count",
        "peak_bytes",
        "error_bytes",
    )

    def __init__(self, frames: "Tuple[Frame, ...]", row: "Tuple[Any, ...]") -> None:
        allocator, alloc_bytes, alloc_count, free_bytes, free_count, peak, var, gone = row
        self.frames = frames  # innermost first
        self.allocator: str = allocator
        self.live_bytes: int = alloc_bytes - free_bytes
        self.live_count: int = alloc_count - free_count
        self.alloc_bytes: int = alloc_bytes
        self.alloc_count: int = alloc_count
        self.peak_bytes: int = peak
        self.error_bytes: float = 1024 * max(0, var - gone) ** 0.5

    @property
    def line(self) -> "Tuple[str, int]":
        """File and line of the innermost Python frame. Without one, the library or the thread that
        allocated, and line 0."""
        for frame in self.frames:
            if frame.kind == "python":
                return frame.file or _in_brackets(frame.name or "no file"), frame.line
        for frame in self.frames:
            if frame.kind == "native" and frame.name:
                return frame.name, 0
        names = [frame.name for frame in self.frames if frame.kind == "thread" and frame.name]
        return f"<thread {names[0]}>" if names else "<stack not known>", 0


class Snapshot:
    """A copy of the counters."""

    def __init__(self, view: "Dict[str, Any]", sites: "List[Site]") -> None:
        self.mode: str = view["mode"]
        self.interval_bytes: int = view["interval_bytes"]
        self.live_bytes: int = view["live_bytes"]
        self.peak_bytes: int = view["peak_bytes"]
        self.live_by_allocator: "Dict[str, int]" = view["live_by_allocator"]
        self.lost: "Dict[str, int]" = view["lost"]
        self.sites = sites  # greatest live bytes first

    def by_line(self) -> "List[Tuple[str, int, int, int, float]]":
        """Returns file, line, live bytes, live count and standard error, greatest first."""
        sums: "Dict[Tuple[str, int], List[float]]" = {}
        for site in self.sites:
            row = sums.setdefault(site.line, [0, 0, 0.0])
            row[0] += site.live_bytes
            row[1] += site.live_count
            row[2] += site.error_bytes**2
        rows = [
            (file, line, int(row[0]), int(row[1]), row[2] ** 0.5)
            for (file, line), row in sums.items()
        ]
        rows.sort(key=lambda row: -row[2])
        return rows


_KINDS = {1: "python", 2: "native", 3: "thread", 4: "cut"}


# Called by the main thread between two instructions, or in a garbage collection, about once a
# second.
_ticks: "List[Callable[[], object]]" = [_device_memory.publish]


def on_tick(function: "Callable[[], object]") -> None:
    """Adds a function that is called while memory is counted and the program allocates."""
    _ticks.append(function)


def _tick() -> None:
    """Called by the extension, unless the only function is the first and no GPU is in use."""
    _gsprof.memory_pause(True)
    try:
        for function in _ticks:
            quietly(function)
    finally:
        _gsprof.memory_pause(False)


class _State:
    def __init__(self) -> None:
        self.now: "Tuple[str, int, int]" = ("off", 0, 0)  # mode, interval, notice
        self.exit_watched = False
        self.is_changing = False


_state = _State()


def _switch(mode: str, interval: int, notice: int) -> None:
    if _gsprof.start() != 0:
        raise RuntimeError("memory cannot be counted: no space left in shared memory")
    code = sys._getframe().f_code
    rc = _gsprof.memory_start(mode == "exact", interval, notice, code)
    if rc != 0:
        raise RuntimeError(f"memory cannot be counted: {_REASONS.get(rc, rc)}")
    if not _state.exit_watched:
        _state.exit_watched = True
        _gsprof.watch_forks()
        # Registered before the program's own functions, so it runs after them.
        atexit.register(_gsprof.memory_python_ends)


def _store_settings(mode: str, interval: int, notice: int) -> None:
    """Makes the settings agree with the state."""
    _gsprof.set("memory.interval", str(interval))
    _gsprof.set("stack.allocation", str(notice))
    _gsprof.set("memory", mode)


def start(mode: str = "sampled", interval: int = INTERVAL, notice: int = 0) -> None:
    """Starts counting. mode is "sampled" (on average one sample per `interval` bytes) or "exact".
    An allocation of at least `notice` bytes adds its stack to python.backtrace. Raises ValueError
    for an invalid argument, and RuntimeError if memory cannot be counted."""
    if mode not in MODES[1:]:
        raise ValueError(f"memory is sampled or exact, not {mode!r}")
    if not 1024 <= interval <= 10**9:
        raise ValueError(f"the interval is 1 KiB to 1 GB, not {interval}")
    notice = max(0, notice)
    if not _gsprof.is_main():
        raise RuntimeError(_NOT_MAIN)
    if is_on():
        raise RuntimeError(f"memory cannot be counted: {_REASONS[1]}")
    _state.is_changing = True
    try:
        _switch(mode, interval, notice)
        _state.now = (mode, interval, notice)
        _store_settings(mode, interval, notice)
    finally:
        _state.is_changing = False


def _end() -> None:
    _gsprof.memory_stop()
    _state.now = ("off", 0, 0)


def stop() -> None:
    """Stops counting; the counters stay readable. Raises RuntimeError in a sub-interpreter."""
    if not _gsprof.is_main():
        raise RuntimeError(_NOT_MAIN)
    _state.is_changing = True
    try:
        _end()
        if _gsprof.is_on():
            _store_settings("off", INTERVAL, 0)
    finally:
        _state.is_changing = False


def apply_settings() -> None:
    """Applies the settings memory, memory.interval and stack.allocation."""
    if _state.is_changing or not _gsprof.is_main():
        return
    mode = _gsprof.get("memory")
    interval = max(1024, int(float(_gsprof.get("memory.interval"))))
    notice = int(float(_gsprof.get("stack.allocation")))
    if mode == "off" and notice > 0:
        mode = "sampled"  # the notice needs the hooks
    wanted = ("off", 0, 0) if mode == "off" else (mode, interval, notice)
    if wanted == _state.now:
        return
    _end()
    if mode != "off":
        _switch(*wanted)
        _state.now = wanted


def is_on() -> bool:
    return _gsprof.memory_mode() != "off"


def _stack(view: "Dict[str, Any]", node: int, frames: "List[Frame]") -> "Tuple[Frame, ...]":
    stack = []
    while node:
        parent, frame = view["nodes"][node]
        stack.append(frames[frame])
        node = parent
    return tuple(stack)


def snapshot(limit: int = 0) -> Snapshot:
    """Returns the counters of this process, with the `limit` sites of the most live bytes (0: all).
    Raises RuntimeError if memory was never counted."""
    _gsprof.memory_pause(True)
    try:
        return _snapshot(limit)
    finally:
        _gsprof.memory_pause(False)


def _snapshot(limit: int) -> Snapshot:
    view = _gsprof.memory_view()
    if view is None:
        raise RuntimeError("memory was not counted: call gsprof._memory.start()")
    frames = [
        Frame(name, file, line, _KINDS.get(kind, "?")) for name, file, line, kind in view["frames"]
    ]
    rows = [row for row in view["sites"] if row[3]]
    rows.sort(key=lambda row: int(row[4]) - int(row[2]))
    sites = [Site(_stack(view, row[0], frames), row[1:]) for row in rows[: limit or None]]
    return Snapshot(view, sites)
