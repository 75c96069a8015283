# SPDX-License-Identifier: Apache-2.0
"""Compiles, runs and drops code objects without end, so that their addresses are used
again by others.  The name, the file and the first line of each hold the same number."""

import target

SOURCE = """
def made_{number}(count):
    total = 0
    for i in range(count):
        total += i
    return total
"""


def make(number):
    source = "\n" * (number - 2) + SOURCE.format(number=number)
    space = {}
    exec(compile(source, "made_%d.py" % number, "exec"), space)
    return space["made_%d" % number]


def main():
    target.ready()
    number = 10
    while True:
        make(number)(3000)
        number = number + 7 if number < 900 else number % 7 + 10


main()
