# SPDX-License-Identifier: Apache-2.0
"""Write line tables and the expected lines, as reported by the interpreter that runs this.

    python3.X tests/unit/data/make_lines.py > tests/unit/data/lines_3.X.txt

A code object is a line "code FIRST_LINE TABLE_HEX" and a line of runs "START-END:LINE", bytes,
LINE is -1 if the instruction has none. Works with 3.8 and later.
"""

import dis
import sys
import types

SOURCE = (
    '''
import os

def simple(a, b):
    x = a + b
    return x

def spread(a):
    value = (a +
             len(
                 [i
                  for i in range(3)
                  if i]) -
             2)
    return [
        value,
        a,
    ]

class Thing(object):
    """Text."""
    attr = {
        "a": 1,
        "b": (2, 3),
    }

    @staticmethod
    def method(*args,
               key=None,
               **kw):
        try:
            with open(os.devnull) as f:
                for line in f:
                    if line:
                        continue
                    break
                else:
                    return 1
        except (OSError,
                ValueError) as e:
            raise RuntimeError(
                str(e)) from e
        finally:
            key = None
        return lambda: (
            key)

async def work(n):
    async with n as m:
        await m(
            n)
    async for i in n:
        yield i
    while n:
        n -= 1; assert n, (
            "text")

def gap():
    a = 1'''
    + "\n" * 300
    + """    b = 2
    return a if b else (
"""
    + "\n" * 70000
    + """        b)

def wide():
    return ["""
    + ", ".join(f"x{i}.y" for i in range(200))
    + """]

def back(a):
    return a(
        1,
        a(2,
          3), *[
              4], k=(5
                     if a
                     else 6))
"""
)


def table_and_runs(code):
    if sys.version_info >= (3, 11):
        lines = [-1 if p[0] is None else p[0] for p in code.co_positions()]
        return code.co_linetable, [(2 * i, 2 * i + 2, line) for i, line in enumerate(lines)]
    if sys.version_info >= (3, 10):
        runs = [(s, e, -1 if line is None else line) for s, e, line in code.co_lines()]
        return code.co_linetable, runs
    starts = list(dis.findlinestarts(code))
    ends = [s for s, _ in starts[1:]] + [len(code.co_code)]
    return code.co_lnotab, [(s, e, line) for (s, line), e in zip(starts, ends)]


def joined(runs):
    out = []
    for start, end, line in runs:
        if out and out[-1][2] == line:
            out[-1][1] = end
        else:
            out.append([start, end, line])
    return out


def walk(code):
    table, runs = table_and_runs(code)
    print("code", code.co_firstlineno, table.hex())
    print(*("%d-%d:%d" % tuple(run) for run in joined(runs)))
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            walk(const)


walk(compile(SOURCE, "source", "exec"))
