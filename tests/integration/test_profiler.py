# SPDX-License-Identifier: Apache-2.0
"""gsprof.profiler: timers, memory, metrics, reports, streams and comparisons, on every
interpreter; with a fake GPU driver and a fake torch.cuda on one."""

from __future__ import annotations

import os
import subprocess
from typing import Dict

import pytest
from conftest import NEEDS_EXTENSION
from support import BUILD, PACKAGE, PATIENCE_S, Python, main_python, program

STANDIN = BUILD / "tests" / "tools" / "cuda"

pytestmark = NEEDS_EXTENSION


def check(python: str, what: str, **more: str) -> None:
    done = subprocess.run(
        [python, program("profiler_checks.py"), what],
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1", **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout[-4000:]


def test_profiler(python: Python, runtime: Dict[str, str]) -> None:
    if "t-" in python.label and not list((PACKAGE / "gsprof").glob("*t-*.so")):
        pytest.skip("needs an extension that is built for free-threaded interpreters")
    check(python.path, "host", **runtime)


def test_fake_driver(runtime: Dict[str, str]) -> None:
    if not (STANDIN / "libcuda.so.1").exists():
        pytest.skip(f"no {STANDIN}: ninja builds it")
    where = {**runtime, "LD_LIBRARY_PATH": str(STANDIN)}
    check(main_python(), "driver", **where)
    check(main_python(), "failing", GSP_CUDA_STANDIN_FAIL="cuEventRecord", **where)
    check(main_python(), "empty", GSP_CUDA_STANDIN_COUNT="0", **where)


def test_fake_torch(runtime: Dict[str, str]) -> None:
    check(main_python(), "torch", **runtime)


def test_allocations_are_counted_by_line(runtime: Dict[str, str]) -> None:
    check(main_python(), "engine", **runtime)
