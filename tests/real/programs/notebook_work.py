# SPDX-License-Identifier: Apache-2.0
"""Functions that the cells of notebook.py call."""

import collections

import truth

tables = collections.deque(maxlen=32)


def clean_rows(number):
    tables.append(bytearray(1 << 20))  # held
    rows = 0
    for i in range(300_000):
        rows = (rows * 31 + i + number) & 0xFFFF
    return rows


def run(count):
    for number in truth.rounds("worker", count):
        clean_rows(number)
