# SPDX-License-Identifier: Apache-2.0
"""Records collectives of torch.distributed: duration, bytes, group.

Collectives that PyTorch starts from C++ (the reducer of DistributedDataParallel) are not seen."""

from __future__ import annotations

import functools
import sys
import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from .. import _boot, _gsprof, _imports
from .._quiet import hide_wrapper, quietly

# The argument whose bytes each operation sends: its index and its name. Operations of PyTorch 1.13
# to 2.13; those that exist are wrapped.
_OPERATIONS: Dict[str, Tuple[int, str]] = {
    "all_reduce": (0, "tensor"),
    "all_reduce_coalesced": (0, "tensors"),
    "all_reduce_multigpu": (0, "tensor_list"),
    "all_gather": (1, "tensor"),
    "all_gather_coalesced": (1, "input_tensor_list"),
    "all_gather_into_tensor": (1, "input_tensor"),
    "all_gather_multigpu": (1, "input_tensor_list"),
    "all_gather_object": (-1, ""),
    "all_gather_single": (1, "input_tensor"),
    "_all_gather_base": (1, "input_tensor"),
    "all_to_all": (1, "input_tensor_list"),
    "all_to_all_single": (1, "input"),
    "barrier": (-1, ""),
    "batch_isend_irecv": (0, "p2p_op_list"),
    "broadcast": (0, "tensor"),
    "broadcast_multigpu": (0, "tensor_list"),
    "broadcast_object_list": (-1, ""),
    "gather": (0, "tensor"),
    "gather_object": (-1, ""),
    "irecv": (0, "tensor"),
    "isend": (0, "tensor"),
    "monitored_barrier": (-1, ""),
    "recv": (0, "tensor"),
    "recv_object_list": (-1, ""),
    "reduce": (0, "tensor"),
    "reduce_multigpu": (0, "tensor_list"),
    "reduce_scatter": (1, "input_list"),
    "reduce_scatter_multigpu": (1, "input_tensor_lists"),
    "reduce_scatter_single": (1, "input"),
    "reduce_scatter_tensor": (1, "input"),
    "_reduce_scatter_base": (1, "input"),
    "scatter": (1, "scatter_list"),
    "scatter_object_list": (-1, ""),
    "send": (0, "tensor"),
    "send_object_list": (-1, ""),
}
_ASYNC = ("isend", "irecv", "batch_isend_irecv")

# Functional collectives, used by DTensor and tensor-parallel layers, which do not call the ones
# above. All are asynchronous: the code that uses the resulting tensor waits.
_FUNCTIONAL = "torch.distributed._functional_collectives"
_FUNCTIONS = (
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_autograd",
    "all_gather_single_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_autograd",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
)


class _State:
    def __init__(self) -> None:
        self.on = False
        self.installed = False
        self.distributed: Any = None


_state = _State()


_calling = threading.local()


def set_on(on: bool) -> None:
    _state.on = on


def _bytes(value: Any) -> Optional[int]:
    if isinstance(value, (list, tuple)):
        sizes = [_bytes(item) for item in value]
        return sum(size for size in sizes if size is not None) if sizes else None
    if type(value).__name__ == "P2POp":
        value = getattr(value, "tensor", None)
    if hasattr(value, "numel") and hasattr(value, "element_size"):
        return int(value.numel()) * int(value.element_size())
    return None


def _group(group: Any) -> Tuple[str, Optional[int]]:
    """Returns the name and the size of a group."""
    distributed = _state.distributed
    if isinstance(group, str):
        # Functional collectives accept a group's name.
        names = getattr(distributed.distributed_c10d, "_pg_names", {})
        group = next((one for one, name in names.items() if name == group), None)
    elif isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        group = group[0].get_group(group[1])  # a device mesh and one of its dimensions
    elif hasattr(group, "get_group"):
        group = group.get_group()
    size = quietly(distributed.get_world_size, group)
    world = getattr(getattr(distributed, "group", None), "WORLD", None)
    if group is None or group is world:
        return "default", size
    name = getattr(group, "group_name", None)
    if not name:
        names = getattr(distributed.distributed_c10d, "_pg_names", {})
        name = names.get(group) if isinstance(names, dict) else None
    return str(name or "unnamed"), size


