# SPDX-License-Identifier: Apache-2.0
"""A function with two returns and two callers, each of which reaches one of them."""

import target


def choose(first):
    if first:
        return 1
    return 2


def left():
    return choose(1)


def right():
    return choose(0)


def main():
    line = choose.__code__.co_firstlineno
    target.ready(wrong=[["left", line + 3], ["right", line + 2]])
    while True:
        for _ in range(1000):
            left()
            right()


main()
