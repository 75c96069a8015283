# SPDX-License-Identifier: Apache-2.0
"""What gsprof.query gives: the same rows as JSON, and a stream that pyarrow takes over."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from peers import install_wheels
from support import GSPROF, PATIENCE_S, ROOT, Python, program

# <build>/src/cli/gsprof and <build>/python.
PACKAGE = GSPROF.parent.parent.parent / "python"
GOLDEN = ROOT / "tests" / "golden" / "arrow" / "kinds.arrows"

pytestmark = pytest.mark.skipif(
    not (PACKAGE / "gsprof" / "_gsprof.abi3.so").exists(),
    reason="this build has no Python extension",
)


def run(*argv: str, path: str = "") -> None:
    done = subprocess.run(
        [*argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": f"{PACKAGE}{os.pathsep}{path}"},
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0 and done.stdout == b"fine\n", done.stdout.decode()


def test_rows(some_python: Python) -> None:
    run(some_python.path, program("query_arrow.py"), str(GOLDEN))


def test_pyarrow_takes_it() -> None:
    site = install_wheels("pyarrow", ROOT / "tests" / "arrow" / "requirements.txt")
    # -S: the system's NumPy may be too old for it, and it can do without.
    run(sys.executable, "-S", program("query_arrow.py"), str(GOLDEN), "--pyarrow", path=str(site))
