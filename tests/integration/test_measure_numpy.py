# SPDX-License-Identifier: Apache-2.0
"""Floating-point operations of NumPy, with each interpreter that has NumPy."""

from __future__ import annotations

import json
import os
import subprocess
from typing import List

import pytest
from conftest import NEEDS_EXTENSION, PYTHONS
from support import PACKAGE, PATIENCE_S, program


pytestmark = NEEDS_EXTENSION


def with_numpy() -> List[str]:
    """Returns the interpreters that have NumPy, without importing it."""
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('numpy') is None)"
    return [
        python.path
        for python in PYTHONS
        if "t-" not in python.label
        and subprocess.run([python.path, "-c", code], check=False).returncode == 0
    ]


def test_every_way_to_write_a_product() -> None:
    pythons = with_numpy()
    if not pythons:
        pytest.skip("needs an interpreter with NumPy (python3-numpy)")
    for python in pythons:
        done = subprocess.run(
            [python, program("measure_numpy.py")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(PACKAGE)},
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, (python, done.stdout.decode(), done.stderr.decode())
        assert json.loads(done.stdout)["wrong"] == {}
