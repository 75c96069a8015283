# SPDX-License-Identifier: Apache-2.0
"""Twenty tiny functions with equal bodies and different numbers of calls: the share of the time of
each is its share of the calls."""

import random

import target

BODY = """
def {name}():
    total = 0
    for i in range(12):
        total += i
    return total
"""

COUNT = 20


def main():
    calls = {}
    schedule = []
    space = {}
    for k in range(COUNT):
        name = "tiny_%02d" % k
        exec(compile(BODY.format(name=name), "tiny_body.py", "exec"), space)
        calls[name] = k % 5 + 1
        schedule += [space[name]] * (20 * calls[name])
    random.Random(7).shuffle(schedule)
    total = sum(calls.values())
    target.ready(shares={name: count / total for name, count in calls.items()})
    while True:
        for function in schedule:
            function()


main()
