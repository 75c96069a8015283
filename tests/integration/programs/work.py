# SPDX-License-Identifier: Apache-2.0
"""Work with known shares: three functions with equal bodies
that use 50, 30 and 20 % of the time, and measure it themselves.
"""

import time

UNIT = 4000
truth = {"half": 0, "third": 0, "fifth": 0}


def half(count):
    total = 0
    for i in range(count):
        total += i & 7
    return total


def third(count):
    total = 0
    for i in range(count):
        total += i & 7
    return total


def fifth(count):
    total = 0
    for i in range(count):
        total += i & 7
    return total


def one_round():
    clock = time.perf_counter_ns
    start = clock()
    half(5 * UNIT)
    after_half = clock()
    third(3 * UNIT)
    after_third = clock()
    fifth(2 * UNIT)
    end = clock()
    truth["half"] += after_half - start
    truth["third"] += after_third - after_half
    truth["fifth"] += end - after_third


def shares():
    total = sum(truth.values()) or 1
    return {name: spent / total for name, spent in truth.items()}
