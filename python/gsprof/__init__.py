# SPDX-License-Identifier: Apache-2.0
"""gsprof: marks a program's spans and steps, and switches the profiler on from inside it.

    import gsprof

    gsprof.enable_torch_profiling(rate=0.1)
    with gsprof.span("load", phase="data"):
        ...
    gsprof.step()

Nothing is recorded until the agent is on: by GSPROF=1 in the environment, enable(),
enable_torch_profiling(), or `gsprof inject PID` from outside. Until then a mark costs some tens of
nanoseconds."""

from ._gsprof import Span, current_span, event, span
from ._gsprof import set_callback as _set_callback
from ._gsprof import version as __version__

# Only what marks need is imported here, because an injector waits for this import; __getattr__()
# imports the rest at first use.
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

    module = import_module(_MODULES.get(name, "._api"), __name__)
    found = module if name == "errors" else getattr(module, name)
    globals()[name] = found
    return found


# Modules of the names that are not in _api.
_MODULES = {
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
