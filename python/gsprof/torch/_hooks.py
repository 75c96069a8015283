# SPDX-License-Identifier: Apache-2.0
"""Hooks into PyTorch: modules, steps, the backward pass. The program imports PyTorch; this module
never does. The calls are timed in C (src/pyext/torch_call.c)."""

from __future__ import annotations

import collections
import functools
import sys
import threading
from typing import Any, Callable, List, Optional

from .. import _device_memory, _gsprof, _imports, _stacks
from .._quiet import hide_from_warnings, hide_wrapper, quietly
from . import _backward, _collectives, _names
from ._gpu import CudaEvents, Recorder
from ._overhead import Measure
from ._variables import Watch

_EVAL_FRAME = "torch._dynamo.eval_frame"


class _State:
    """What is installed in this process."""

    def __init__(self) -> None:
        self.torch: Any = None
        self.original: Any = None  # Module.__call__ of PyTorch
        self.installed: Any = None  # our Module.__call__: wrapper, or a function that calls it
        self.wrapper: Any = None
        self.undo: List[Callable[[], None]] = []  # removes the optimizer hooks
        self.hooked = False  # optimizers and the backward pass
        self.backward: Any = None  # our torch.autograd.backward
        self.is_transparent = False  # hooks have the forms that torch.compile can trace through
        self.vars = ""
        self.watch: Optional[Watch] = None
        self.gpu: Optional[Recorder] = None
        self.sync = False
        self.measure = Measure()


_state = _State()


def _is_compiling() -> Callable[[], bool]:
    """Returns torch.compiler.is_compiling, or a substitute for versions without a compiler."""
    compiler = getattr(_state.torch, "compiler", None)
    found: Optional[Callable[[], bool]] = getattr(compiler, "is_compiling", None)
    return found or (lambda: False)


# ------------------------------------------------------------------------ compile


