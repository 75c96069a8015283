# SPDX-License-Identifier: Apache-2.0
"""The cost of the Python package: its .pth file while GSPROF is unset, and a span."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import Dict, List

from common import Bench, Row, median
from support import GSPROF, main_python

PACKAGE = GSPROF.parent.parent.parent / "python"

PTH = """
import os, sys, time
line = open(sys.argv[1]).read()
os.environ.pop("GSPROF", None)
took = []
for _ in range(200):
    began = time.thread_time_ns()
    exec(line)  # as site does
    took.append(time.thread_time_ns() - began)
print(max(took[0], sorted(took)[100]) / 1e6)
"""

SPAN = """
import sys, time, gsprof
def spans(n):
    span = gsprof.span("hot")
    for _ in range(n):
        with span:
            pass
def empty(n):
    for _ in range(n):
        pass
def best(f, n=50000):
    f(n)
    times = []
    for _ in range(9):
        began = time.thread_time_ns()
        f(n)
        times.append((time.thread_time_ns() - began) / n)
    return min(times)
off = best(spans) - best(empty)
assert gsprof.enable()
on = best(spans) - best(empty)
print(off / 2, on / 2)
"""


def numbers(code: str, env: Dict[str, str], *args: str) -> List[float]:
    done = subprocess.run(
        [main_python(), "-c", code, *args],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        check=True,
    )
    return [float(word) for word in done.stdout.split()]


def main(bench: Bench) -> None:
    pth = str(PACKAGE / "gsprof.pth")
    value = median([numbers(PTH, {}, pth)[0] for _ in range(9)])
    bench.add(
        Row("package", "gsprof.pth, GSPROF unset", value, "ms", "<= 1 ms", value <= 1, "exec()")
    )
    with tempfile.TemporaryDirectory() as folder:
        env = {"PYTHONPATH": str(PACKAGE), "XDG_RUNTIME_DIR": folder, "GSPROF_FOLLOW": "off"}
        off, on = numbers(SPAN, env)
    text = "with gsprof.span(...)"
    name = "begin or end of a span"
    bench.add(Row("package", name + ", agent off", off, "ns", "<= 100 ns", off <= 100, text))
    bench.add(Row("package", name, on, "ns", "<= 250 ns", on <= 250, text))
