# SPDX-License-Identifier: Apache-2.0
"""gsprof.query: SQL over the tables of a process, from Python."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union, overload

from . import _recorder
from ._arrow import Stream


class Result(Sequence[Dict[str, Any]]):
    """Rows as dictionaries. pyarrow.table(result) and other Arrow readers get it as a table,
    without conversion to Python objects; they would not do so for a subclass of list.

    >>> result = query("SELECT 1 AS a, 'x' AS b")
    >>> result[0], len(result), result.columns
    ({'a': 1, 'b': 'x'}, 1, ['a', 'b'])
    >>> result == [{"a": 1, "b": "x"}]
    True
    """

    def __init__(self, data: bytes, warnings: Sequence[str] = ()) -> None:
        self.warnings = list(warnings)  # such as rows overwritten during the query
        self._stream = Stream(data)
        self._rows = self._stream.rows()

    @property
    def columns(self) -> List[str]:
        """The names of the columns, also without rows."""
        return [field.name for field in self._stream.fields]

    def to_list(self) -> List[Dict[str, Any]]:
        """Returns a list, as json.dumps() needs it."""
        return list(self._rows)

    @overload
    def __getitem__(self, index: int) -> Dict[str, Any]:
        ...

    @overload
    def __getitem__(self, index: slice) -> List[Dict[str, Any]]:
        ...

    def __getitem__(self, index: Union[int, slice]) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return self._rows == (other._rows if isinstance(other, Result) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the rows as an ArrowArrayStream. A consumer that requests other types converts
        them itself, as the interface allows."""
        return self._stream.capsule()


def query(
    sql: str,
    *,
    pid: Optional[int] = None,
    source: Union[str, "os.PathLike[str]", None] = None,
    locals: bool = False,
) -> Result:
    """Runs a SELECT in the gsprof program, over the tables of this process, of another process
    (pid), or of a run, a profile or a server (source). With locals, python.backtrace has the local
    variables of each frame, as JSON.

    >>> query("SELECT 1 + 1 AS two")
    [{'two': 2}]
    """
    if not isinstance(sql, str):
        raise TypeError(f"sql must be a str, not {sql!r}")
    if pid is not None and (isinstance(pid, bool) or not isinstance(pid, int)):
        raise TypeError(f"pid must be an int or None, not {pid!r}")
    if pid is not None and source is not None:
        raise TypeError("pid and source exclude each other")
    endpoint = str(pid or os.getpid()) if source is None else os.fspath(source)
    warnings: List[str] = []
    options = ["--format", "arrow", *(["--locals"] if locals else [])]
    data = _recorder.run("query", *options, "--", endpoint, sql, warnings=warnings)
    return Result(data, warnings)
