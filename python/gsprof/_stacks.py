# SPDX-License-Identifier: Apache-2.0
"""Captures stacks on events: the end of a span, an exception, a slow step, a long garbage
collection. They are rows of python.backtrace, with the event as trigger."""

import os
import sys
import time
from _thread import get_ident

from . import _gsprof
from ._quiet import quietly, report

# As in _boot: import only modules that a bare interpreter has loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Dict, List, Optional, Pattern, Tuple

_OURS = os.path.join(os.path.dirname(__file__), "")

DEPTH_MAX = 256
LOCALS_MAX = 64
TEXT_MAX = 80
# Least time between two stacks of one trigger: bounds the cost of frequent events.
PAUSE_S = 0.01
# How long an exception is recognized while it passes through spans and modules. It is identified by
# its address and not kept alive.
SAME_S = 1.0
STEPS_KEPT = 64
STEPS_NEEDED = 8


class _Limit:
    """Rate limit of one trigger, and the number of events skipped since the last stack."""

    def __init__(self, why: str) -> None:
        self.cause = why + " limit"
        self.next_s = 0.0
        self.pid = os.getpid()
        self.skipped = 0
        self.reported = 0

    def allows(self) -> bool:
        now_s = time.monotonic()
        self.reset_after_fork()
        if now_s < self.next_s:
            # The first is reported at once, the others with the next stack or at exit.
            self.skipped += 1
            if self.skipped == 1:
                self.report()
            return False
        self.next_s = now_s + PAUSE_S
        self.report()
        self.skipped = self.reported = 0
        return True

    def reset_after_fork(self) -> None:
        """In a child of fork, the counts are the parent's."""
        if self.pid != os.getpid():
            self.pid, self.skipped, self.reported = os.getpid(), 0, 0

    def report(self) -> None:
        self.reset_after_fork()
        count, self.reported = self.skipped - self.reported, self.skipped
        if count > 0:
            row = {"source": "python.backtrace", "cause": self.cause, "count": count}
            _gsprof.put("gsprof.loss", row)


class _State:
    """The settings that were read last, and recent events."""

    def __init__(self) -> None:
        self.span: "Optional[Pattern[str]]" = None
        self.exception = False
        self.slow_step = 0.0
        self.with_locals = False
        self.limits: "Dict[str, _Limit]" = {}  # by trigger
        # The exception captured last, where it was raised, and when it was captured.
        self.last_error: "Tuple[int, int]" = (0, 0)
        self.last_error_s = 0.0
        self.steps: "List[float]" = []  # seconds, the newest last, STEPS_KEPT at most


_state = _State()


def short(value: object) -> str:
    """Returns a short text for a value. Runs no code of the program: no repr() of its types."""
    kind = type(value)
    if kind in (int, float, bool, str, bytes, complex, type(None)):
        if kind is int and int(value).bit_length() > 256:  # type: ignore[call-overload]
            return "int"
        text = repr(value[:TEXT_MAX] if isinstance(value, (str, bytes)) else value)
        return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."
    if kind in (list, tuple, dict, set, frozenset):
        return f"{kind.__name__}[{len(value)}]"  # type: ignore[arg-type]
    if kind.__module__.partition(".")[0] in ("torch", "numpy") and hasattr(value, "shape"):
        return f"{kind.__name__}{tuple(value.shape)}"
    return kind.__name__


def _locals(frame: "FrameType") -> "Optional[str]":
    if not _state.with_locals:
        return None
    found: Dict[str, str] = {}
    for name, value in list(frame.f_locals.items())[:LOCALS_MAX]:
        try:
            found[str(name)] = short(value)
        except Exception:
            found[str(name)] = "?"
    import json

    return json.dumps(found)


def _thread(ident: int) -> "Any":
    """Returns threading's object of a thread, or None. current_thread() would create one for a
    thread that threading did not start."""
    threading = sys.modules.get("threading")
    return getattr(threading, "_active", {}).get(ident)


def _put(frames: "List[Tuple[FrameType, int]]", ident: int, tid: "Optional[int]", why: str) -> None:
    ts_ns = time.time_ns()
    mono_ns = time.monotonic_ns()
    name = getattr(_thread(ident), "name", None)
    for depth, (frame, lineno) in enumerate(frames[:DEPTH_MAX]):
        code = frame.f_code
        row: Dict[str, Any] = {
            "ts_ns": ts_ns,
            "mono_ns": mono_ns,
            "thread_id": tid,
            "thread_name": name,
            "depth": depth,
            "func": getattr(code, "co_qualname", code.co_name),
            "file": code.co_filename,
            "lineno": lineno,
            "frame_type": "Python",
            "locals": _locals(frame),
            "trigger": why,
        }
        _gsprof.put("python.backtrace", row)


