# SPDX-License-Identifier: Apache-2.0
"""Calls somebody once a module has been imported, without importing it."""

import sys

from ._quiet import quietly

# As in _boot: nothing that a bare interpreter has not loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable, Dict, List, Optional, Sequence, Set

    Callback = Callable[[], object]


def _as_import(function: "Any") -> "Any":
    """The function, as one of Python's own import: Python takes its frame out of the traceback of
    an import that fails, and coverage does not list its file."""
    function.__code__ = function.__code__.replace(
        co_filename="<frozen importlib._bootstrap_external>"
    )
    return function


class _Then:
    """A module's own loader, and what is to come after it has run."""

    def __init__(self, inner: "Any", name: str) -> None:
        self._inner = inner
        self._name = name

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._inner, name)

    def create_module(self, spec: "Any") -> "Any":
        return self._inner.create_module(spec)

    @_as_import
    def exec_module(self, module: "ModuleType") -> None:
        # Whoever looks at the module later finds the loader that it really had.
        spec = getattr(module, "__spec__", None)
        if spec is not None:
            spec.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        _call(self._name)


class _Finder:
    """Stands before all other finders, and asks them."""

    @_as_import
    def find_spec(
        self, fullname: str, path: "Optional[Sequence[str]]", target: "Optional[ModuleType]" = None
    ) -> "Any":
        if fullname not in _waiting:
            return None
        for finder in sys.meta_path:
            if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is None:
                continue
            if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                then: Any = _Then(spec.loader, fullname)
                spec.loader = then
            return spec
        return None


_waiting: "Dict[str, List[Callback]]" = {}
# Modules whose code has run, though the interpreter still takes them to be importing.
_ran: "Set[str]" = set()
_finder = _Finder()


def _call(name: str) -> None:
    _ran.add(name)
    for callback in _waiting.pop(name, []):
        quietly(callback)


def _wait_for(module: "ModuleType", callback: "Callback") -> None:
    """For a module that another thread is just importing: it has passed the finders already."""
    import threading
    import time

    def wait() -> None:
        deadline = time.monotonic() + 120
        while _is_importing(module) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not _is_importing(module):
            quietly(callback)

    threading.Thread(target=wait, name="gsprof import", daemon=True).start()


def _is_importing(module: "ModuleType") -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def when_imported(name: str, callback: "Callback") -> None:
    """Calls back now if the module is there, else when it has been imported.  What the callback
    raises is swallowed."""
    module = sys.modules.get(name)
    if module is None:
        _waiting.setdefault(name, []).append(callback)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
    elif _is_importing(module) and name not in _ran:
        _wait_for(module, callback)
    else:
        quietly(callback)


def forget() -> None:
    """Nobody is called any more."""
    _waiting.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
