# SPDX-License-Identifier: Apache-2.0
"""Counts the floating-point operations of PyTorch by operator, at dispatch.

A multiply-add is two operations, as in torch.utils.flop_counter. Operators that move, compare or
work element-wise are not counted."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from .. import _imports

Shape = Sequence[int]
Formula = Callable[[Tuple[Any, ...], Any], int]


def _product(numbers: Shape) -> int:
    result = 1
    for number in numbers:
        result *= int(number)
    return result


def _matmul(a: Any, b: Any) -> int:
    """Product of the last two dimensions, for each index of the others."""
    return 2 * _product(a.shape) * int(b.shape[-1])


def _mm(args: Tuple[Any, ...], out: Any) -> int:
    return _matmul(args[0], args[1])


def _addmm(args: Tuple[Any, ...], out: Any) -> int:
    return _matmul(args[1], args[2])


def _mv(args: Tuple[Any, ...], out: Any) -> int:
    return 2 * _product(args[0].shape)


def _addmv(args: Tuple[Any, ...], out: Any) -> int:
    return 2 * _product(args[1].shape)


def _convolution_of(sparse: Shape, weight: Shape) -> int:
    """Each element of `sparse` is combined with each weight of its group. sparse is the output, or
    the input if the convolution is transposed."""
    return 2 * int(sparse[0]) * _product(sparse[2:]) * _product(weight)


def _convolution(args: Tuple[Any, ...], out: Any) -> int:
    transposed = bool(args[6])
    return _convolution_of((args[0] if transposed else out).shape, args[1].shape)


def _convolution_backward(args: Tuple[Any, ...], out: Any) -> int:
    grad, data, weight, transposed, mask = args[0], args[1], args[2], bool(args[7]), args[10]
    once = _convolution_of((data if transposed else grad).shape, weight.shape)
    # The gradient of the input and that of the weights each cost as much as the forward pass.
    return once * (int(bool(mask[0])) + int(bool(mask[1])))


def _plain_convolution(args: Tuple[Any, ...], out: Any) -> int:
    """cudnn_convolution, mkldnn_convolution, ...: never transposed."""
    return _convolution_of(out.shape, args[1].shape)


def _transposed_convolution(args: Tuple[Any, ...], out: Any) -> int:
    return _convolution_of(args[0].shape, args[1].shape)


def _attention_of(query: Shape, key: Shape, value: Shape, times: Tuple[int, int]) -> int:
    """times: number of products over the key size, and over the value size."""
    pairs = _product(query[:-1]) * int(key[-2])
    return 2 * pairs * (times[0] * int(query[-1]) + times[1] * int(value[-1]))


def _attention(args: Tuple[Any, ...], out: Any) -> int:
    return _attention_of(args[0].shape, args[1].shape, args[2].shape, (1, 1))


def _attention_backward(args: Tuple[Any, ...], out: Any) -> int:
    """The scores again, and the gradients of values, scores, queries and keys."""
    return _attention_of(args[1].shape, args[2].shape, args[3].shape, (3, 2))


def _lstm_layer(args: Tuple[Any, ...], out: Any) -> int:
    """One direction of a oneDNN layer: both products of every step."""
    data, w_input, w_hidden = args[0], args[1], args[2]
    return 2 * _product(data.shape[:-1]) * (_product(w_input.shape) + _product(w_hidden.shape))


def _lstm_layer_backward(args: Tuple[Any, ...], out: Any) -> int:
    return 2 * _lstm_layer(args, out)


def _self_attention_of(data: Shape, weights: Sequence[Any]) -> int:
    """Each weight is applied to each token; then attention between all tokens."""
    tokens = _product(data[:-1])
    inner = 2 * 2 * tokens * int(data[-2]) * int(data[-1])
    return inner + 2 * tokens * sum(_product(weight.shape) for weight in weights)


def _encoder_layer(args: Tuple[Any, ...], out: Any) -> int:
    """The whole layer as one operator, used in inference."""
    return _self_attention_of(args[0].shape, (args[3], args[5], args[14], args[16]))


def _multi_head(args: Tuple[Any, ...], out: Any) -> int:
    return _self_attention_of(args[0].shape, (args[5], args[7]))


# By the dispatcher's names, without overloads.
_FORMULAS: Dict[str, Formula] = {
    "aten::mm": _mm,
    "aten::bmm": _mm,
    "aten::addmm": _addmm,
    "aten::_addmm_activation": _addmm,
    "aten::baddbmm": _addmm,
    "aten::addbmm": _addmm,
    "aten::_scaled_mm": _mm,
    "aten::mv": _mv,
    "aten::dot": _mv,
    "aten::vdot": _mv,
    "aten::addmv": _addmv,
    "aten::convolution": _convolution,
    "aten::_convolution": _convolution,
    "aten::convolution_overrideable": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::cudnn_convolution": _plain_convolution,
    "aten::cudnn_convolution_transpose": _transposed_convolution,
    "aten::mkldnn_convolution": _plain_convolution,
    "aten::mkldnn_rnn_layer": _lstm_layer,
    "aten::mkldnn_rnn_layer_backward": _lstm_layer_backward,
    "aten::_transformer_encoder_layer_fwd": _encoder_layer,
    "aten::_native_multi_head_attention": _multi_head,
    "aten::_scaled_dot_product_flash_attention": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "aten::_scaled_dot_product_cudnn_attention": _attention,
    "aten::_scaled_dot_product_flash_attention_backward": _attention_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention_backward,
}


class _Counts:
    """Counts of one thread so far; blocks compute differences."""

    def __init__(self) -> None:
        self.by_name: Dict[str, int] = {}
        self.operators = 0
        self.open = 0
        self.mode: Any = None

    def add(self, function: Any, args: Tuple[Any, ...], out: Any) -> None:
        self.operators += 1
        name: str = function._schema.name
        formula = _FORMULAS.get(name)
        if formula is None:
            return
        try:
            flops = formula(args, out)
        except (AttributeError, IndexError, TypeError, ValueError):
            return  # an unknown form of the operator
        self.by_name[name] = self.by_name.get(name, 0) + flops


def _make_mode(torch: Any, counts: _Counts) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        """Sees every operator below autograd, including the backward pass."""

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # True makes PyTorch import the whole compiler with the first operator: seconds, and
            # hundreds of modules, for a program that compiles nothing.
            return False

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            counts.add(func, args, out)
            return out

    disable = getattr(torch, "_disable_dynamo", None)
    if disable is not None:
        # If the program compiles, this function must not be compiled.
        dispatch = Mode.__torch_dispatch__
        skip = functools.partial(setattr, Mode, "__torch_dispatch__", disable(dispatch))
        _imports.when_imported("torch._dynamo", skip)
    return Mode()


_local = threading.local()


def _counts() -> _Counts:
    found: Optional[_Counts] = getattr(_local, "counts", None)
    if found is None:
        found = _local.counts = _Counts()
    return found


class FlopBlock:
    """Counts the operators of a block, in the thread that begins it. Blocks of one thread share a
    mode, so that coroutines may leave theirs in any order."""

    def __init__(self) -> None:
        self._counts: Optional[_Counts] = None
        self._before: Dict[str, int] = {}
        self._operators = 0

    def begin(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "utils"):
            return
        counts = _counts()
        if counts.open == 0 and counts.mode is None:
            counts.mode = _make_mode(torch, counts)
            counts.mode.__enter__()
        counts.open += 1
        self._counts = counts
        self._before = dict(counts.by_name)
        self._operators = counts.operators

    def end(self) -> Optional[Dict[str, int]]:
        """Returns operations by operator; None if no operator of PyTorch was seen."""
        counts = self._counts
        if counts is None:
            return None
        found = {
            name: flops - self._before.get(name, 0)
            for name, flops in counts.by_name.items()
            if flops > self._before.get(name, 0)
        }
        seen = counts.operators > self._operators
        counts.open -= 1
        # Only the thread that entered the mode can leave it.
        if counts.open == 0 and counts is _counts():
            counts.mode.__exit__(None, None, None)
            counts.mode = None
        return found if seen else None
