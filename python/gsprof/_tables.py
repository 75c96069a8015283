# SPDX-License-Identifier: Apache-2.0
"""Tables that the program defines: their rows are in the process's rings."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, Mapping, Sequence, Tuple, Union

from . import _gsprof

# Column types: a Python class, its name, or category (repeated texts, each stored once).
_TYPES = {int: "int", float: "float", bool: "bool", str: "str"}
_NAMES = (*_TYPES.values(), "category")

Columns = Union[Mapping[str, Any], Sequence[Tuple[str, Any]]]


def _type_name(column: str, kind: Any) -> str:
    name = kind if isinstance(kind, str) else _TYPES.get(kind)
    if name not in _NAMES:
        raise ValueError(f"column {column}: a type is one of {', '.join(_NAMES)}, not {kind!r}")
    return str(name)


class Table:
    """python.<name>: put() appends a row."""

    def __init__(self, name: str, columns: Columns) -> None:
        pairs = list(columns.items() if isinstance(columns, Mapping) else columns)
        typed = [(str(column), _type_name(column, kind)) for column, kind in pairs]
        _gsprof.define(name, typed)
        self.name = "python." + name
        self.columns = tuple(column for column, _ in typed)
        self._known = frozenset(self.columns)

    def put(self, **values: Any) -> bool:
        """Appends a row; columns not given are NULL. Returns False if nothing is recorded."""
        if not self._known.issuperset(values):
            odd = ", ".join(sorted(values.keys() - self._known))
            raise TypeError(f"{self.name} has no column {odd}")
        return _gsprof.put(self.name, values)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {list(self.columns)!r})"


def _of_class(found: Any) -> Any:
    """Makes a dataclass whose objects are rows: save() appends one."""
    if not dataclasses.is_dataclass(found):
        found = dataclasses.dataclass(found)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", found.__name__).lower()
    # With `from __future__ import annotations`, annotations are strings.
    columns: Dict[str, Any] = {field.name: field.type for field in dataclasses.fields(found)}
    made = Table(name, columns)

    def save(self: Any) -> bool:
        return made.put(**{column: getattr(self, column) for column in made.columns})

    found.save = save
    found.table = made
    return found


def table(name: Any, columns: Columns = ()) -> Any:
    """table("loss", {"step": int, "value": float}) creates python.loss, or returns it. As a
    decorator of a class it creates the table of a dataclass, whose objects have save()."""
    if isinstance(name, type):
        return _of_class(name)
    return Table(name, columns)
