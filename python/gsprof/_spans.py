# SPDX-License-Identifier: Apache-2.0
"""Spans as decorators; everything else about spans is in C."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

from . import _gsprof

Function = Callable[..., Any]

# Flags of code objects, without importing inspect.
_GENERATOR = 0x20
_COROUTINE = 0x80
_ASYNC_GENERATOR = 0x200


def wrap(span: Optional[_gsprof.Span], function: Any) -> Any:
    """Returns the function with a span around each call; span None: a span named after it."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(wrap(span, function.__func__))
    if not callable(function):
        raise TypeError("a span needs a name, or a function to decorate")
    if span is None:
        name = getattr(function, "__qualname__", type(function).__name__)
        span = _gsprof.span(str(name))
        assert span is not None
    again = span.again
    code = getattr(function, "__code__", None)
    flags = getattr(code, "co_flags", 0)
    if flags & _ASYNC_GENERATOR:
        wrapper = _around_async_generator(again, function)
    elif flags & _COROUTINE:
        wrapper = _around_coroutine(again, function)
    elif flags & _GENERATOR:
        wrapper = _around_generator(again, function)
    else:
        wrapper = _around_call(again, function)
    return functools.wraps(function)(wrapper)


def _around_call(again: Function, function: Function) -> Function:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with again():
            return function(*args, **kwargs)

    return wrapper


def _around_coroutine(again: Function, function: Function) -> Function:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with again():
            return await function(*args, **kwargs)

    return wrapper


def _around_generator(again: Function, function: Function) -> Function:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with again():
            return (yield from function(*args, **kwargs))

    return wrapper


def _around_async_generator(again: Function, function: Function) -> Function:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with again():
            inner = function(*args, **kwargs)
            step = inner.__anext__()
            while True:
                try:
                    item = await step
                except StopAsyncIteration:
                    return
                try:
                    sent = yield item
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)

    return wrapper
