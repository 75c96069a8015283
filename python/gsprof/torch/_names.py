# SPDX-License-Identifier: Apache-2.0
"""Names for modules of PyTorch: the dotted path in the model that is being called.

Runs once for each module, at its first call.  Nothing is stored on modules, and no code of the
program is run: what a module consists of is read from its dictionary."""

from __future__ import annotations

import re
import sys
import weakref
from types import FrameType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Pattern, Tuple

from .. import _gsprof
from .._quiet import report

# Attributes by which wrappers hold the module that they wrap.
_SEGMENTS = ("_fsdp_wrapped_module", "_fpw_module", "_orig_mod", "_checkpoint_wrapped_module")
_HOLDERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
# Frames in which the model is looked for that a module called from outside is part of.
_FRAMES_MAX = 64


class _Filter:
    """The modules that the settings select."""

    def __init__(self) -> None:
        self.layers: Optional[Pattern[str]] = None
        self.leaves = False
        self.depth: Optional[int] = None


_filter = _Filter()


class _Root:
    """A module that is called from outside of any other."""

    def __init__(self, module: Any, label: str, base: str) -> None:
        self.module = weakref.ref(module)
        self.label = label
        self.base = base


# By the id of the root itself and of its wrappers; those that are gone are removed as others come.
_roots: Dict[int, _Root] = {}
_first: Optional[_Root] = None


def set_filters(layers: str, modules: str) -> None:
    """layers: a regular expression; modules: all, leaf or depth:N.  What makes no sense filters
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
    """Its submodules by name; also of scripted modules, whose dictionary is a stand-in."""
    held = module.__dict__.get("_modules")
    if not held:
        return []
    return [(str(name), child) for name, child in held.items() if child is not None]


def is_wanted(module: Any, path: str) -> bool:
    """Whether rows of this module are to be written."""
    if _filter.leaves and _children(module):
        return False
    if _filter.depth is not None:
        depth = 0 if id(module) in _roots else path.count(".") + 1
        if depth > _filter.depth:
            return False
    return _filter.layers is None or _filter.layers.search(path) is not None


def _wraps(module: Any, name: str) -> bool:
    """Whether that child of the module is what the module wraps."""
    return name in _SEGMENTS or (name == "module" and type(module).__name__ in _HOLDERS)


def _core(module: Any) -> Tuple[List[Any], Any]:
    """The wrappers around a model, and the model."""
    wrappers: List[Any] = []
    while True:
        inner = [child for name, child in _children(module) if _wraps(module, name)]
        if not inner or len(wrappers) > 16:
            return wrappers, module
        wrappers.append(module)
        module = inner[0]


def _walk(module: Any, base: str) -> Iterator[Tuple[Any, str]]:
    """All modules below this one, each once, with their paths."""
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
    """Where the module's own parameters are; empty when it has none."""
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
    model: str = ""  # whose backward pass is this one's; empty: its own


def _name_all(found: List[_Named]) -> None:
    """Tells the names; modules without parameters are where the others are."""
    devices = [_device(named.module) for named in found]
    common = next((device for device in devices if device), "")
    for named, device in zip(found, devices):
        module, path, is_root, model = named
        name, held = type(module).__name__, bool(_children(module))
        _gsprof.torch_name(module, path, name, device or common, is_root, held, model)


def _label(name: str) -> str:
    """The class's name; of several roots of one class, with a number."""
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
    """Whether the holder is a model that the module is part of.  No code of its class is run."""
    try:
        held = object.__getattribute__(holder, "__dict__").get("_modules")
    except AttributeError:
        return False
    if holder is module or not isinstance(held, dict):
        return False
    return any(child is module for child, _ in _walk(holder, ""))


def _owner(module: Any) -> Optional[Any]:
    """The model that the module is part of, though it is called from outside: Lightning calls
    training_step() of a model, which calls self.net().  It is the first argument, mostly `self`, of
    the functions that called."""
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


def _learn_core(core: Any) -> _Root:
    """What is known of a model."""
    global _first
    known = _roots.get(id(core))
    if known is not None and known.module() is core:
        return known
    inside = {id(child) for child, _ in _walk(core, "")}
    if core.__dict__.get("_is_replica"):
        # DataParallel makes it for one call, and names it.
        return _Root(core, type(core).__name__, "")
    first = _first.module() if _first is not None else None
    label = _label(type(core).__name__)
    is_first = first is None or id(first) in inside
    known = _Root(core, label, "" if is_first or not inside else label)
    if is_first and inside:
        _first = known
    _roots[id(core)] = known
    return known


def _learn_root(module: Any) -> None:
    wrappers, core = _core(module)
    owner = _owner(module)
    model = core if owner is None else _core(owner)[1]
    known = _learn_core(model)
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


def _learn_within(module: Any, parent: Any) -> None:
    """A module that was not there when its model was learnt, or hangs on no attribute."""
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
    """Learns a module that is called for the first time, by parent (None: from outside), and
    all below it."""
    if parent is None:
        _learn_root(module)
    else:
        _learn_within(module, parent)


def forget() -> None:
    global _first
    _roots.clear()
    _first = None
