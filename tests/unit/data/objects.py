# SPDX-License-Identifier: Apache-2.0
"""A target for test_py_object.c: prints the addresses of its objects and the expected results.

Lines of "kind TAB address TAB expected", then "end"; then it waits for a line on stdin.
In the expected text, @ is the address and * is anything without a space.
"""

import collections
import ctypes
import enum
import sys
import sysconfig
import threading

KEEP = []


def put(kind, address, expected):
    print(kind, "0x%x" % address, expected, sep="\t")


def show(value, expected=None):
    KEEP.append(value)
    put("repr", id(value), repr(value) if expected is None else expected)


class Plain:
    def __init__(self):
        self.first = 1
        self._name = "plain"


class Slotted(Plain):
    """Has a dict without shared keys."""

    def __init__(self):
        super().__init__()
        self.__dict__[42] = 1
        del self.__dict__[42]


class Counted(int):
    pass


class Measured(float):
    pass


class Colour(enum.IntEnum):
    RED = 3


class set(object):  # only the name of a builtin
    pass


Point = collections.namedtuple("Point", "x y")


def numbers():
    for value in (
        0,
        1,
        -1,
        2**30 - 1,
        2**30,
        -(2**60),
        2**63,
        3**200,
        -(10**100),
        True,
        False,
    ):
        show(value)
    show(1 << 30000, "<int of about 30030 bits>")
    for value in (0.0, -0.0, 1.0, 0.1, -2.5, 1e15, 1e16, 1.5e300, 5e-324, 1e-4, 1e-5, 1 / 3):
        show(value)
    for value in (123456789.125, 1.2345678901234568e17, 100.0, float("inf"), float("nan")):
        show(value)
    show(complex(1.5, -2.0), "(1.5-2.0j)")
    show(None)
    show(Ellipsis)
    show(NotImplemented)


def texts():
    for value in ("", "a", "plain text", "tab\t'quote\\", "caf\xe9", "\u4f60\u597d", "\U0001f600x"):
        show(
            value, "'" + value.replace("\\", "\\\\").replace("\t", "\\t").replace("'", "\\'") + "'"
        )
    show("\ud800", "'\ufffd'")
    show("x" * 500, "'" + "x" * 124 + "...")
    show("\xe9" * 500, "'" + "\xe9" * 62 + "...")
    for value in (b"", b"bytes\x00\xff\n'"):
        show(value, "b'" + "".join(byte_text(b) for b in value) + "'")
    show(b"y" * 500, "b'" + "y" * 123 + "...")


def byte_text(byte):
    special = {10: "\\n", 39: "\\'"}
    return special.get(byte) or (chr(byte) if 32 <= byte < 127 else "\\x%02x" % byte)


def containers():
    show([])
    show([1, "two", 3.0, None])
    show(())
    show((1,))
    show((1, (2, [3])))
    show({})
    show({"a": 1, "b": [2]})
    show({1: "x", (2, 3): "y"})
    gone = {"k%d" % i: i for i in range(6)}
    del gone["k0"], gone["k4"]
    show(gone)
    big = {i: i for i in range(100000)}
    show(big, "{" + ", ".join("%d: %d" % (i, i) for i in range(16)) + ", ...}")
    show(list(range(1000)), "[" + ", ".join(map(str, range(16))) + ", ...]")
    show(frozenset())
    show(frozenset([7]))
    for rest in ({6}, {}):
        removed = {5, 6}
        removed.intersection_update(rest)
        removed.discard(5)
        show(removed, "{6}" if rest else "set()")
    loop = [1]
    loop.append(loop)
    show(loop, "[1, [...]]")
    ring = {"k": 1}
    ring["self"] = [ring]
    show(ring, "{'k': 1, 'self': [{...}]}")
    show([[[[[[1]]]]]], "[[[[[...]]]]]")


