# SPDX-License-Identifier: Apache-2.0
"""Forks children that exit at once, as fast as it can: at least LEAST of them, until a file exists.
Argument: the file."""

import os
import sys

import target

MANY = 16
LEAST = 50


def child(number):
    total = 0
    for i in range(number % 7 * 1000):
        total += i
    os._exit(0)


def storm(path):
    count = 0
    alive = 0
    while count < LEAST or not os.path.exists(path):
        if os.fork() == 0:
            child(count)
        count += 1
        alive += 1
        while alive and os.waitpid(-1, os.WNOHANG if alive < MANY else 0)[0]:
            alive -= 1
    while alive:
        os.waitpid(-1, 0)
        alive -= 1
    return count


def main():
    target.ready()
    target.emit(forks=storm(sys.argv[1]))


main()
