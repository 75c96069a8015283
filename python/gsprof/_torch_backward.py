# SPDX-License-Identifier: Apache-2.0
"""The backward pass: as one row, and of each module by hooks on the tensors that go in and out.

A module's backward pass begins when the gradient of its output is there and ends when those of
its inputs are.  PyTorch's full backward hooks would say the same at many times the cost."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Iterator, List, Tuple

from . import _gsprof
from ._quiet import unseen

BACKWARD = 1  # the stage of torch_stage_row()
# Modules whose inputs need no gradient end with the whole pass; a program that never calls
# backward() must not fill the memory.
PENDING_MAX = 65536

_pending: List[Tuple[str, str, List[int]]] = []


def _tensors(value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors in a value that have a place in the graph."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        if value.requires_grad and value.grad_fn is not None:
            yield value
    elif depth < 3 and isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item, depth + 1)
    elif depth < 3 and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth + 1)


def _hook(tensor: Any, function: Callable[[Any], None]) -> None:
    # PyTorch warns when it stores a tensor with hooks that are not marked so.
    function.__torch_unserializable__ = True  # type: ignore[attr-defined]
    tensor.register_hook(function)


def after_forward(args: Tuple[Any, ...], output: Any, path: str, kind: str) -> None:
    """Called when a module has returned; args[0] is the module."""
    torch = sys.modules["torch"]
    if not torch.is_grad_enabled() or torch._C._get_tracing_state() is not None:
        return
    outputs = list(_tensors(output))
    if not outputs:
        return
    known = {id(tensor) for tensor in outputs}
    inputs = [tensor for tensor in _tensors(args[1:]) if id(tensor) not in known]
    began = [0]
    left = [len({id(tensor) for tensor in inputs})]

    def enter(_grad: Any) -> None:
        if not began[0]:
            began[0] = _gsprof.torch_now()
            if not left[0] and len(_pending) < PENDING_MAX:
                _pending.append((path, kind, began))

    def leave(_grad: Any) -> None:
        left[0] -= 1
        if left[0] == 0 and began[0]:
            _gsprof.torch_stage_row(BACKWARD, path, kind, began[0], _gsprof.torch_now())

    for tensor in outputs:
        _hook(tensor, enter)
    for tensor in {id(tensor): tensor for tensor in inputs}.values():
        _hook(tensor, leave)


def end_pending() -> None:
    """The pass is over: so are the modules whose end nobody told."""
    if not _pending:
        return
    ended = _gsprof.torch_now()
    while _pending:
        path, kind, began = _pending.pop()
        _gsprof.torch_stage_row(BACKWARD, path, kind, began[0], ended)


def wrap(original: Callable[..., Any], is_compiling: Callable[[], bool]) -> Callable[..., Any]:
    """torch.autograd.backward with a row for the whole pass."""
    begin, end = _gsprof.torch_backward_begin, _gsprof.torch_backward_end

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        began = begin()
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            if began:
                end_pending()
                end(began)

    return backward
