# SPDX-License-Identifier: Apache-2.0
"""Names PyTorch modules by their dotted path in the model that is being called.

Runs once for each module, at its first call. Stores nothing on modules and runs no code of the
program: submodules are read from the module's dictionary."""

from __future__ import annotations

import re
import sys
import weakref
from types import FrameType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Pattern, Tuple

from .. import _gsprof
from .._quiet import report

# Attributes in which wrappers hold the wrapped module.
_SEGMENTS = ("_fsdp_wrapped_module", "_fpw_module", "_orig_mod", "_checkpoint_wrapped_module")
_HOLDERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
# Frames searched for the model that contains a module called from outside.
_FRAMES_MAX = 64


class _Filter:
    """The modules that the settings select."""

    def __init__(self) -> None:
        self.layers: Optional[Pattern[str]] = None
        self.leaves = False
        self.depth: Optional[int] = None


_filter = _Filter()


class _Root:
    """A module that is called from outside any other module."""

    def __init__(self, module: Any, label: str, base: str) -> None:
        self.module = weakref.ref(module)
        self.label = label
        self.base = base


# By id of the root and of its wrappers; _label() removes those whose modules are gone.
_roots: Dict[int, _Root] = {}
_first: Optional[_Root] = None


def set_filters(layers: str, modules: str) -> None:
    """layers: a regular expression; modules: all, leaf or depth:N. An invalid value filters
    nothing."""
    _filter.layers = None
    if layers:
        try:
            _filter.layers = re.compile(layers)
        except re.error as error:
            report(error)
    _filter.leaves = modules == "leaf"
    kind, _, number = modules.partition(":")
    _filter.depth = int(number) if kind == "depth" and number.isdigit() else None


def _children(module: Any) -> List[Tuple[str, Any]]:
    """Returns the submodules by name; also of scripted modules, whose dictionary is a proxy."""
    held = module.__dict__.get("_modules")
    if not held:
        return []
    return [(str(name), child) for name, child in held.items() if child is not None]


def is_selected(module: Any, path: str) -> bool:
    """Whether the settings select this module."""
    if _filter.leaves and _children(module):
        return False
    if _filter.depth is not None:
        depth = 0 if id(module) in _roots else path.count(".") + 1
        if depth > _filter.depth:
            return False
    return _filter.layers is None or _filter.layers.search(path) is not None


def _wraps(module: Any, name: str) -> bool:
    """Whether the module is a wrapper of its child of that name."""
    return name in _SEGMENTS or (name == "module" and type(module).__name__ in _HOLDERS)


def _core(module: Any) -> Tuple[List[Any], Any]:
    """Returns the wrappers around a model, and the model."""
    wrappers: List[Any] = []
    while True:
        inner = [child for name, child in _children(module) if _wraps(module, name)]
        if not inner or len(wrappers) > 16:
            return wrappers, module
        wrappers.append(module)
        module = inner[0]


def _walk(module: Any, base: str) -> Iterator[Tuple[Any, str]]:
    """Yields all modules below this one, each once, with their paths."""
    seen = {id(module)}
    rest = [(module, base)]
    while rest:
        holder, path = rest.pop()
        for name, child in _children(holder):
            if id(child) in seen:
                continue
            seen.add(id(child))
            below = path if _wraps(holder, name) else f"{path}.{name}" if path else name
            yield child, below
            rest.append((child, below))


def _device(module: Any) -> str:
    """Returns the device of the module's own parameters; "" if it has none."""
    try:
        for parameter in (module.__dict__.get("_parameters") or {}).values():
            if parameter is not None:
                return str(parameter.device)
    except Exception:
        pass
    return ""


class _Named(NamedTuple):
    module: Any
    path: str
    is_root: bool = False
    model: str = ""  # name under which its backward pass is recorded; "": its own


def _name_all(found: List[_Named]) -> None:
    """Passes the names to the extension. Modules without parameters get the others' device."""
    devices = [_device(named.module) for named in found]
    common = next((device for device in devices if device), "")
    for named, device in zip(found, devices):
        module, path, is_root, model = named
        name, held = type(module).__name__, bool(_children(module))
        _gsprof.torch_name(module, path, name, device or common, is_root, held, model)


def _label(name: str) -> str:
    """Returns the class's name, with a number if another root has it."""
    for key, root in list(_roots.items()):
        if root.module() is None:
            del _roots[key]
    taken = {root.label for root in _roots.values()}
    label, number = name, 1
    while label in taken:
        number += 1
        label = f"{name}#{number}"
    return label


def _holds(holder: Any, module: Any) -> bool:
    """Whether the holder is a model that contains the module. Runs no code of its class."""
    try:
        held = object.__getattribute__(holder, "__dict__").get("_modules")
    except AttributeError:
        return False
    if holder is module or not isinstance(held, dict):
        return False
    return any(child is module for child, _ in _walk(holder, ""))


def _owner(module: Any) -> Optional[Any]:
    """Returns the model that contains a module called from outside, or None. Lightning calls
    training_step() of a model, which calls self.net(). The model is the first argument, mostly
    `self`, of the calling functions."""
    found = None
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    for _ in range(_FRAMES_MAX):
        if frame is None or frame.f_code.co_argcount == 0:
            break
        try:
            holder = _gsprof.torch_local(frame, frame.f_code.co_varnames[0])
        except LookupError:
            break
        if not _holds(holder, module):
            break
        found = holder
        frame = frame.f_back
    return found


def _root_of(core: Any) -> _Root:
    """Returns the entry of a model, after adding it if it is new."""
    global _first
    known = _roots.get(id(core))
    if known is not None and known.module() is core:
        return known
    inside = {id(child) for child, _ in _walk(core, "")}
    if core.__dict__.get("_is_replica"):
        # DataParallel creates a replica for one call.
        return _Root(core, type(core).__name__, "")
    first = _first.module() if _first is not None else None
    label = _label(type(core).__name__)
    is_first = first is None or id(first) in inside
    known = _Root(core, label, "" if is_first or not inside else label)
    if is_first and inside:
        _first = known
    _roots[id(core)] = known
    return known


def _name_root(module: Any) -> None:
    wrappers, core = _core(module)
    owner = _owner(module)
    model = core if owner is None else _core(owner)[1]
    known = _root_of(model)
    found = [_Named(model, known.label, True)]
    called = {id(wrapper) for wrapper in (*wrappers, core)}
    for child, path in _walk(model, known.base):
        is_called = id(child) in called
        found.append(_Named(child, path, is_called, known.label if is_called else ""))
    if owner is None:
        found += [_Named(wrapper, type(wrapper).__name__, True) for wrapper in wrappers]
        for wrapper in wrappers:
            _roots[id(wrapper)] = _Root(wrapper, type(wrapper).__name__, known.base)
    _name_all(found)


def _name_within(module: Any, parent: Any) -> None:
    """Names a module that was added after its model was named, or that is not an attribute."""
    root = _roots.get(id(parent))
    base = root.base if root is not None else _gsprof.torch_path(parent) or ""
    name = next((name for name, child in _children(parent) if child is module), None)
    if name is None:
        name = type(module).__name__
    path = base if _wraps(parent, name) else f"{base}.{name}" if base else name
    found = [_Named(module, path)]
    found += [_Named(child, below) for child, below in _walk(module, path)]
    _name_all(found)


def name_module(module: Any, parent: Any) -> None:
    """Names a module at its first call, and all modules below it. parent is the module that calls
    it, None if it is called from outside."""
    if parent is None:
        _name_root(module)
    else:
        _name_within(module, parent)


def forget() -> None:
    global _first
    _roots.clear()
    _first = None
