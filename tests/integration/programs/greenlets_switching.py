# SPDX-License-Identifier: Apache-2.0
"""Two greenlets that switch to each other all the time, each at the bottom of its own chain of
calls. They share only a leaf function."""

import greenlet
import target

PAIR = []


def burn():
    total = 0
    for number in range(40):
        total += number
    return total


def short_leaf():
    burn()
    PAIR[1].switch()
    burn()


def short_chain():
    short_leaf()
    burn()


def short_run():
    while True:
        short_chain()


def long_leaf():
    burn()
    PAIR[0].switch()
    burn()


def long_fourth():
    long_leaf()


def long_third():
    long_fourth()
    burn()


def long_second():
    long_third()


def long_run():
    while True:
        long_second()


SHORT = ["short_run", "short_chain", "short_leaf"]
LONG = ["long_run", "long_second", "long_third", "long_fourth", "long_leaf"]


def stacks():
    """Returns every possible stack: a chain up to any depth, with or without the shared leaf."""
    every = []
    for chain in (SHORT, LONG):
        for depth in range(1, len(chain) + 1):
            every.append(chain[:depth])
            every.append([*chain[:depth], "burn"])
    return every


def main():
    PAIR.append(greenlet.greenlet(short_run))
    PAIR.append(greenlet.greenlet(long_run))
    target.ready(stacks=stacks())
    PAIR[0].switch()


main()
