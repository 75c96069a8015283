# SPDX-License-Identifier: Apache-2.0
"""Names for modules of PyTorch: the dotted path in the model that is being called.

Runs once for each module, at its first call.  Nothing is stored on modules, and no code of the
program is run: what a module consists of is read from its dictionary."""

from __future__ import annotations

import re
import weakref
from typing import Any, Dict, Iterator, List, Optional, Pattern, Tuple

from . import _gsprof
from ._quiet import tell

# Attributes by which wrappers hold the module that they wrap.
_SEGMENTS = ("_fsdp_wrapped_module", "_fpw_module", "_orig_mod", "_checkpoint_wrapped_module")
_HOLDERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")


class _Filter:
    """What users want to see, as the settings say."""

    layers: Optional[Pattern[str]] = None
    leaves = False
    depth: Optional[int] = None


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
    _Filter.layers = None
    if layers:
        try:
            _Filter.layers = re.compile(layers)
        except re.error as error:
            tell(error)
    _Filter.leaves = modules == "leaf"
    kind, _, number = modules.partition(":")
    _Filter.depth = int(number) if kind == "depth" and number.isdigit() else None


def _children(module: Any) -> List[Tuple[str, Any]]:
    """Its submodules by name; also of scripted modules, whose dictionary is a stand-in."""
    held = module.__dict__.get("_modules")
    if not held:
        return []
    return [(str(name), child) for name, child in held.items() if child is not None]


def is_wanted(module: Any, path: str) -> bool:
    """Whether rows of this module are to be written."""
    if _Filter.leaves and _children(module):
        return False
    if _Filter.depth is not None:
        depth = 0 if id(module) in _roots else path.count(".") + 1
        if depth > _Filter.depth:
            return False
    return _Filter.layers is None or _Filter.layers.search(path) is not None


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


def _name_all(found: List[Tuple[Any, str, bool]]) -> None:
    """Tells the names; modules without parameters are where the others are."""
    devices = [_device(module) for module, _, _ in found]
    common = next((device for device in devices if device), "")
    for (module, path, is_root), device in zip(found, devices):
        name, held = type(module).__name__, bool(_children(module))
        _gsprof.torch_name(module, path, name, device or common, is_root, held)


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


def _learn_root(module: Any) -> None:
    global _first
    wrappers, core = _core(module)
    known = _roots.get(id(core))
    if known is None or known.module() is not core:
        below = _walk(core, "")
        inside = {id(child) for child, _ in below}
        if core.__dict__.get("_is_replica"):
            # Made anew for each call of DataParallel, which names it.
            known = _Root(core, type(core).__name__, "")
        else:
            first = _first.module() if _first is not None else None
            label = _label(type(core).__name__)
            is_first = first is None or id(first) in inside
            known = _Root(core, label, "" if is_first or not inside else label)
            if is_first and inside:
                _first = known
            _roots[id(core)] = known
    found = [(wrapper, type(wrapper).__name__, True) for wrapper in wrappers]
    found.append((core, known.label, True))
    found += [(child, path, False) for child, path in _walk(core, known.base)]
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
    found = [(module, path, False)]
    found += [(child, below, False) for child, below in _walk(module, path)]
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