def _make_transparent(
    original: Callable[..., Any], wrapper: Callable[..., Any], is_compiling: Callable[[], bool]
) -> Callable[..., Any]:
    """Returns a wrapper in Python, through which the compiler traces the original. A wrapper in C
    would break the graph."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        try:
            return wrapper(self, *args, **kwargs)
        except BaseException as error:
            hide_wrapper(error)
            raise

    return call


def _become_transparent() -> None:
    """Replaces the hooks in C by wrappers in Python, before the first compilation."""
    if _state.is_transparent or _state.wrapper is None:
        return
    _state.is_transparent = True
    if _state.installed is None:
        return
    module = _state.torch.nn.Module
    if module.__dict__.get("__call__") is _state.installed:
        _install_call(module)
    if _state.hooked:
        _hook_optimizers()
        _hook_backward()


def _install_call(module: Any) -> None:
    if _state.is_transparent:
        _state.installed = _make_transparent(_state.original, _state.wrapper, _is_compiling())
    else:
        _state.installed = _state.wrapper
    module.__call__ = _state.installed


def _watch_compile() -> None:
    """Calls _become_transparent() before the first compilation. torch._dynamo is imported with the
    first optimizer, which does not mean that the program compiles."""
    frames = sys.modules.get(_EVAL_FRAME)
    context = getattr(frames, "OptimizeContext", None)
    made = getattr(frames, "cached_backends", None)
    if context is None or made is None or any(backend is not None for backend in made.values()):
        _become_transparent()
        return
    original = context.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        quietly(_become_transparent)
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            hide_wrapper(error)
            raise

    context.__init__ = init


# --------------------------------------------------------------------- optimizers


def _transparent_hook(hook: Callable[..., None]) -> Callable[..., None]:
    is_compiling = _is_compiling()

    def call(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            hook(optimizer, args, kwargs)

    return call


def _undo_optimizers() -> None:
    while _state.undo:
        quietly(_state.undo.pop())


def _hook_optimizers() -> None:
    module = sys.modules["torch.optim.optimizer"]  # torch.optim does not show it
    _undo_optimizers()
    pre, post = _gsprof.torch_step_pre, _gsprof.torch_step_post
    if hasattr(module, "register_optimizer_step_post_hook"):
        if _state.is_transparent:
            pre, post = _transparent_hook(pre), _transparent_hook(post)
        handles = (
            module.register_optimizer_step_pre_hook(pre),
            module.register_optimizer_step_post_hook(post),
        )
        _state.undo.extend(handle.remove for handle in handles)
        return
    # PyTorch before 2.0: wrap step() of each class; _wrap_optimizer_init() handles later classes.
    rest = [module.Optimizer]
    while rest:
        found: Any = rest.pop()
        rest.extend(found.__subclasses__())
        _wrap_step(found)


_stepping = threading.local()


def _wrap_step(optimizer: Any) -> None:
    original = optimizer.__dict__.get("step")
    if original is None or hasattr(original, "__gsprof__"):
        return

    @hide_from_warnings
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_outer = not getattr(_stepping, "inside", False)
        try:
            if is_outer:
                _stepping.inside = True
                _gsprof.torch_step_pre(self, args, kwargs)
            result = original(self, *args, **kwargs)
        except BaseException as error:
            hide_wrapper(error)
            raise
        finally:
            if is_outer:
                _stepping.inside = False
        if is_outer:
            _gsprof.torch_step_post(self, args, kwargs)
        return result

    step.__gsprof__ = True
    optimizer.step = step


def _wrap_optimizer_init(optimizer: Any) -> None:
    original = optimizer.__init__

    @hide_from_warnings
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            hide_wrapper(error)
            raise
        if _state.installed is not None:
            _gsprof.torch_optimizer()
            if _state.hooked and not _state.undo:
                for found in type(self).__mro__:
                    quietly(_wrap_step, found)

    optimizer.__init__ = init


# ----------------------------------------------------------------------- settings


def _on_sampled(step: int, _seconds: float, _sampled: bool) -> None:
    """Called at the end of each traced step if only variables are recorded."""
    if _state.watch is not None:
        _state.watch.capture(step)


def _on_step(step: int, seconds: float, sampled: bool) -> None:
    """Called at the end of each step if more than variables is recorded."""
    if sampled and _state.watch is not None:
        _state.watch.capture(step)
    if seconds > 0:
        _stacks.step_took(seconds)
    if _state.gpu is not None:
        _state.gpu.settle(step)
        _device_memory.at_step()
    elif _has_gpu() and _state.torch.cuda.is_initialized():
        use_gpu(CudaEvents(_state.torch))


def _has_gpu() -> bool:
    version = _state.torch.version
    return bool(getattr(version, "cuda", None) or getattr(version, "hip", None))


def use_gpu(events: Any) -> None:
    """Measures durations on the GPU from now on; events has the interface of CudaEvents."""
    _state.gpu = Recorder(events, _state.sync)
    if _state.watch is not None:
        _state.watch.gpu = events
    _gsprof.torch_callback("gpu", _state.gpu)
    _gsprof.torch_callback("on_step", _on_step)


def _hook_backward() -> None:
    """Wraps torch.autograd.backward, or replaces our wrapper by the form needed now. Does nothing
    if the program has wrapped ours."""
    autograd = _state.torch.autograd
    now = autograd.backward
    if _state.backward is None:
        original = now
    elif now is _state.backward:
        original = now.__wrapped__
    else:
        return
    found = None if _state.is_transparent else _gsprof.torch_backward(original)
    _state.backward = found or _backward.wrap(original, _is_compiling())
    autograd.backward = _state.backward


def _hook_once() -> None:
    """Installs the hooks that are needed only once tracing is on."""
    if _state.hooked:
        return
    _state.hooked = True
    _hook_optimizers()
    _hook_backward()
    _collectives.install(_state.torch, _is_compiling())


def _on_settings(
    layers: str,
    modules: str,
    variables: str,
    on: bool,
    sync: bool,
    collectives: bool,
    adaptive: float,
) -> None:
    """Called by the extension when settings have changed."""
    # Applies the settings that do not concern PyTorch: a program may have no other hook for it.
    _gsprof.refresh()
    _names.set_filters(layers, modules)
    _state.sync = sync
    if _state.gpu is not None:
        _state.gpu.sync = sync
    if variables != _state.vars:
        _state.vars = variables
        gpu = _state.gpu.events if _state.gpu is not None else None
        _state.watch = Watch(variables, gpu) if variables else None
    _state.measure.limit(adaptive, bool(variables))
    _collectives.set_on(on and collectives)
    if on:
        _hook_once()
    slow = float(_gsprof.get("stack.slow_step") or 0) > 0
    wants_steps = slow or _state.gpu is not None or _has_gpu()
    _gsprof.torch_callback("on_step", _on_step if wants_steps else None)
    _gsprof.torch_callback("on_sampled", _on_sampled if _state.watch is not None else None)


# --------------------------------------------------------------------- the package


def install() -> None:
    """Installs the hooks; called when torch is imported. The settings control what they do."""
    torch = sys.modules["torch"]
    module: Any = torch.nn.Module
    if _state.installed is not None and module.__dict__.get("__call__") is _state.installed:
        _gsprof.torch_refresh()
        return
    first = _state.torch is None
    _state.torch = torch
    _state.original = module.__dict__["__call__"]
    _state.wrapper = _gsprof.torch_install(_state.original)
    _gsprof.torch_callback("name_module", _names.name_module)
    _gsprof.torch_callback("is_selected", _names.is_selected)
    _gsprof.torch_callback("on_settings", lambda *settings: quietly(_on_settings, *settings))
    _gsprof.torch_callback("on_measure", _state.measure)
    _gsprof.torch_gradients(torch.Tensor, collections.OrderedDict, torch._C._get_tracing_state)
    _install_call(module)
    if first:
        _wrap_optimizer_init(torch.optim.Optimizer)
        _imports.when_imported(_EVAL_FRAME, _watch_compile)
    _gsprof.mark(_gsprof.TORCH, 0)
    _gsprof.torch_refresh()


def uninstall() -> None:
    """Removes the hooks; calls in progress end with the hooks they began with."""
    if _state.installed is None:
        return
    module = _state.torch.nn.Module
    if module.__dict__.get("__call__") is _state.installed:
        module.__call__ = _state.original
    _state.installed = None
    _undo_optimizers()
    _state.hooked = False
    _collectives.set_on(False)
    if _state.gpu is not None:
        quietly(_state.gpu.flush)
    _gsprof.mark(0, _gsprof.TORCH)


def step(number: Optional[int] = None, batch_size: Optional[int] = None) -> None:
    """Ends a step. From the first call on, only these calls end steps."""
    _gsprof.torch_step_mark(-1 if number is None else int(number), int(batch_size or 0))
