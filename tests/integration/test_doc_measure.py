# SPDX-License-Identifier: Apache-2.0
"""Every code block of docs/python-measure.md runs: with plain Python, with PyTorch, and with a fake
NVML."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Dict, List

from conftest import NEEDS_EXTENSION
from support import BUILD, PACKAGE, PATIENCE_S, ROOT, Json, main_python, program
from test_torch import find_python

PAGE = ROOT / "docs" / "python-measure.md"
BLOCKS = 16

pytestmark = NEEDS_EXTENSION


def run_page(python: str, kind: str, **more: str) -> Dict[str, Json]:
    """Returns the metrics of the page's blocks by operation."""
    done = subprocess.run(
        [python, program("measure_doc.py"), str(PAGE), kind],
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1", **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results: List[Json] = [
        json.loads(line[len("RESULT ") :])
        for line in done.stdout.splitlines()
        if line.startswith("RESULT ")
    ]
    assert len(results) == BLOCKS
    found = {one["metrics"]["name"]: one["metrics"] for one in results if one["metrics"]}
    assert found["memory_leak_check"]["memory"]["memory_leak_detected"] is True
    assert "Potential memory leak detected" in done.stdout
    assert "Operation failed: stand-in" in done.stdout and "Partial timing: " in done.stdout
    assert "ArithmeticError" in found["potentially_failing_operation"]["error"]
    assert {"model_training", "training_loop", "training", "gpu_intensive_task"} <= set(found)
    return found


def test_page_is_complete() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"^```python$", text, re.M)) == BLOCKS


def test_blocks_run_on_plain_python() -> None:
    found = run_page(main_python(), "plain")
    assert found["model_training"]["timing"]["wall_time_s"] > 0


def test_blocks_run_with_torch() -> None:
    compute = run_page(find_python("debian"), "torch")["flops_analysis"]["compute"]
    assert compute["estimated_flops"] == 2 * 32 * (784 * 512 + 512 * 10)
    assert compute["flops_per_second"] > 0


def test_blocks_run_with_fake_gpus() -> None:
    tools = BUILD / "tests" / "tools"
    answers = ROOT / "tests" / "fixtures" / "nvml" / "three_gpus.txt"
    more = {"LD_LIBRARY_PATH": str(tools), "GSP_NVML_STANDIN": str(answers)}
    found = run_page(main_python(), "plain", **more)
    assert found["gpu_intensive_task"]["memory"]["peak_gpu_mb"] > 0
    assert found["model_training"]["compute"]["gpu_utilization_percent"] is not None
