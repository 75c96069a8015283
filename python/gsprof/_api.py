# SPDX-License-Identifier: Apache-2.0
"""Public functions of gsprof, except spans, queries, tables and sessions."""

from __future__ import annotations

import re
import sys
import time
from typing import Dict, Mapping, Optional, Sequence, Union

from . import _boot, _device_memory, _gsprof, _stacks
from ._spec import torch_settings

# Settings that are regular expressions.
PATTERNS = ("torch.layers", "stack.span")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return format(value, ".12f").rstrip("0").rstrip(".")
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def _given(parameters: Mapping[str, object]) -> Dict[str, str]:
    """Checked settings by name (torch.rate), from parameters (torch_rate) that are not None."""
    settings = {}
    for name, _, _, _ in _gsprof.settings():
        value = parameters.get(name.replace(".", "_"))
        if value is not None:
            settings[name] = _text(value)
    return _valid(settings)


def _valid(settings: Dict[str, str]) -> Dict[str, str]:
    """Returns the settings; raises ValueError for an invalid value."""
    for name, value in settings.items():
        _gsprof.check(name, value)
        if name in PATTERNS:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{name} must be a regular expression: {error}") from None
    return settings


def enable(
    *,
    sample_rate: Optional[float] = None,
    torch: Optional[bool] = None,
    torch_rate: Optional[float] = None,
    torch_layers: Optional[str] = None,
    torch_modules: Optional[str] = None,
    torch_backward: Optional[bool] = None,
    torch_sync: Optional[bool] = None,
    torch_vars: Union[str, Sequence[str], None] = None,
    torch_adaptive: Optional[float] = None,
    torch_shadow: Optional[str] = None,
    spans: Optional[bool] = None,
    collectives: Optional[bool] = None,
    stack_span: Optional[str] = None,
    stack_slow_step: Optional[float] = None,
    stack_exception: Optional[bool] = None,
    stack_gc: Optional[float] = None,
    stack_locals: Optional[bool] = None,
    stack_allocation: Optional[int] = None,
    memory: Optional[str] = None,
    memory_interval: Optional[int] = None,
    ring_rows: Optional[int] = None,
) -> bool:
    """Starts the agent: enable(sample_rate=0.05, stack_gc=10).

    The parameters are the settings that `gsprof config PID` lists, with "_" for "."; None leaves
    a setting unchanged. Returns False if shared memory has no space left for the rings; the
    program then runs unprofiled."""
    return _boot.start(_given(locals()))


def disable() -> None:
    """Stops recording; recorded rows stay readable."""
    _boot.detach()


def is_enabled() -> bool:
    return _gsprof.is_on()


def enable_torch_profiling(
    spec: object = "on",
    *,
    rate: Optional[float] = None,
    layers: Optional[str] = None,
    modules: Optional[str] = None,
    backward: Optional[bool] = None,
    sync: Optional[bool] = None,
    vars: Union[str, Sequence[str], None] = None,
    exprs: Union[str, Sequence[str], None] = None,
    watch: Union[str, Sequence[str], None] = None,
    adaptive: Union[bool, float, str, None] = None,
    shadow: Optional[str] = None,
    spans: Optional[bool] = None,
    trace_spans: Optional[bool] = None,
    collectives: Optional[bool] = None,
) -> bool:
    """Traces PyTorch modules: enable_torch_profiling(rate=0.1, layers="encoder", backward=True).

    spec has the format of GSPROF_TORCH_PROFILING; the keywords override it.  exprs and watch are
    other names of vars, trace_spans of spans."""
    options = dict(locals())
    settings = torch_settings(_text(spec))
    for key, value in options.items():
        if key != "spec" and value is not None:
            settings.update(torch_settings(f"{key}={_text(value)}"))
    return _boot.start(_valid(settings))


def disable_torch_profiling() -> None:
    if _gsprof.is_on():
        _gsprof.set("torch", "off")


def config(
    *,
    sample_rate: Optional[float] = None,
    torch: Optional[bool] = None,
    torch_rate: Optional[float] = None,
    torch_layers: Optional[str] = None,
    torch_modules: Optional[str] = None,
    torch_backward: Optional[bool] = None,
    torch_sync: Optional[bool] = None,
    torch_vars: Union[str, Sequence[str], None] = None,
    torch_adaptive: Optional[float] = None,
    torch_shadow: Optional[str] = None,
    spans: Optional[bool] = None,
    collectives: Optional[bool] = None,
    stack_span: Optional[str] = None,
    stack_slow_step: Optional[float] = None,
    stack_exception: Optional[bool] = None,
    stack_gc: Optional[float] = None,
    stack_locals: Optional[bool] = None,
    stack_allocation: Optional[int] = None,
    memory: Optional[str] = None,
    memory_interval: Optional[int] = None,
    ring_rows: Optional[int] = None,
) -> Dict[str, str]:
    """Changes settings (the parameters of enable()) and returns all of them:
    config(stack_span="load.*")."""
    for name, value in _given(locals()).items():
        _gsprof.set(name, value)
    return {name: _gsprof.get(name) for name, _, _, _ in _gsprof.settings()}


class _StepClock:
    """Number and start of the current step; used while torch is not traced."""

    def __init__(self) -> None:
        self.number = -1
        self.began_s = 0.0

    def end(self, n: Optional[int], batch_size: Optional[int]) -> None:
        now_s = time.perf_counter()
        took_s = now_s - self.began_s if self.began_s else None
        self.number = self.number + 1 if n is None else int(n)
        self.began_s = now_s
        if _gsprof.get("spans") != "on":
            return
        per_s = batch_size / took_s if batch_size is not None and took_s else None
        _gsprof.put(
            "python.torch_step",
            {"step": self.number, "duration": took_s, "sampled": False, "samples_per_sec": per_s},
        )
        if took_s is not None:
            _stacks.step_took(took_s)


_clock = _StepClock()


def step(n: Optional[int] = None, batch_size: Optional[int] = None) -> None:
    """Ends one training step, number n, and begins the next."""
    if not _gsprof.is_on():
        return
    _device_memory.at_step()
    hooks = sys.modules.get("gsprof.torch._hooks")
    if hooks is not None and hasattr(hooks, "step"):
        hooks.step(n, batch_size)
    else:
        _clock.end(n, batch_size)