def others():
    show(Plain(), "<Plain at @>")
    show(Counted(7), "Counted(7)")
    show(Measured(2.5), "Measured(2.5)")
    show(Colour.RED, "Colour(3)")
    show(Point(1, 2), "Point((1, 2))")
    show(set(), "<set at @>")
    show(collections.OrderedDict(a=1), "collections.OrderedDict({'a': 1})")
    show(int, "<class 'int'>")
    show(Plain, "<class 'Plain'>")


def numpy_values():
    try:
        import numpy as np
    except ImportError:
        return
    show(np.float64(1.5), "np.float64(1.5)")
    show(np.float32(0.1), "np.float32(0.1)")
    show(np.float16(-0.5), "np.float16(-0.5)")
    show(np.int64(-3), "np.int64(-3)")
    show(np.int32(7), "np.int32(7)")
    show(np.int8(-128), "np.int8(-128)")
    show(np.uint64(2**64 - 1), "np.uint64(18446744073709551615)")
    flag = np.bool_(True)
    show(flag, "np.%s(True)" % type(flag).__name__)
    show(np.zeros((3, 4), dtype=np.float32), "<numpy.ndarray shape=(3, 4) dtype=float32>")
    show(np.arange(5), "<numpy.ndarray shape=(5,) dtype=int64>")
    show(np.array(True), "<numpy.ndarray shape=() dtype=bool>")
    show(np.zeros((2, 0, 1), dtype="S3"), "<numpy.ndarray shape=(2, 0, 1) dtype=bytes>")


def torch_values():
    try:
        import torch
    except ImportError:
        return
    show(torch.zeros(3, 4), "<Tensor shape=(3, 4) dtype=torch.float32>")
    show(torch.tensor(True), "<Tensor shape=() dtype=torch.bool>")
    show(torch.arange(5), "<Tensor shape=(5,) dtype=torch.int64>")
    deep = torch.zeros(1, 2, 3, 4, 5, 6, 7, dtype=torch.bfloat16)
    show(deep, "<Tensor shape=(1, 2, 3, 4, 5, 6, 7) dtype=torch.bfloat16>")
    weight = torch.nn.Parameter(torch.zeros(2, 0))
    show(weight, "<Parameter shape=(2, 0) dtype=torch.float32>")


def attributes():
    plain, slotted = Plain(), Slotted()
    extra = Plain()
    extra.__dict__["more"] = 2
    for value in (plain, slotted, extra):
        KEEP.append(value)
        put("name", id(value), "plain")


def names():
    started = threading.Event()
    main = ctypes.pythonapi.PyInterpreterState_Main
    main.restype = ctypes.c_void_p
    for name in ("worker-1", "w\xf6rker"):
        threading.Thread(target=started.wait, name=name, daemon=True).start()
    for thread in threading.enumerate():
        put("thread", thread.ident, thread.name)
    put("interp", main(), "-")


def print_frames(frame):
    """Print the callers' frames; a separate function, so that those frames do not change."""
    put("locals", id(frame), "inside=2 frame=* b=2 captured='in a cell'")
    put("code", id(frame.f_code), "-")
    outer = frame.f_back
    put(
        "locals",
        id(outer),
        "a=1 b=2 key='k' rest=(9,) more={'z': 0} x=[1] total=3 squares=[1] inner=* "
        "captured='in a cell'",
    )
    put("code", id(outer.f_code), "-")
    print("end", flush=True)
    sys.stdin.readline()


def local_variables(a, b=2, *rest, key="k", **more):
    x = [a]
    unbound = 1
    del unbound
    captured = "in a cell"
    total = sum(i for i in range(3))  # noqa: F841
    squares = [i * i for i in x]  # noqa: F841

    def inner():
        inside = b
        frame = sys._getframe()
        print_frames(frame)
        return captured, inside

    return inner()


def main():
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")
    put("version", sys.hexversion, "t" if free_threaded else "-")
    numbers()
    texts()
    containers()
    others()
    numpy_values()
    torch_values()
    attributes()
    names()
    local_variables(1, 2, 9, z=0)


main()
