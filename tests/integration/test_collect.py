# SPDX-License-Identifier: Apache-2.0
"""The metric sources in the output of doctor: on this machine, and with a fake NVML, which tests
the processing of answers, not the behaviour of a GPU."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Dict, Mapping, Optional

from support import GSPROF, ROOT, Json, gsprof

TOOLS = GSPROF.parent.parent.parent / "tests" / "tools"
ANSWERS = ROOT / "tests" / "fixtures" / "nvml" / "three_gpus.txt"


def sources(env: Optional[Mapping[str, str]] = None) -> Dict[str, Json]:
    out = gsprof("doctor", "--json", status=None, env=env).out
    return {row["name"]: row for row in json.loads(out)["sources"]}


def fake_nvml(answers: Path) -> Dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": str(TOOLS), "GSP_NVML_STANDIN": str(answers)}


def test_sources_of_this_machine() -> None:
    found = sources()
    for name in ("cpu", "memory", "disk", "network", "process", "energy"):
        assert found[name]["works"], found[name]
    for row in found.values():
        assert row["works"] or row["reason"], row
    text = gsprof("doctor", status=None).out
    assert "\nMetrics\n" in text and found["cpu"]["about"] in text


def test_mig_gpu_is_reported() -> None:
    row = sources(fake_nvml(ANSWERS))["gpu_nvml"]
    assert row["works"]
    assert "GPU 2" in row["reason"] and "MIG" in row["reason"]


def test_driver_error_is_reported(tmp_path: Path) -> None:
    answers = tmp_path / "answers.txt"
    answers.write_text("init 9\n")
    row = sources(fake_nvml(answers))["gpu_nvml"]
    assert not row["works"]
    assert "Driver Not Loaded (9)" in row["reason"]


def test_a_lost_gpu_does_not_hide_the_others(tmp_path: Path) -> None:
    answers = tmp_path / "answers.txt"
    answers.write_text("1.code 15\n" + ANSWERS.read_text())
    row = sources(fake_nvml(answers))["gpu_nvml"]
    assert row["works"]
    assert "GPU 1: GPU is lost (15)" in row["reason"]
