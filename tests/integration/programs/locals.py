# SPDX-License-Identifier: Apache-2.0
"""Pauses in a function that has a local variable of every kind."""

import sys

import target


class Thing:
    def __repr__(self):
        raise RuntimeError("code of the target must not run")


def numpy_values():
    try:
        import numpy
    except ImportError:
        return None, None, None
    return (numpy.float64(2.5), numpy.int32(-7), numpy.zeros((3, 4), dtype="float32"))


def stand():
    an_int = 42
    negative = -7
    zero = 0
    big = 2**100
    a_float = 1.5
    infinite = float("inf")
    yes = True
    no = False
    nothing = None
    text = "hello"
    unicode_text = "gr\u00f6\u00dfe \u51fd\u6570 \U0001f40d"
    control_text = "a\x1b[31m\nb\x00c"
    long_text = "x" * 100000
    some_bytes = b"ab\x00\xff"
    a_list = [1, 2, 3]
    a_tuple = (1, "two", None)
    one_tuple = (5,)
    a_dict = {"key": 1, 2: [3]}
    a_set = {11}
    frozen = frozenset((12,))
    empty_list = []
    empty_dict = {}
    huge_list = list(range(1000000))
    cycle = [1]
    cycle.append(cycle)
    nested = [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]
    thing = Thing()
    a_complex = 1 + 2j
    np_float, np_int, np_array = numpy_values()
    target.station("locals", has_numpy=np_float is not None)
    return locals()


def with_arguments(first, *rest, key=None, **more):
    captured = first

    def inner():
        return captured

    target.station("arguments", names=[str(first), str(rest), str(key), str(more)])
    return inner


def main():
    stand()
    with_arguments(1, 2, 3, key="k", other=4)
    target.done()


if sys.argv[1:] == ["module"]:
    target.station("module")
else:
    main()
