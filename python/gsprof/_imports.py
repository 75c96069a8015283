# SPDX-License-Identifier: Apache-2.0
"""Runs callbacks when the program has imported a module, without importing it."""

import sys

from ._quiet import quietly

# As in _boot: import only modules that a bare interpreter has loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable, Dict, List, Optional, Sequence, Set

    Callback = Callable[[], object]


def _as_import(function: "Any") -> "Any":
    """Makes the function look like part of Python's import system: Python removes its frame from
    the traceback of a failed import, and coverage does not list its file."""
    function.__code__ = function.__code__.replace(
        co_filename="<frozen importlib._bootstrap_external>"
    )
    return function


class _Loader:
    """Runs a module's own loader, then the callbacks."""

    def __init__(self, inner: "Any", name: str) -> None:
        self._inner = inner
        self._name = name

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._inner, name)

    def create_module(self, spec: "Any") -> "Any":
        return self._inner.create_module(spec)

    @_as_import
    def exec_module(self, module: "ModuleType") -> None:
        # The program sees only the module's own loader.
        spec = getattr(module, "__spec__", None)
        if spec is not None:
            spec.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        _call(self._name)


class _Finder:
    """The first finder of sys.meta_path; delegates to the others."""

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
                loader: Any = _Loader(spec.loader, fullname)
                spec.loader = loader
            return spec
        return None


_waiting: "Dict[str, List[Callback]]" = {}
# Modules whose code has run, though the interpreter still marks them as initializing.
_ran: "Set[str]" = set()
_finder = _Finder()


def _call(name: str) -> None:
    _ran.add(name)
    for callback in _waiting.pop(name, []):
        quietly(callback)


def _wait_for(module: "ModuleType", callback: "Callback") -> None:
    """For a module that another thread is importing and that the finders have already seen."""
    import time

    # Not threading: before Python 3.13, it takes the thread that imports it for the main thread.
    from _thread import start_new_thread

    def wait() -> None:
        deadline = time.monotonic() + 120
        while _is_importing(module) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not _is_importing(module):
            quietly(callback)

    start_new_thread(wait, ())


def _is_importing(module: "ModuleType") -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def when_imported(name: str, callback: "Callback") -> None:
    """Calls back now if the module is imported, else when it has been. Exceptions of the callback
    are swallowed."""
    module = sys.modules.get(name)
    if module is None:
        _waiting.setdefault(name, []).append(callback)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
    elif _is_importing(module) and name not in _ran:
        _wait_for(module, callback)
    else:
        quietly(callback)


def cancel_all() -> None:
    """Drops all callbacks."""
    _waiting.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
