# SPDX-License-Identifier: Apache-2.0
"""Measures time and hits of lines with sys.monitoring or, before Python 3.12, a trace function in
C.

Code of the standard library, of installed packages and of gsprof is not traced: its time counts for
the line that calls it."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import threading
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .. import _gsprof

# (file, function, first line of the function, line) to (hits, nanoseconds)
_Key = Tuple[str, str, int, int]
_Counts = Dict[_Key, Tuple[int, int]]


class Line(NamedTuple):
    """A line that ran; time_s includes its calls."""

    file: str
    function: str
    line: int
    hits: int
    time_s: float

    @property
    def source(self) -> str:
        return linecache.getline(self.file, self.line).strip()


class LineStats:
    """The lines of a block, ordered by file and line."""

    def __init__(self, lines: List[Line]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def top(self, count: int = 10) -> List[Line]:
        """Returns the lines with the most time."""
        return sorted(self.lines, key=lambda line: -line.time_s)[:count]

    def to_list(self) -> List[Dict[str, Any]]:
        return [{**line._asdict(), "source": line.source} for line in self.lines]

    def text(self) -> str:
        """Returns a table of every function that ran."""
        rows: List[str] = []
        function: Tuple[str, str] = ("", "")
        for line in self.lines:
            if (line.file, line.function) != function:
                function = (line.file, line.function)
                rows += [
                    "",
                    f"{line.function} ({line.file})",
                    "  line       hits   time ms  source",
                ]
            rows.append(f"{line.line:6} {line.hits:10} {line.time_s * 1000:9.3f}  {line.source}")
        return "\n".join(rows[1:])


def _folders() -> Tuple[str, ...]:
    """Returns the folders of code that is not the program's own."""
    paths = sysconfig.get_paths()
    found = {
        paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib") if name in paths
    }
    found.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(os.path.join(os.path.realpath(path), "") for path in found)


def _last_line(code: Any) -> int:
    """Returns the last line of the code object's line table."""
    if hasattr(code, "co_lines"):
        return max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    import dis

    return max((line for _, line in dis.findlinestarts(code)), default=code.co_firstlineno)


class _Tracer:
    """One per process: blocks share it and compute differences."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._is_ready = False
        self._tool: Optional[int] = None
        self._by_trace = not hasattr(sys, "monitoring")
        self._folders: Tuple[str, ...] = ()
        self._hook: Any = None  # the previous trace function of new threads

    def _on_code(self, code: Any) -> Tuple[int, int]:
        file = code.co_filename
        if file.startswith("<frozen") or os.path.realpath(file).startswith(self._folders):
            return 0, 0
        # Generated code may have a negative line number.
        first = max(code.co_firstlineno, 0)
        return first, _last_line(code) - first + 1

    def _make_ready(self) -> None:
        if self._is_ready:
            return
        self._folders = _folders()
        disable = None if self._by_trace else getattr(sys, "monitoring").DISABLE
        _gsprof.lines_setup(self._on_code, disable)
        self._is_ready = True

    def begin(self) -> Optional[_Counts]:
        """Returns the counts that end() needs; None if another tool traces the program."""
        with self._lock:
            self._make_ready()
            if self._open == 0 and not self._switch_on():
                return None
            self._open += 1
            return _counts()

    def end(self, before: _Counts) -> LineStats:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._switch_off()
            after = _counts()
        lines = []
        for key, (hits, ns) in after.items():
            hits_before, ns_before = before.get(key, (0, 0))
            if hits > hits_before:
                file, function, _, line = key
                lines.append(Line(file, function, line, hits - hits_before, (ns - ns_before) / 1e9))
        return LineStats(sorted(lines, key=lambda line: (line.file, line.line)))

    def _switch_on(self) -> bool:
        if not self._by_trace:
            return self._monitor()
        if sys.gettrace() is not None:
            return _refuse("another trace function (a debugger, coverage) is active")
        if not _gsprof.lines_start(True):
            return _refuse("this interpreter has no trace functions in C")
        self._hook = getattr(threading, "_trace_hook", None)
        threading.settrace(_gsprof.lines_thread)
        return True

    def _switch_off(self) -> None:
        if self._by_trace:
            threading.settrace(self._hook)
            _gsprof.lines_stop(True)
            return
        monitoring = getattr(sys, "monitoring")
        monitoring.set_events(self._tool, 0)
        for event in _callbacks(monitoring):
            monitoring.register_callback(self._tool, event, None)
        monitoring.free_tool_id(self._tool)
        self._tool = None
        _gsprof.lines_stop(False)

    def _monitor(self) -> bool:
        monitoring = getattr(sys, "monitoring")
        # 2 is for profilers; 3 and 4 are unassigned.
        for tool in (2, 3, 4):
            try:
                monitoring.use_tool_id(tool, "gsprof")
            except ValueError:
                continue
            self._tool = tool
            break
        else:
            return _refuse("other tools use all ids of sys.monitoring")
        _gsprof.lines_start(False)
        events = 0
        for event, callback in _callbacks(monitoring).items():
            monitoring.register_callback(self._tool, event, callback)
            events |= event
        monitoring.set_events(self._tool, events)
        return True


def _refuse(why: str) -> bool:
    warnings.warn(f"lines are not profiled: {why}", RuntimeWarning, stacklevel=5)
    return False


def _callbacks(monitoring: Any) -> Dict[int, Any]:
    events = monitoring.events
    return {
        events.PY_START: _gsprof.lines_call,
        events.PY_RESUME: _gsprof.lines_call,
        events.PY_THROW: _gsprof.lines_throw,
        events.LINE: _gsprof.lines_line,
        events.PY_RETURN: _gsprof.lines_return,
        events.PY_YIELD: _gsprof.lines_return,
        events.PY_UNWIND: _gsprof.lines_unwind,
    }


def _counts() -> _Counts:
    """Equal code objects (a function defined twice) count as one."""
    found: _Counts = {}
    for code, lines in _gsprof.lines_counts():
        name = getattr(code, "co_qualname", code.co_name)
        for line, hits, ns in lines:
            key = (code.co_filename, name, code.co_firstlineno, line)
            old_hits, old_ns = found.get(key, (0, 0))
            found[key] = (old_hits + hits, old_ns + ns)
    return found


TRACER = _Tracer()
