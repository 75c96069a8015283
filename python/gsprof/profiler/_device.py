# SPDX-License-Identifier: Apache-2.0
"""Sources of GPU times and memory: PyTorch if the program uses it, else NVIDIA's driver. Without a
GPU, times come from the host's clock."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import time
import warnings
from collections import deque
from typing import Any, Deque, List, NamedTuple, Optional, Tuple

from ..torch._gpu import CudaEvents

HOST = "host"
TORCH = "torch.cuda"
DRIVER = "cuda driver"

# Most measurements that wait for the GPU before the oldest are read.
_WAITING_MAX = 1024

_Pointer = ctypes.c_void_p


class DriverError(RuntimeError):
    """The driver refused a call."""


class Driver:
    """The functions of libcuda.so.1 that gsprof uses, on one device's primary context."""

    def __init__(self, library: ctypes.CDLL, device: int) -> None:
        self.library = library
        self.pid = os.getpid()
        self.call("cuInit", 0)
        count = ctypes.c_int(0)
        self.call("cuDeviceGetCount", ctypes.byref(count))
        if count.value == 0:
            raise DriverError("the driver has no devices")
        if not 0 <= device < count.value:
            raise ValueError(f"device {device} does not exist: {count.value} devices, from 0")
        handle = ctypes.c_int(0)
        self.call("cuDeviceGet", ctypes.byref(handle), device)
        self.context = _Pointer()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), handle)

    def call(self, name: str, *args: Any) -> None:
        code = getattr(self.library, name)(*args)
        if code != 0:
            raise DriverError(f"{name} failed with error {code}")

    def enter(self) -> None:
        """Sets our context in this thread if it has none."""
        current = _Pointer()
        self.call("cuCtxGetCurrent", ctypes.byref(current))
        if not current.value:
            self.call("cuCtxSetCurrent", self.context)

    def memory(self) -> Tuple[int, int]:
        """Returns the bytes in use on the device, by all processes, and its total."""
        self.enter()
        free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return total.value - free.value, total.value

    def address(self, name: str) -> int:
        return ctypes.cast(getattr(self.library, name), _Pointer).value or 0

    def new_stream(self) -> int:
        self.enter()
        stream = _Pointer()
        self.call("cuStreamCreate", ctypes.byref(stream), 0)
        return stream.value or 0


class DriverEvents:
    """Events of the driver, with the interface of CudaEvents."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def record(self, stream: int = 0) -> "_Event":
        self.driver.enter()
        event = _Event(self.driver)
        self.driver.call("cuEventRecord", event.handle, _Pointer(stream))
        return event

    def done(self, event: "_Event") -> bool:
        return bool(self.driver.library.cuEventQuery(event.handle) == 0)

    def seconds(self, begin: "_Event", end: "_Event") -> float:
        took_ms = ctypes.c_float(0)
        self.driver.call("cuEventElapsedTime", ctypes.byref(took_ms), begin.handle, end.handle)
        return took_ms.value / 1e3

    def wait(self) -> None:
        self.driver.enter()
        self.driver.call("cuCtxSynchronize")


class _Event:
    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.handle = _Pointer()
        driver.call("cuEventCreate", ctypes.byref(self.handle), 0)

    def __del__(self) -> None:
        # A child of fork cannot use the device.
        if self.handle.value and os.getpid() == self.driver.pid:
            self.driver.library.cuEventDestroy_v2(self.handle)


def torch_cuda() -> Optional[Any]:
    """Returns torch if the program has imported it and a device is available; never imports it."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    try:
        return torch if cuda is not None and cuda.is_available() else None
    except Exception:  # a partially imported module, or a broken driver
        return None


@functools.lru_cache(maxsize=None)
def _library() -> Optional[ctypes.CDLL]:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def find_driver(device: int = 0) -> Optional[Driver]:
    """Returns the driver, or None without one or without a device."""
    library = _library()
    try:
        return Driver(library, device) if library is not None else None
    except (AttributeError, DriverError):
        return None


def find_events(device: int = 0) -> Tuple[str, Any]:
    """Returns the name of the clock, and the source of its events; None for the host's."""
    torch = torch_cuda()
    if torch is not None:
        return TORCH, CudaEvents(torch)
    driver = find_driver(device)
    if driver is not None:
        return DRIVER, DriverEvents(driver)
    return HOST, None


class _Waiting(NamedTuple):
    name: str
    begin: Any
    end: Any
    began_ns: int


class EventClock:
    """Times measurements on a device; called by the extension at their begin and end."""

    def __init__(self, events: Any, synchronize: bool) -> None:
        self.events = events
        self.synchronize = synchronize
        self.failed = False
        self._pid = os.getpid()
        self._waiting: Deque[_Waiting] = deque()
        self._known: List[Tuple[str, float, int]] = []
        self._settling = threading.Lock()  # of _waiting and _known; unused in children of fork

    def usable(self) -> bool:
        """False in a child of fork, and after the device has failed."""
        return not self.failed and os.getpid() == self._pid

    def _give_up(self, error: Exception) -> None:
        self.failed = True
        self._waiting.clear()
        warnings.warn(f"switched to the host's clock: {error}", RuntimeWarning, stacklevel=3)

    def begin(self) -> Any:
        if not self.usable():
            return None
        try:
            if self.synchronize:
                self.events.wait()
            return self.events.record()
        except RuntimeError as error:
            self._give_up(error)
            return None

    def end(self, name: str, begin: Any, began_ns: int) -> Optional[float]:
        """Returns milliseconds, or None if they are not known yet."""
        host_ms = (time.monotonic_ns() - began_ns) / 1e6
        if begin is None or not self.usable():
            return host_ms
        try:
            end = self.events.record()
            if self.synchronize:
                self.events.wait()
                return float(self.events.seconds(begin, end)) * 1e3
            self._waiting.append(_Waiting(name, begin, end, began_ns))
            if len(self._waiting) > _WAITING_MAX:
                with self._settling:
                    self._settle(_WAITING_MAX // 2)
            return None
        except RuntimeError as error:
            self._give_up(error)
            return host_ms

    def _settle(self, left: int) -> None:
        while len(self._waiting) > left:
            first = self._waiting.popleft()
            if not self.events.done(first.end):
                self.events.wait()
            took_ms = self.events.seconds(first.begin, first.end) * 1e3
            self._known.append((first.name, took_ms, first.began_ns))

    def settle(self) -> List[Tuple[str, float, int]]:
        """Waits for the pending measurements; returns their names, milliseconds and begins."""
        if os.getpid() != self._pid:
            return []
        with self._settling:
            try:
                if self.usable():
                    self._settle(0)
            except RuntimeError as error:
                self._give_up(error)
            known, self._known = self._known, []
        return known
