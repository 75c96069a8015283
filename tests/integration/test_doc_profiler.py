# SPDX-License-Identifier: Apache-2.0
"""Every code block of docs/python-profiler.md runs, with plain Python and with PyTorch."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
from conftest import NEEDS_EXTENSION
from support import PACKAGE, PATIENCE_S, ROOT, Json, main_python, program

PAGE = ROOT / "docs" / "python-profiler.md"

pytestmark = NEEDS_EXTENSION


def has_torch(python: str) -> bool:
    done = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    return done.returncode == 0


def run_page(python: str, kind: str, folder: Path) -> List[Json]:
    """Returns the results of the page's blocks."""
    done = subprocess.run(
        [python, program("profiler_doc.py"), str(PAGE), kind],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return [json.loads(line[len("RESULT ") :]) for line in lines]


def check_results(results: List[Json], folder: Path) -> None:
    found: Dict[str, List[Any]] = {}
    for result in results:
        for name, value in result["found"].items():
            found.setdefault(name, []).append(value)
    assert all(elapsed > 0 for elapsed in found["elapsed"]) and len(found["elapsed"]) == 2
    assert found["stats"][0]["peak_allocated"] > 0
    assert found["timeline"][0][0]["action"] == "start"
    full = next(report for report in found["report"] if report["timing"])
    assert full["metrics"]["loss"]["mean"] is not None
    assert full["throughput"]["samples_per_sec"] > 0
    assert found["analysis"][0]["bottleneck"]
    assert found["comparison"][0]["speedup"] > 1
    streams = found["streams"][0]["streams"]
    assert len(streams) == 4 and sum(stream["tasks"] for stream in streams) == 4
    whole = json.loads((folder / "profile.json").read_text())
    assert set(whole) == {"timing", "memory", "throughput"}
    assert set(whole["timing"]["forward_pass"]) == {"mean", "std", "min", "max"}
    assert (folder / "report.html").stat().st_size > 1000
    assert (folder / "metrics.csv").read_text().startswith("time_s,kind,name,value,unit\n")


def test_page_is_complete() -> None:
    """The page shows the JSON that save_json() writes, and all blocks were found."""
    text = PAGE.read_text(encoding="utf-8")
    shown = json.loads(re.findall(r"^```json\n(.*?)^```$", text, re.S | re.M)[0])
    assert list(shown) == ["timing", "memory", "throughput"]
    assert len(re.findall(r"^```python$", text, re.M)) == 15


def test_blocks_run_on_plain_python(tmp_path: Path) -> None:
    results = run_page(main_python(), "plain", tmp_path)
    assert len(results) == 15
    check_results(results, tmp_path)


def test_blocks_run_with_torch(tmp_path: Path) -> None:
    python = next((one for one in (main_python(), "/usr/bin/python3") if has_torch(one)), None)
    if python is None:
        pytest.skip("needs an interpreter with torch (python3-torch)")
    results = run_page(python, "torch", tmp_path)
    assert len(results) == 15
    check_results(results, tmp_path)
