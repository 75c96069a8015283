# SPDX-License-Identifier: Apache-2.0
"""gsprof.query: SQL over the tables of a process, from Python."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Union

from . import _recorder


def query(
    sql: str, *, pid: Optional[int] = None, source: Union[str, "os.PathLike[str]", None] = None
) -> List[Dict[str, Any]]:
    """Rows of one SELECT as dictionaries, by the gsprof program: over the tables of this process,
    of another one (pid), or of a run's folder, a profile or a server (source).

    >>> query("SELECT 1 + 1 AS two")
    [{'two': 2}]
    """
    if not isinstance(sql, str):
        raise TypeError(f"sql must be a str, not {sql!r}")
    if pid is not None and (isinstance(pid, bool) or not isinstance(pid, int)):
        raise TypeError(f"pid must be an int or None, not {pid!r}")
    if pid is not None and source is not None:
        raise TypeError("pid and source are two places to ask: give one")
    where = str(pid or os.getpid()) if source is None else os.fspath(source)
    rows: List[Dict[str, Any]] = json.loads(
        _recorder.run("query", "--format", "json", "--", where, sql)
    )
    return rows
