# SPDX-License-Identifier: Apache-2.0
"""gsprof: marks in a program, and switching the profiler on from within.

    import gsprof

    gsprof.enable_torch_profiling(rate=0.1)
    with gsprof.span("load", phase="data"):
        ...
    gsprof.step()

Nothing is recorded before the agent is on: GSPROF=1 in the environment, enable(),
enable_torch_profiling(), or gsprof inject PID from outside.  Marks cost some tens of nanoseconds
until then."""

from ._gsprof import Span, current_span, event, span
from ._gsprof import set_callback as _set_callback
from ._gsprof import version as __version__

# What is here from the start is what a mark needs; the rest comes when it is first asked for, for
# an injector waits while this is imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from ._api import (
        config,
        disable,
        disable_torch_profiling,
        enable,
        enable_torch_profiling,
        is_enabled,
        step,
    )
    from ._query import query
    from ._session import Session
    from ._tables import Table, table
    from .errors import GsprofError


def __getattr__(name: str) -> "Any":
    if name not in __all__ and name != "errors":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_PLACES.get(name, "._api"), __name__)
    found = module if name == "errors" else getattr(module, name)
    globals()[name] = found
    return found


# Where a name is that _api has not.
_PLACES = {
    "GsprofError": ".errors",
    "Session": "._session",
    "Table": "._tables",
    "errors": ".errors",
    "query": "._query",
    "table": "._tables",
}


def load_ipython_extension(shell: "Any") -> None:
    """%load_ext gsprof"""
    from .notebook import load

    load(shell)


def _wrap(span: "Optional[Span]", function: "Any") -> "Any":
    from ._spans import wrap

    return wrap(span, function)


_set_callback("wrap", _wrap)

__all__ = [
    "GsprofError",
    "Session",
    "Span",
    "Table",
    "__version__",
    "config",
    "current_span",
    "disable",
    "disable_torch_profiling",
    "enable",
    "enable_torch_profiling",
    "event",
    "is_enabled",
    "query",
    "span",
    "step",
    "table",
]
