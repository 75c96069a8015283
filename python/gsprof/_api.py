# SPDX-License-Identifier: Apache-2.0
"""What programs call, beside spans."""

from __future__ import annotations

import re
import sys
import time
from typing import Dict, Optional

from . import _boot, _device_memory, _gsprof, _stacks
from ._spec import TORCH_WORDS, torch_settings

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


def _check(settings: Dict[str, object]) -> Dict[str, str]:
    """Names as keyword arguments have them (torch_rate) to those of settings (torch.rate)."""
    known = {name.replace(".", "_"): name for name, _, _, _ in _gsprof.settings()}
    checked = {}
    for key, value in settings.items():
        name = known.get(key.replace(".", "_"))
        if name is None:
            raise TypeError(
                f"{key!r} is not a setting of gsprof; known: {', '.join(sorted(known))}"
            )
        checked[name] = _text(value)
    return _valid(checked)


def _valid(settings: Dict[str, str]) -> Dict[str, str]:
    """The settings; raises ValueError for one that has no meaning."""
    for name, value in settings.items():
        _gsprof.check(name, value)
        if name in PATTERNS:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{name} is a regular expression, but {error}") from None
    return settings


def enable(**settings: object) -> bool:
    """Starts the agent: enable(sample_rate=0.05, stack_gc=10).  False when there is no room for
    its rings; the program runs on as it would without."""
    return _boot.start(_check(settings))


def disable() -> None:
    """Nothing is recorded any more; what was recorded stays readable."""
    _boot.detach()


def is_enabled() -> bool:
    return _gsprof.is_on()


def enable_torch_profiling(spec: object = "on", **options: object) -> bool:
    """Traces the modules of PyTorch: enable_torch_profiling(rate=0.1, layers="encoder",
    backward=True), or in one text as GSPROF_TORCH_PROFILING has it."""
    settings = torch_settings(_text(spec))
    for key, value in options.items():
        if key not in TORCH_WORDS:
            known = ", ".join(sorted(TORCH_WORDS))
            raise TypeError(f"{key!r} is not an option of torch profiling; known: {known}")
        settings.update(torch_settings(f"{key}={_text(value)}"))
    return _boot.start(_valid(settings))


def disable_torch_profiling() -> None:
    if _gsprof.is_on():
        _gsprof.set("torch", "off")


def config(**settings: object) -> Dict[str, str]:
    """Changes settings, and gives all of them: config(stack_span="load.*")."""
    for name, value in _check(settings).items():
        _gsprof.set(name, value)
    return {name: _gsprof.get(name) for name, _, _, _ in _gsprof.settings()}


class _Steps:
    """Where the program is, when it tells its steps itself and torch is not traced."""

    number = -1
    began_s = 0.0


def step(n: Optional[int] = None, batch_size: Optional[int] = None) -> None:
    """One training step ends here and the next begins; n is the number of the one that ends."""
    if not _gsprof.is_on():
        return
    _device_memory.at_step()
    torch_half = sys.modules.get("gsprof.torch._hooks")
    if torch_half is not None and hasattr(torch_half, "step"):
        torch_half.step(n, batch_size)
        return
    now_s = time.perf_counter()
    number = _Steps.number + 1 if n is None else int(n)
    took_s = now_s - _Steps.began_s if _Steps.began_s else None
    _Steps.number, _Steps.began_s = number, now_s
    if _gsprof.get("spans") != "on":
        return
    per_s = batch_size / took_s if batch_size is not None and took_s else None
    _gsprof.put(
        "python.torch_step",
        {"step": number, "duration": took_s, "sampled": False, "samples_per_sec": per_s},
    )
    if took_s is not None:
        _stacks.step_took(took_s)
