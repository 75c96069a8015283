# SPDX-License-Identifier: Apache-2.0
"""Reads the Arrow streams of `gsprof query -f arrow` (docs/formats/arrow.md): as Python rows, and
as columns for the Arrow PyCapsule interface."""

from __future__ import annotations

import json
import struct
from array import array
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import _gsprof
from .errors import MalformedData

_SCHEMA, _DICTIONARY, _ROWS = 1, 2, 3
_INT, _FLOAT, _UTF8, _BOOL, _DECIMAL = 2, 3, 5, 6, 7
_FORMATS = {_INT: b"l", _FLOAT: b"g", _UTF8: b"u", _BOOL: b"b", _DECIMAL: b"d:38,0"}
_BUFFERS = {_INT: 2, _FLOAT: 2, _UTF8: 3, _BOOL: 2, _DECIMAL: 2}
_BITS = {_INT: 64, _FLOAT: 64, _BOOL: 1, _DECIMAL: 128}
_NESTED = ("LIST", "STRUCT", "MAP", "ARRAY", "UNION", "JSON")


class _Table:
    """A table of a flatbuffer: a vtable has the offsets of its fields."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._vtable = at - struct.unpack_from("<i", data, at)[0]
        self._size = struct.unpack_from("<H", data, self._vtable)[0]

    def _place(self, field: int) -> int:
        """Returns the position of a field; 0 if it has its default."""
        slot = 4 + 2 * field
        if slot >= self._size:
            return 0
        offset: int = struct.unpack_from("<H", self._data, self._vtable + slot)[0]
        return self._at + offset if offset else 0

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return int(struct.unpack_from("<" + form, self._data, place)[0]) if place else 0

    def _follow(self, field: int) -> int:
        place = self._place(field)
        return place + int(struct.unpack_from("<I", self._data, place)[0]) if place else 0

    def table(self, field: int) -> "Optional[_Table]":
        place = self._follow(field)
        return _Table(self._data, place) if place else None

    def text(self, field: int) -> bytes:
        place = self._follow(field)
        if not place:
            return b""
        size = struct.unpack_from("<I", self._data, place)[0]
        return self._data[place + 4 : place + 4 + size]

    def _count(self, place: int, size: int) -> int:
        """Returns the length of a vector; raises if it exceeds the data."""
        count: int = struct.unpack_from("<I", self._data, place)[0] if place else 0
        if count * size > len(self._data):
            raise MalformedData("truncated Arrow stream")
        return count

    def tables(self, field: int) -> "List[_Table]":
        place = self._follow(field)
        at = [place + 4 + 4 * i for i in range(self._count(place, 4))]
        return [
            _Table(self._data, one + struct.unpack_from("<I", self._data, one)[0]) for one in at
        ]

    def pairs(self, field: int) -> List[Tuple[int, int]]:
        place = self._follow(field)
        at = [place + 4 + 16 * i for i in range(self._count(place, 16))]
        found: List[Tuple[int, int]] = []
        for one in at:
            first, second = struct.unpack_from("<qq", self._data, one)
            found.append((first, second))
        return found


class Column(NamedTuple):
    """The buffers of a field in one batch."""

    length: int
    null_count: int
    buffers: Tuple[Optional[bytes], ...]


_EMPTY = Column(0, 0, (None, bytes(4), None))


class Field(NamedTuple):
    name: str
    kind: int
    sql_type: str
    dictionary_id: Optional[int]  # values are indexes of this dictionary


Batch = Tuple[int, Tuple[Column, ...]]


def _messages(data: bytes) -> Iterator[Tuple[int, _Table, bytes]]:
    """Yields kind, header and body of each message."""
    at = 0
    while at + 8 <= len(data):
        mark, size = struct.unpack_from("<II", data, at)
        if mark != 0xFFFFFFFF:
            raise MalformedData("not an Arrow stream")
        if size == 0:
            return
        start = at + 8
        message = _Table(data, start + struct.unpack_from("<I", data, start)[0])
        header = message.table(2)
        body = start + size
        at = body + message.number(3, "q")
        if header is None or at > len(data):
            raise MalformedData("truncated Arrow stream")
        yield message.number(1, "B"), header, data[body:at]
    raise MalformedData("truncated Arrow stream: no end mark")


def _field(table: _Table) -> Field:
    encoding = table.table(4)
    pairs = {pair.text(0): pair.text(1) for pair in table.tables(6)}
    return Field(
        table.text(0).decode("utf-8", "replace"),
        table.number(2, "B"),
        pairs.get(b"sql_type", b"").decode("utf-8", "replace"),
        None if encoding is None else encoding.number(0, "q"),
    )


def _columns(header: _Table, body: bytes, counts: List[int]) -> Batch:
    """Returns the columns of a record batch; counts: the number of buffers of each field."""
    places = header.pairs(2)
    if len(places) < sum(counts) or not all(
        0 <= at <= at + size <= len(body) for at, size in places
    ):
        raise MalformedData("invalid Arrow stream: a buffer lies outside its message")
    columns = []
    for (length, nulls), count in zip(header.pairs(1), counts):
        found = [body[at : at + size] or None for at, size in places[:count]]
        places = places[count:]
        # An empty column may have no offsets, but readers need the first.
        if count == 3 and found[1] is None:
            found[1] = bytes(4)
        columns.append(Column(length, nulls, tuple(found)))
    return header.number(0, "q"), tuple(columns)


def _check(column: Column, length: int, bits: int) -> None:
    """Raises unless the buffers are as long as the column: consumers in C rely on it. bits: of a
    value; 0 for texts, each from an offset to the next."""
    valid, first = column.buffers[:2]
    enough = column.length == length >= 0 and len(first or b"") * 8 >= length * (bits or 32)
    if column.null_count != 0:
        enough = enough and len(valid or b"") * 8 >= length
    if enough and not bits:
        offsets = array("i", first or bytes(4))[: length + 1]
        enough = len(offsets) == length + 1 and offsets[0] >= 0
        enough = enough and all(one <= two for one, two in zip(offsets, offsets[1:]))
        enough = enough and offsets[-1] <= len(column.buffers[2] or b"")
    if not enough:
        raise MalformedData("invalid Arrow stream: a buffer is shorter than its column")


class Stream:
    """A whole stream, read and checked."""

    def __init__(self, data: bytes) -> None:
        self.fields: List[Field] = []
        self.dictionaries: Dict[int, Column] = {}
        self.batches: List[Batch] = []
        try:
            self._read(data)
        except MalformedData:
            raise
        except (struct.error, IndexError, ValueError) as error:
            raise MalformedData(f"invalid Arrow stream: {error}") from None

    def _read(self, data: bytes) -> None:
        for kind, header, body in _messages(data):
            if kind == _SCHEMA:
                self.fields = [_field(one) for one in header.tables(1)]
                unknown = [one.name for one in self.fields if one.kind not in _FORMATS]
                if unknown:
                    raise MalformedData(f"columns of an unknown type: {', '.join(unknown)}")
            elif kind == _DICTIONARY:
                rows = header.table(1)
                if rows is not None:
                    length, columns = _columns(rows, body, [3])
                    _check(columns[0], length, 0)
                    self.dictionaries[header.number(0, "q")] = columns[0]
            elif kind == _ROWS:
                batch = _columns(header, body, [self._buffers(one) for one in self.fields])
                self._check_batch(batch)
                self.batches.append(batch)

    def _check_batch(self, batch: Batch) -> None:
        length, columns = batch
        if len(columns) != len(self.fields):
            raise MalformedData("invalid Arrow stream: the columns do not match the schema")
        for field, column in zip(self.fields, columns):
            if field.dictionary_id is None:
                _check(column, length, _BITS.get(field.kind, 0))
                continue
            _check(column, length, 32)
            known = self.dictionaries.get(field.dictionary_id, _EMPTY).length
            places = array("i", column.buffers[1] or b"")[:length]
            if column.null_count != length and not 0 <= min(places) <= max(places) < known:
                raise MalformedData("invalid Arrow stream: a value is outside its dictionary")

    def _buffers(self, field: Field) -> int:
        return 2 if field.dictionary_id is not None else _BUFFERS[field.kind]

    # ------------------------------------------------------------------------- rows

    def rows(self) -> List[Dict[str, Any]]:
        names = [field.name for field in self.fields]
        found: List[Dict[str, Any]] = []
        for length, columns in self.batches:
            values = [self._values(field, one) for field, one in zip(self.fields, columns)]
            if values:
                found += [dict(zip(names, row)) for row in zip(*values)]
            else:
                found += [{} for _ in range(length)]
        return found

    def _values(self, field: Field, column: Column) -> List[Any]:
        if field.dictionary_id is not None:
            texts = _texts(self.dictionaries.get(field.dictionary_id, _EMPTY))
            places = array("i", column.buffers[1] or b"")[: column.length]
            values: List[Any] = [texts[i] if i < len(texts) else None for i in places]
        elif field.kind == _UTF8:
            values = [*_texts(column)]
            if field.sql_type.split("(")[0].endswith((*_NESTED, "]")):
                values = [_nested(text) for text in values]
        elif field.kind == _BOOL:
            bits = column.buffers[1] or b""
            values = [bool(bits[i >> 3] >> (i & 7) & 1) for i in range(column.length)]
        elif field.kind == _DECIMAL:
            data = column.buffers[1] or b""
            parts = (data[16 * i : 16 * i + 16] for i in range(column.length))
            values = [int.from_bytes(part, "little", signed=True) for part in parts]
        else:
            form = "q" if field.kind == _INT else "d"
            values = array(form, column.buffers[1] or b"")[: column.length].tolist()
        valid = column.buffers[0]
        if column.null_count and valid:
            values = [v if valid[i >> 3] >> (i & 7) & 1 else None for i, v in enumerate(values)]
        return values

    # ------------------------------------------------------------------ C interface

    def capsule(self) -> object:
        """Returns an ArrowArrayStream in a capsule."""
        fields = []
        for field in self.fields:
            name, kind = field.sql_type.encode(), b"sql_type"
            metadata = struct.pack("=ii", 1, len(kind)) + kind + struct.pack("=i", len(name)) + name
            dictionary = None
            if field.dictionary_id is not None:
                dictionary = tuple(self.dictionaries.get(field.dictionary_id, _EMPTY))
            form = _FORMATS[field.kind] if dictionary is None else b"i"
            # A NUL would end the name in C.
            label = field.name.encode().partition(b"\0")[0]
            fields.append((label, form, metadata, dictionary))
        batches = tuple(
            (length, tuple(tuple(one) for one in columns)) for length, columns in self.batches
        )
        return _gsprof.arrow_stream(tuple(fields), batches)


def _texts(column: Column) -> List[str]:
    offsets = array("i", column.buffers[1] or bytes(4))
    data = column.buffers[2] or b""
    return [
        data[offsets[i] : offsets[i + 1]].decode("utf-8", "replace") for i in range(column.length)
    ]


def _nested(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
