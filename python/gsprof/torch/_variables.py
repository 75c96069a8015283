# SPDX-License-Identifier: Apache-2.0
"""Records variables of the program when a step ends: loss@step."""

from __future__ import annotations

import sys
from collections import deque
from types import FrameType
from typing import Any, Deque, Dict, List, Optional, Tuple

from .. import _gsprof
from .._stacks import short

FRAMES_MAX = 64
# Stands for the function that ends the step, if no function of this name is on the stack.
STEP = "step"
# Steps after which a value computed by a GPU is read, and the most values that wait.
DEFERRED_STEPS = 3
DEFERRED_MAX = 4096


def parse(text: str) -> List[Tuple[str, str]]:
    """Parses "loss@step, acc@evaluate" to (name, function); the default function is STEP."""
    wanted = []
    for piece in text.split(","):
        name, _, func = piece.strip().partition("@")
        if name:
            wanted.append((name.strip(), func.strip() or STEP))
    return wanted


def _is_library(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in ("torch", "gsprof")


def _find(functions: List[str]) -> Dict[str, FrameType]:
    """Returns the innermost frame of each function; for STEP the program's innermost frame if no
    function has that name."""
    found: Dict[str, FrameType] = {}
    caller: Optional[FrameType] = None
    frame: Optional[FrameType] = sys._getframe(2)
    for _ in range(FRAMES_MAX):
        if frame is None or len(found) == len(functions):
            break
        if not _is_library(frame):
            caller = caller or frame
            code = frame.f_code
            if code.co_name in functions:
                found.setdefault(code.co_name, frame)
            qualified = getattr(code, "co_qualname", "")
            if qualified in functions:
                found.setdefault(qualified, frame)
        frame = frame.f_back
    if caller is not None and STEP in functions:
        found.setdefault(STEP, caller)
    return found


class Watch:
    """The variables of torch.vars, and the values that are still being copied from a GPU."""

    def __init__(self, text: str, gpu: Any = None) -> None:
        self.wanted = parse(text)
        self.functions = sorted({func for _, func in self.wanted})
        self.gpu = gpu
        self.deferred: Deque[Tuple[int, str, str, Any, Any]] = deque(maxlen=DEFERRED_MAX)

    def capture(self, step: int) -> None:
        frames = _find(self.functions)
        for name, func in self.wanted:
            frame = frames.get(func)
            if frame is None:
                continue
            try:
                value = _gsprof.torch_local(frame, name)
            except LookupError:
                continue
            self._keep(step, func, name, value)
        while self.deferred and self.deferred[0][0] <= step - DEFERRED_STEPS:
            then, func, name, host, event = self.deferred[0]
            if not self.gpu.done(event):
                break
            self.deferred.popleft()
            _put(then, func, name, repr(host.item()), "Tensor")

    def _keep(self, step: int, func: str, name: str, value: Any) -> None:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.Tensor) or value.dim() != 0:
            _put(step, func, name, short(value), type(value).__name__)
        elif value.device.type == "cpu":
            _put(step, func, name, repr(value.item()), type(value).__name__)
        elif self.gpu is not None:
            host, event = self.gpu.fetch(value)
            self.deferred.append((step, func, name, host, event))


def _put(step: int, func: str, name: str, value: str, kind: str) -> None:
    _gsprof.put(
        "python.variables",
        {"step": step, "func": func, "name": name, "value": value, "type": kind},
    )