def _outwards(frame: "Optional[FrameType]") -> "List[Tuple[FrameType, int]]":
    frames: List[Tuple[FrameType, int]] = []
    while frame is not None and len(frames) < DEPTH_MAX:
        frames.append((frame, frame.f_lineno or 0))
        frame = frame.f_back
    return frames


def _of_program(frame: "Optional[FrameType]") -> "Optional[FrameType]":
    """Returns the innermost frame that is not of this package."""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def _of_error(trace: "TracebackType") -> "List[Tuple[FrameType, int]]":
    """Returns the frames from the raise outwards, and their callers."""
    inner: List[Tuple[FrameType, int]] = []
    outer = _outwards(trace.tb_frame.f_back)
    step: Optional[TracebackType] = trace
    while step is not None:
        inner.append((step.tb_frame, step.tb_lineno or 0))
        step = step.tb_next
    return inner[::-1] + outer


def _allows(why: str) -> bool:
    if not _gsprof.is_on():
        return False
    limit = _state.limits.get(why)
    if limit is None:
        if not _state.limits:
            import atexit

            atexit.register(_report_skipped)
        limit = _state.limits.setdefault(why, _Limit(why))
    return limit.allows()


def _report_skipped() -> None:
    for limit in _state.limits.values():
        limit.report()


def capture(why: str, frame: "Optional[FrameType]" = None) -> None:
    """Captures the stack of this thread."""
    if _allows(why):
        frames = _outwards(frame if frame is not None else sys._getframe(1))
        _put(frames, get_ident(), _gsprof.thread_id(), why)


def _is_new(error: object, trace: "TracebackType", took_ns: int) -> bool:
    """Whether this exception was not captured when it left an inner span or module. A span that
    began after the last capture has a new exception, possibly at the same address."""
    inner = trace
    while inner.tb_next is not None:
        inner = inner.tb_next
    now_s = time.monotonic()
    name = (id(error), id(inner))
    same = name == _state.last_error and now_s - took_ns / 1e9 <= _state.last_error_s
    if same and now_s - _state.last_error_s < SAME_S:
        return False
    _state.last_error, _state.last_error_s = name, now_s
    return True


def capture_error(error: object, trace: "TracebackType", took_ns: int = 1 << 62) -> None:
    """Captures the stack of an exception that leaves a module, or a span that lasted took_ns."""
    if _state.exception and _is_new(error, trace, took_ns) and _allows("exception"):
        _put(_of_error(trace), get_ident(), _gsprof.thread_id(), "exception")


def capture_all(why: str) -> None:
    """Captures the stacks of all threads."""
    if not _allows(why):
        return
    own = get_ident()
    for ident, frame in sys._current_frames().items():
        tid = _gsprof.thread_id() if ident == own else getattr(_thread(ident), "native_id", None)
        _put(_outwards(_of_program(frame) if ident == own else frame), ident, tid, why)


def step_took(took_s: float) -> None:
    """Adds a step; captures all stacks if it was much slower than the median."""
    steps = _state.steps
    if _state.slow_step > 0 and len(steps) >= STEPS_NEEDED:
        if took_s > _state.slow_step * sorted(steps)[len(steps) // 2]:
            capture_all("slow step")
    steps.append(took_s)
    del steps[:-STEPS_KEPT]


def _on_span(name: str, took_ns: int, error: object, trace: "Optional[TracebackType]") -> None:
    if _state.span is not None and _state.span.search(name):
        capture("span", sys._getframe(1))
    if trace is not None:
        capture_error(error, trace, took_ns)


def _on_slow_gc(took_ns: int) -> None:
    capture("gc", sys._getframe(1))


def _pattern(text: str) -> "Optional[Pattern[str]]":
    if not text:
        return None
    import re

    try:
        return re.compile(text)
    except re.error as error:
        report(error)
        return None


def _read_settings() -> None:
    _state.span = _pattern(_gsprof.get("stack.span"))
    _state.exception = _gsprof.get("stack.exception") == "on"
    _state.slow_step = float(_gsprof.get("stack.slow_step"))
    _state.with_locals = _gsprof.get("stack.locals") == "on"
    wanted = _state.span is not None or _state.exception
    _gsprof.set_callback("span", _on_span if wanted else None)
    _gsprof.torch_callback("on_error", capture_error if _state.exception else None)


def _apply_memory_settings() -> None:
    wanted = _gsprof.get("memory") != "off" or _gsprof.get("stack.allocation") != "0"
    if wanted or "gsprof._memory" in sys.modules:
        from . import _memory

        _memory.apply_settings()


def _changed() -> None:
    quietly(_read_settings)
    quietly(_apply_memory_settings)


def install() -> None:
    _gsprof.set_callback("slow_gc", _on_slow_gc)
    _gsprof.set_callback("change", _changed)
    _changed()


def uninstall() -> None:
    quietly(_report_skipped)
    for name in ("slow_gc", "change", "span"):
        _gsprof.set_callback(name, None)
    _gsprof.torch_callback("on_error", None)
