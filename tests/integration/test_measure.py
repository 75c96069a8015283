# SPDX-License-Identifier: Apache-2.0
"""gsprof.measure: blocks, leaks, lines and energy on every interpreter; GPUs with a fake NVML;
floating-point operations compared with the counts of PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import NEEDS_EXTENSION
from support import BUILD, PACKAGE, PATIENCE_S, ROOT, Python, main_python, program
from test_torch import find_python


pytestmark = NEEDS_EXTENSION


def run(python: str, name: str, *args: str, **more: str) -> str:
    done = subprocess.run(
        [python, "-W", "ignore", program(name), *args],
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1", **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def test_blocks_and_lines(python: Python) -> None:
    if "t-" in python.label and not list((PACKAGE / "gsprof").glob("*t-*.so")):
        pytest.skip("needs the extension for free-threaded interpreters")
    assert run(python.path, "measure_checks.py", "every").endswith("done\n")


def test_leaks_and_energy() -> None:
    assert run(main_python(), "measure_checks.py", "host").endswith("done\n")


def test_fake_gpus() -> None:
    tools: Path = BUILD / "tests" / "tools"
    answers = ROOT / "tests" / "fixtures" / "nvml" / "three_gpus.txt"
    more = {"LD_LIBRARY_PATH": str(tools), "GSP_NVML_STANDIN": str(answers)}
    assert run(main_python(), "measure_checks.py", "gpu", **more).endswith("done\n")


@pytest.mark.parametrize("which", ["debian", "current"])
def test_torch_operations(which: str) -> None:
    found = {}
    for line in run(find_python(which), "measure_flops.py").splitlines():
        row = json.loads(line)
        found[row["name"]] = row
    assert found["products"]["ours"] == 3 * 720 + 240
    for row in found.values():
        assert row["theirs"] in (None, row["ours"]), row
    assert found["formulas"]["ours"] in (None, [True, True])
    if which == "current":
        assert (
            found["convolutions"]["theirs"] and found["formulas"]["ours"]
        ), "torch counted nothing"
