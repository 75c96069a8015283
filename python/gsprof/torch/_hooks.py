# SPDX-License-Identifier: Apache-2.0
"""Hooks of PyTorch: modules, steps, the backward pass.  PyTorch is imported by the program, never
from here; the calls themselves are timed in C (src/pyext/torch_call.c)."""

from __future__ import annotations

import collections
import functools
import sys
import threading
from typing import Any, Callable, List, Optional

from .. import _device_memory, _gsprof, _imports, _stacks
from .._quiet import quietly, uncounted, unseen
from . import _backward, _collectives, _names
from ._gpu import CudaEvents, Recorder
from ._overhead import Measure
from ._variables import Watch

_EVAL_FRAME = "torch._dynamo.eval_frame"


class _State:
    """What is in place in this process."""

    torch: Any = None
    original: Any = None  # Module.__call__
    installed: Any = None  # what stands there now
    wrapper: Any = None
    undo: List[Callable[[], None]] = []
    hooked = False  # optimizers and the backward pass
    backward: Any = None  # what stands for torch.autograd.backward
    on = False
    sees_through = False  # forms that torch.compile can look into
    vars = ""
    watch: Optional[Watch] = None
    gpu: Optional[Recorder] = None
    sync = False
    measure = Measure()


def _is_compiling() -> Callable[[], bool]:
    """torch.compiler.is_compiling(), or its like in versions that have no compiler."""
    compiler = getattr(_State.torch, "compiler", None)
    found: Optional[Callable[[], bool]] = getattr(compiler, "is_compiling", None)
    return found or (lambda: False)


# ------------------------------------------------------------------------ compile


def _make_transparent(
    original: Callable[..., Any], wrapper: Callable[..., Any], is_compiling: Callable[[], bool]
) -> Callable[..., Any]:
    """A wrapper in Python: the compiler sees the original in it, where one in C would end the
    graph."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        try:
            return wrapper(self, *args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise

    return call


def _see_through() -> None:
    """Something is about to be compiled: from now on everything is Python at the border."""
    if _State.sees_through or _State.wrapper is None:
        return
    _State.sees_through = True
    if _State.installed is None:
        return
    module = _State.torch.nn.Module
    if module.__dict__.get("__call__") is _State.installed:
        _place(module)
    if _State.hooked:
        _hook_optimizers()
        _hook_backward()


def _place(module: Any) -> None:
    if _State.sees_through:
        _State.installed = _make_transparent(_State.original, _State.wrapper, _is_compiling())
    else:
        _State.installed = _State.wrapper
    module.__call__ = _State.installed


def _watch_compile() -> None:
    """torch._dynamo comes with the first optimizer; what matters is the first context that
    compiles."""
    frames = sys.modules.get(_EVAL_FRAME)
    context = getattr(frames, "OptimizeContext", None)
    made = getattr(frames, "cached_backends", None)
    if context is None or made is None or any(backend is not None for backend in made.values()):
        _see_through()
        return
    original = context.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        quietly(_see_through)
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            unseen(error)
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
    while _State.undo:
        quietly(_State.undo.pop())


def _hook_optimizers() -> None:
    module = sys.modules["torch.optim.optimizer"]  # torch.optim does not show it
    _undo_optimizers()
    pre, post = _gsprof.torch_step_pre, _gsprof.torch_step_post
    if hasattr(module, "register_optimizer_step_post_hook"):
        if _State.sees_through:
            pre, post = _transparent_hook(pre), _transparent_hook(post)
        handles = (
            module.register_optimizer_step_pre_hook(pre),
            module.register_optimizer_step_post_hook(post),
        )
        _State.undo.extend(handle.remove for handle in handles)
        return
    # PyTorch before 2.0: each class has its step(), also one that comes later.
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

    @uncounted
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_outer = not getattr(_stepping, "inside", False)
        try:
            if is_outer:
                _stepping.inside = True
                _gsprof.torch_step_pre(self, args, kwargs)
            result = original(self, *args, **kwargs)
        except BaseException as error:
            unseen(error)
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

    @uncounted
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        if _State.installed is not None:
            _gsprof.torch_optimizer()
            if _State.hooked and not _State.undo:
                for found in type(self).__mro__:
                    quietly(_wrap_step, found)

    optimizer.__init__ = init


# ----------------------------------------------------------------------- settings


def _on_sampled(step: int, _seconds: float, _sampled: bool) -> None:
    """At the end of each traced step, where variables are all that is wanted."""
    if _State.watch is not None:
        _State.watch.take(step)


def _on_step(step: int, seconds: float, sampled: bool) -> None:
    """At the end of each step, where more than variables is wanted."""
    if sampled and _State.watch is not None:
        _State.watch.take(step)
    if seconds > 0:
        _stacks.step_took(seconds)
    if _State.gpu is not None:
        _State.gpu.settle(step)
        _device_memory.at_step()
    elif _has_gpu() and _State.torch.cuda.is_initialized():
        use_gpu(CudaEvents(_State.torch))


def _has_gpu() -> bool:
    version = _State.torch.version
    return bool(getattr(version, "cuda", None) or getattr(version, "hip", None))


def use_gpu(events: Any) -> None:
    """From now on durations are the GPU's; events is a CudaEvents or what stands for one."""
    _State.gpu = Recorder(events, _State.sync)
    if _State.watch is not None:
        _State.watch.gpu = events
    _gsprof.torch_callback("gpu", _State.gpu)
    _gsprof.torch_callback("on_step", _on_step)


