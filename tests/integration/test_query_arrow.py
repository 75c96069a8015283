# SPDX-License-Identifier: Apache-2.0
"""Results of gsprof.query: equal to the JSON rows, and a stream that pyarrow imports."""

from __future__ import annotations

import os
import subprocess
import sys

from peers import install_wheels
from conftest import NEEDS_EXTENSION
from support import PACKAGE, PATIENCE_S, ROOT, Python, program

GOLDEN = ROOT / "tests" / "golden" / "arrow" / "kinds.arrows"

pytestmark = NEEDS_EXTENSION


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


def test_pyarrow_imports_it() -> None:
    site = install_wheels("pyarrow", ROOT / "tests" / "arrow" / "requirements.txt")
    # -S: the system's NumPy may be too old for pyarrow, which works without.
    run(sys.executable, "-S", program("query_arrow.py"), str(GOLDEN), "--pyarrow", path=str(site))
