# SPDX-License-Identifier: Apache-2.0
"""Faults of our own never reach the program; GSPROF_DEBUG=1 prints them."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def tell(error: BaseException) -> None:
    if os.environ.get("GSPROF_DEBUG") not in (None, "", "0") and sys.stderr is not None:
        try:
            print(f"gsprof: {type(error).__name__}: {error}", file=sys.stderr)
        except (OSError, ValueError):
            pass


def unseen(error: BaseException) -> None:
    """Takes the calling wrapper out of the traceback of an exception that it lets pass, so that the
    program shows what it would show alone."""
    from . import _gsprof

    trace = error.__traceback__
    if trace is not None and not _gsprof.drop_entry(trace):
        error.__traceback__ = trace.tb_next


def uncounted(wrapper: "Any") -> "Any":
    """The wrapper, skipped when `warnings` counts frames for a stacklevel: a warning names the line
    that it would name alone.  Python skips files with these two words in their names."""
    wrapper.__code__ = wrapper.__code__.replace(co_filename="<gsprof, not importlib._bootstrap>")
    return wrapper


def quietly(function: "Callable[..., Any]", *args: "Any") -> "Any":
    """The function's answer; None when it raised."""
    try:
        return function(*args)
    except Exception as error:
        tell(error)
        return None
