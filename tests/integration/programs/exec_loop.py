# SPDX-License-Identifier: Apache-2.0
"""Compiles, runs and drops code objects forever, so that their addresses are reused. Name, file and
first line of each contain the same number."""

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
