# SPDX-License-Identifier: Apache-2.0
"""The benchmarks still fit the code that they measure. Tests do not run them: they take long."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support import PATIENCE_S, ROOT

BENCH = ROOT / "bench"


def test_every_part_can_be_imported() -> None:
    command = [sys.executable, str(BENCH / "run.py"), "--help"]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE_S, check=True)
    assert b"--only" in done.stdout


@pytest.mark.parametrize("name", sorted(path.name for path in BENCH.glob("*.c")))
def test_programs_compile(name: str) -> None:
    include = [f"-I{ROOT / 'src'}", f"-I{ROOT / 'subprojects' / 'duckdb'}"]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run(["cc", *flags, *include, str(BENCH / name)], timeout=PATIENCE_S, check=True)