def _hook_backward() -> None:
    """torch.autograd.backward; what stands there for us already gives way to the form that is
    needed now, unless somebody has put something around it."""
    autograd = _State.torch.autograd
    now = autograd.backward
    if _State.backward is None:
        original = now
    elif now is _State.backward:
        original = now.__wrapped__
    else:
        return
    found = None if _State.sees_through else _gsprof.torch_backward(original)
    _State.backward = found or _backward.wrap(original, _is_compiling())
    autograd.backward = _State.backward


def _hook_first() -> None:
    """What is only needed once tracing has been asked for."""
    if _State.hooked:
        return
    _State.hooked = True
    _hook_optimizers()
    _hook_backward()
    _collectives.install(_State.torch, _is_compiling())


def _on_settings(
    layers: str,
    modules: str,
    variables: str,
    on: bool,
    sync: bool,
    collectives: bool,
    adaptive: float,
) -> None:
    """The extension has seen that settings changed."""
    # Those that are not of PyTorch: a program may have nothing else that takes them up.
    _gsprof.refresh()
    _names.set_filters(layers, modules)
    _State.on = on
    _State.sync = sync
    if _State.gpu is not None:
        _State.gpu.sync = sync
    if variables != _State.vars:
        _State.vars = variables
        gpu = _State.gpu.events if _State.gpu is not None else None
        _State.watch = Watch(variables, gpu) if variables else None
    _State.measure.limit(adaptive, bool(variables))
    _collectives.set_on(on and collectives)
    if on:
        _hook_first()
    slow = float(_gsprof.get("stack.slow_step") or 0) > 0
    wants_steps = slow or _State.gpu is not None or _has_gpu()
    _gsprof.torch_callback("on_step", _on_step if wants_steps else None)
    _gsprof.torch_callback("on_sampled", _on_sampled if _State.watch is not None else None)


# --------------------------------------------------------------------- the package


def install() -> None:
    """Puts the hooks in place; called when torch is there.  Settings say what they do."""
    torch = sys.modules["torch"]
    module: Any = torch.nn.Module
    if _State.installed is not None and module.__dict__.get("__call__") is _State.installed:
        _gsprof.torch_refresh()
        return
    first = _State.torch is None
    _State.torch = torch
    _State.original = module.__dict__["__call__"]
    _State.wrapper = _gsprof.torch_install(_State.original)
    _gsprof.torch_callback("name_module", _names.name_module)
    _gsprof.torch_callback("is_wanted", _names.is_wanted)
    _gsprof.torch_callback("on_settings", lambda *settings: quietly(_on_settings, *settings))
    _gsprof.torch_callback("on_measure", _State.measure)
    _gsprof.torch_gradients(torch.Tensor, collections.OrderedDict, torch._C._get_tracing_state)
    _place(module)
    if first:
        _wrap_optimizer_init(torch.optim.Optimizer)
        _imports.when_imported(_EVAL_FRAME, _watch_compile)
    _gsprof.mark(_gsprof.TORCH, 0)
    _gsprof.torch_refresh()


def uninstall() -> None:
    """Takes the hooks away; calls that run just now end as they began."""
    if _State.installed is None:
        return
    module = _State.torch.nn.Module
    if module.__dict__.get("__call__") is _State.installed:
        module.__call__ = _State.original
    _State.installed = None
    _undo_optimizers()
    _State.hooked = False
    _collectives.set_on(False)
    if _State.gpu is not None:
        quietly(_State.gpu.flush)
    _gsprof.mark(0, _gsprof.TORCH)


def step(number: Optional[int] = None, batch_size: Optional[int] = None) -> None:
    """The program says where a step ends, and so that it will say it each time."""
    _gsprof.torch_step_mark(-1 if number is None else int(number), int(batch_size or 0))