class _Operation(NamedTuple):
    name: str
    payload_index: int  # of the argument whose bytes are sent; -1: none
    payload_name: str
    group_index: int = -1  # of the argument that is the group; -1: search all arguments
    is_async: bool = False


def _operation(name: str) -> _Operation:
    index, keyword = _OPERATIONS[name]
    return _Operation(name, index, keyword, is_async=name in _ASYNC)


def _function(name: str, original: Callable[..., Any]) -> _Operation:
    names = original.__code__.co_varnames[: original.__code__.co_argcount]
    group_index = names.index("group") if "group" in names else -1
    return _Operation(name, 0, names[0] if names else "", group_index, True)


def _put(op: _Operation, args: Tuple[Any, ...], kwargs: Dict[str, Any], seconds: float) -> None:
    payload = kwargs.get(
        op.payload_name, args[op.payload_index] if 0 <= op.payload_index < len(args) else None
    )
    group = kwargs.get("group", args[op.group_index] if 0 <= op.group_index < len(args) else None)
    if group is None:
        group = next((arg for arg in args if "ProcessGroup" in type(arg).__name__), None)
    name, size = _group(group)
    _gsprof.put(
        "python.collective",
        {
            "op": op.name,
            "bytes": _bytes(payload),
            "group_name": name,
            "group_size": size,
            "duration": seconds,
            "step": _gsprof.torch_step_now(),
            "async": op.is_async or bool(kwargs.get("async_op")),
            "thread_id": _gsprof.thread_id(),
        },
    )


def _wrap(op: _Operation, original: Callable[..., Any], is_compiling: Callable[[], bool]) -> Any:
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        # One collective may call others: only the outermost is recorded.
        if is_compiling():
            return original(*args, **kwargs)
        is_outer = _state.on and not getattr(_calling, "inside", False)
        if is_outer:
            _calling.inside = True
        began_ns = time.monotonic_ns()
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            hide_wrapper(error)
            raise
        finally:
            if is_outer:
                ended_ns = time.monotonic_ns()
                _calling.inside = False
                quietly(_put, op, args, kwargs, (ended_ns - began_ns) / 1e9)

    return collective


def _wrap_functions(is_compiling: Callable[[], bool]) -> None:
    module = sys.modules[_FUNCTIONAL]
    for name in _FUNCTIONS:
        original: Any = getattr(module, name, None)
        if hasattr(original, "__code__"):
            setattr(module, name, _wrap(_function(name, original), original, is_compiling))


def _record_rank() -> None:
    distributed = _state.distributed
    if distributed.is_initialized():
        _gsprof.rank(int(distributed.get_rank()))
        _boot.put_fact("world_size", int(distributed.get_world_size()), "processes of the job")


def _wrap_init(original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            hide_wrapper(error)
            raise
        quietly(_record_rank)
        return result

    return init_process_group


def install(torch: Any, is_compiling: Callable[[], bool]) -> None:
    """Wraps the operations that exist, once; set_on() switches the rows on and off."""
    distributed = getattr(torch, "distributed", None)
    if _state.installed or distributed is None or not distributed.is_available():
        return
    _state.installed = True
    _state.distributed = distributed
    inner = distributed.distributed_c10d
    for op in _OPERATIONS:
        original = getattr(inner, op, None)
        if original is None:
            continue
        wrapped = _wrap(_operation(op), original, is_compiling)
        for holder in (inner, distributed):
            if getattr(holder, op, None) is original:
                setattr(holder, op, wrapped)
    _imports.when_imported(_FUNCTIONAL, lambda: _wrap_functions(is_compiling))
    original = inner.init_process_group
    wrapped = _wrap_init(original)
    for holder in (inner, distributed):
        if getattr(holder, "init_process_group", None) is original:
            setattr(holder, "init_process_group", wrapped)
    quietly(_record_rank)
