# SPDX-License-Identifier: Apache-2.0
"""The worst case: a call every few tens of nanoseconds. Every caller has its own callee at the same
depth, with frames of equal size, so a torn stack shows as a pair that no code here can make (a
calls d)."""

import target


def b():
    pass


def d():
    pass


def f():
    pass


def h():
    pass


def a():
    b()
    b()
    b()
    b()


def c():
    d()
    d()
    d()
    d()


def e():
    f()
    f()
    f()
    f()


def g():
    h()
    h()
    h()
    h()


def main():
    while True:
        a()
        c()
        e()
        g()


PAIRS = [
    ["", "<module>"],
    ["<module>", "main"],
    ["main", "a"],
    ["main", "c"],
    ["main", "e"],
    ["main", "g"],
    ["a", "b"],
    ["c", "d"],
    ["e", "f"],
    ["g", "h"],
]

target.ready(pairs=PAIRS)
main()
