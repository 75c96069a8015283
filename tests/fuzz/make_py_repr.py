#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/fuzz/corpus/py_repr/: memory images with one object graph each, 3.11 layout."""

import struct
from pathlib import Path

BASE = 0x100000
OUT = Path(__file__).parent / "corpus" / "py_repr"
MINOR = 11

INT, LIST, TUPLE, BYTES, STR, DICT = (1 << bit for bit in range(24, 30))


class Memory:
    """A memory image; its first object is at BASE."""

    def __init__(self) -> None:
        self.data = bytearray()

    def reserve(self, size: int) -> int:
        at = BASE + len(self.data)
        self.data += bytes((size + 15) // 16 * 16)
        return at

    def put(self, at: int, *words: int) -> None:
        raw = b"".join(struct.pack("<Q", w & (2**64 - 1)) for w in words)
        self.data[at - BASE : at - BASE + len(raw)] = raw

    def text(self, raw: bytes) -> int:
        at = self.reserve(len(raw) + 1)
        self.data[at - BASE : at - BASE + len(raw)] = raw
        return at

    def type(self, name: bytes, flags: int = 0) -> int:
        at = self.reserve(416)
        self.put(at + 24, self.text(name), 64, 0)
        self.put(at + 168, flags)
        return at

    def str(self, kind: int, raw: bytes) -> int:
        at = self.reserve(48 + len(raw) + 1)
        self.put(at, 1, kind, len(raw), 0, 1 << 2 | 1 << 5 | 1 << 6)
        self.data[at - BASE + 48 : at - BASE + 48 + len(raw)] = raw
        return at

    def small_int(self, kind: int, value: int) -> int:
        at = self.reserve(32)
        self.put(at, 1, kind, 1, value)
        return at


def make_list(m: Memory) -> None:
    top = m.reserve(40)
    number, text = m.type(b"int", INT), m.type(b"str", STR)
    items = m.reserve(32)
    m.put(items, m.small_int(number, 7), m.str(text, b"abc"), top, 0xDEAD)
    m.put(top, 1, m.type(b"list", LIST), 4, items, 4)


def make_tuple(m: Memory) -> None:
    top = m.reserve(48)
    m.put(top, 1, m.type(b"Point", TUPLE | 1 << 9), 2, top, 0)


def make_str(m: Memory) -> None:
    top = m.str(0, b"text of \n a str")
    m.put(top + 8, m.type(b"str", STR))


def make_int(m: Memory) -> None:
    top = m.reserve(64)
    m.put(top, 1, m.type(b"int", INT), -6, 1, 2, 3)


def make_dict(m: Memory) -> None:
    top = m.reserve(48)
    text = m.type(b"str", STR)
    keys = m.reserve(32 + 8 + 5 * 16)
    m.put(keys, 1, 3 | 3 << 8 | 1 << 16, 3, 2)
    m.put(keys + 40, m.str(text, b"k"), top, m.str(text, b"threading"), top)
    m.put(top, 1, m.type(b"dict", DICT), 2, 0, keys, 0)


def make_set(m: Memory) -> None:
    top = m.reserve(200)
    table = m.reserve(8 * 16)
    m.put(table, 0, 0, m.small_int(m.type(b"int", INT), 3), 3, 0xDEAD, -1)
    m.put(top, 1, m.type(b"set"), 1, 1, 7, table)


def make_float(m: Memory) -> None:
    top = m.reserve(24)
    m.put(top, 1, m.type(b"float"), struct.unpack("<Q", struct.pack("<d", 0.1))[0])


def make_array(m: Memory) -> None:
    top = m.reserve(80)
    dims, dtype = m.reserve(16), m.reserve(32)
    m.put(dims, 3, 4)
    m.put(dtype, 1, 0, m.type(b"numpy.float32"))
    m.put(top, 1, m.type(b"numpy.ndarray"), 0, 2, dims, 0, 0, dtype)


def make_tensor(m: Memory) -> None:
    top = m.reserve(48)
    impl = m.reserve(48 * 8)
    kind, base = m.type(b"Tensor", 1 << 9), m.type(b"torch._C.TensorBase")
    m.put(kind + 256, base)
    m.put(impl + 40, 0, top, 2, 3, 4, 0, 0, 0, 4, 1, 0, 0, 0, 0, 12, 6)
    m.put(top, 1, kind, 0, impl)


def make_instance(m: Memory) -> None:
    top = m.reserve(48)
    m.put(top, 1, m.type(b"Thing", 1 << 9), 0, 0)


OUT.mkdir(parents=True, exist_ok=True)
for name, make in sorted(globals().items()):
    if name.startswith("make_"):
        memory = Memory()
        make(memory)
        memory.reserve(160)  # names are read ahead
        (OUT / name[5:]).write_bytes(bytes([MINOR - 8]) + bytes(memory.data))
