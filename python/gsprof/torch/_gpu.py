# SPDX-License-Identifier: Apache-2.0
"""Times and memory on a GPU. When a module returns, its work is only queued, so its duration is
measured by events on the GPU, which are read some steps later: nothing waits."""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, NamedTuple, Optional, Tuple

from .. import _gsprof

# Steps after which events are read, and after which their times are given up.
SETTLE_STEPS = 3
GIVE_UP_STEPS = 16
WAITING_MAX = 262144
_MB = 1 << 20

Memory = Tuple[float, float, float]


class CudaEvents:
    """The part of torch.cuda that gsprof uses; tests substitute it."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self._torch = torch

    def record(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def done(self, event: Any) -> bool:
        return bool(event.query())

    def seconds(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) / 1e3

    def wait(self) -> None:
        self._cuda.synchronize()

    def memory(self) -> Memory:
        """Returns MB allocated, the peak of that, and MB reserved by the allocator."""
        return (
            self._cuda.memory_allocated() / _MB,
            self._cuda.max_memory_allocated() / _MB,
            self._cuda.memory_reserved() / _MB,
        )

    def fetch(self, value: Any) -> Tuple[Any, Any]:
        """Starts copying a value to the host; returns the copy and the event after it."""
        host = self._torch.empty((), dtype=value.dtype, pin_memory=True)
        host.copy_(value.detach(), non_blocking=True)
        return host, self.record()


class _Waiting(NamedTuple):
    step: int
    begin: Any
    end: Any
    row: bytes
    memory: Memory


class Recorder:
    """Called by the extension: without arguments before a module runs, then with the result of
    that call and the row."""

    def __init__(self, events: Any, sync: bool = False) -> None:
        self.events = events
        self.sync = sync
        self._waiting: Deque[_Waiting] = deque(maxlen=WAITING_MAX)

    def __call__(self, *args: Any) -> Optional[Any]:
        if not args:
            if self.sync:
                self.events.wait()
            return self.events.record()
        begin, row = args
        end = self.events.record()
        if self.sync:
            self.events.wait()
        waiting = _Waiting(_gsprof.torch_step_now(), begin, end, row, self.events.memory())
        if self.sync:
            self._put(waiting, self.events.seconds(begin, end))
        else:
            self._waiting.append(waiting)
        return None

    def _put(self, waiting: _Waiting, seconds: Optional[float]) -> None:
        _gsprof.torch_gpu_row(waiting.row, seconds, *waiting.memory)

    def settle(self, step: int) -> None:
        """Writes the rows whose times are known; called at the end of each step."""
        while self._waiting and self._waiting[0].step <= step - SETTLE_STEPS:
            first = self._waiting[0]
            if self.events.done(first.end):
                self._put(first, self.events.seconds(first.begin, first.end))
            elif first.step <= step - GIVE_UP_STEPS:
                self._put(first, None)
            else:
                return
            self._waiting.popleft()

    def flush(self) -> None:
        """Writes all rows; times not known yet stay NULL."""
        while self._waiting:
            first = self._waiting.popleft()
            seconds = None
            if self.events.done(first.end):
                seconds = self.events.seconds(first.begin, first.end)
            self._put(first, seconds)
