# SPDX-License-Identifier: Apache-2.0
"""Formats numbers and tables, and writes files atomically."""

from __future__ import annotations

import math
import os
from typing import Any, List, Optional, Sequence, Union

Path = Union[str, "os.PathLike[str]"]

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def milliseconds(value: Optional[float]) -> str:
    """
    >>> milliseconds(1234.5), milliseconds(0.0123), milliseconds(None)
    ('1.23 s', '12.3 us', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    for limit, scale, unit in ((1e-3, 1e6, "ns"), (1.0, 1e3, "us"), (1e3, 1.0, "ms")):
        if abs(value) < limit:
            return f"{value * scale:.3g} {unit}"
    return f"{value / 1e3:.4g} s" if value >= 1e6 else f"{value / 1e3:.3g} s"


def byte_count(value: Optional[float]) -> str:
    """
    >>> byte_count(8589934592), byte_count(-2048), byte_count(None)
    ('8.00 GB', '-2.00 KB', '-')
    """
    if value is None:
        return "-"
    rest = float(value)
    for unit in _UNITS:
        if abs(rest) < 1024 or unit == _UNITS[-1]:
            return f"{rest:.0f} {unit}" if unit == "B" else f"{rest:.2f} {unit}"
        rest /= 1024
    return "-"


def number(value: Optional[float]) -> str:
    """
    >>> number(3), number(0.123456789), number(12345.6), number(None), number(float("nan"))
    ('3', '0.1235', '12,346', '-', 'nan')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def percent(value: Optional[float]) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"


def plain(text: object) -> str:
    r"""Returns a name for a terminal or a page, with unprintable characters escaped.

    >>> plain("a\x1b[0m\ud800")
    'a\\x1b[0m\\ud800'
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text)
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> List[str]:
    """Returns the lines of a table: first column left-aligned, the others right-aligned."""
    shown = [[plain(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:])]
        return "  ".join([cells[0].ljust(widths[0]), *rest]).rstrip()

    return [line(shown[0]), line(["-" * width for width in widths]), *map(line, shown[1:])]


def finite(value: Any) -> Any:
    """Returns the value for JSON, with null for NaN and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def write_whole(path: Path, text: str) -> None:
    """Writes the file atomically; OSError has the caller's path."""
    name = os.fspath(path)
    if not isinstance(name, str):
        raise TypeError(f"a path must be a str, not {type(name).__name__}")
    if os.path.exists(name) and not os.path.isfile(name):
        # A pipe or a terminal cannot be replaced; open() fails for a folder.
        with open(name, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return
    temporary = f"{name}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.replace(temporary, name)
    except OSError as error:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise type(error)(error.errno, error.strerror, name) from None
