# SPDX-License-Identifier: Apache-2.0
"""Keeps gsprof's own errors away from the program; GSPROF_DEBUG=1 prints them."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def report(error: BaseException) -> None:
    if os.environ.get("GSPROF_DEBUG") not in (None, "", "0") and sys.stderr is not None:
        try:
            print(f"gsprof: {type(error).__name__}: {error}", file=sys.stderr)
        except (OSError, ValueError):
            pass


def hide_wrapper(error: BaseException) -> None:
    """Removes the calling wrapper from the traceback of an exception that passes through it, so
    that the program prints the same traceback as without gsprof."""
    from . import _gsprof

    trace = error.__traceback__
    if trace is not None and not _gsprof.drop_entry(trace):
        error.__traceback__ = trace.tb_next


def hide_from_warnings(wrapper: "Any") -> "Any":
    """Makes `warnings` skip the wrapper when it counts frames for a stacklevel, so that a warning
    names the same line as without gsprof. Python skips files whose names have both "importlib" and
    "_bootstrap" in them."""
    wrapper.__code__ = wrapper.__code__.replace(co_filename="<gsprof, not importlib._bootstrap>")
    return wrapper


def quietly(function: "Callable[..., Any]", *args: "Any") -> "Any":
    """Returns function(*args), or None if it raised."""
    try:
        return function(*args)
    except Exception as error:
        report(error)
        return None
