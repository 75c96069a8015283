# SPDX-License-Identifier: Apache-2.0
"""Wraps torch.autograd.backward in Python, for torch.compile and for interpreters without
vectorcall. The rows are written in C (src/pyext/torch_grad.c)."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import _gsprof
from .._quiet import hide_wrapper


def wrap(original: Callable[..., Any], is_compiling: Callable[[], bool]) -> Callable[..., Any]:
    """Returns torch.autograd.backward with a row for the whole pass."""
    begin, end = _gsprof.torch_backward_begin, _gsprof.torch_backward_end

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        began = begin()
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            hide_wrapper(error)
            raise
        finally:
            if began:
                end(began)

    return backward
