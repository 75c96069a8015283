# SPDX-License-Identifier: Apache-2.0
# flake8: noqa
# fmt: off
"""Pauses at lines whose numbers are easy to get wrong. The layout of this file is the test: do not
run a formatter on it."""

import target


def identity(*args, **_):
    return args[0] if args else None


def many_lines():
    identity(
        1,
        target.station("argument on its own line"),
        2,
        three=identity(
            target.station("nested argument"),
        ),
    )
    return (
        1 +
        (target.station("operand on its own line") or 0) +
        2
    )


def loops():
    for i in range(3):
        if i == 1:
            target.station("loop body")
        elif i == 2:
            pass
    else:
        target.station("loop else")
    while True:
        target.station("while body")
        break


def comprehensions():
    [
        target.station("list comprehension")
        for _ in range(1)
    ]
    {
        i: [
            target.station("nested comprehension")
            for _ in range(1)
        ]
        for i in range(1)
    }
    list(
        target.station("generator expression")
        for _ in range(1)
    )


def decorate(function):
    def wrapper(*args):
        target.station("wrapper")
        return function(*args)
    return wrapper


@decorate
@identity
@decorate
def decorated(
    first,
    second=(
        1
    ),
):

    """A docstring

    of some lines.
    """

    target.station("decorated")
    return first, second


def one_line(): target.station("one line"); identity(); target.station("same line")


def long_function():
    value = 0
    value += 1








































































































































    value += 1
    target.station("far down")
    return value


def back_jump():
    for value in (
        target.station("iterable on its own line") or [1]
    ):
        identity(value)
    x = lambda: (
        target.station("lambda")
    )
    x()


class Body:
    attribute = identity(
        target.station("class body")
    )


def main():
    many_lines()
    loops()
    comprehensions()
    decorated(1)
    one_line()
    long_function()
    back_jump()
    target.done()


main()
