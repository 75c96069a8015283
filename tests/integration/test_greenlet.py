# SPDX-License-Identifier: Apache-2.0
"""dump: greenlets that are switched out, with their whole stacks."""

from __future__ import annotations

import json
from typing import List

import pytest

from conftest import StartTarget
from support import Json, Python, gsprof


def greenlets(pid: int) -> List[Json]:
    (thread,) = json.loads(gsprof("dump", "--json", "-p", pid).out)
    return [task for task in thread["tasks"] if task["kind"] == "greenlet"]


def test_greenlets(python: Python, start: StartTarget) -> None:
    target = start("greenlets.py", python=python)
    if "missing" in target.facts:
        pytest.skip("this interpreter has no greenlet")
    if not (3, 9) <= python.version < (3, 14):
        pytest.skip("greenlets are found in 3.9 to 3.13")
    found = {
        tuple(frame["name"] for frame in task["frames"]): task for task in greenlets(target.pid)
    }
    assert set(found) == {
        ("deep", "deep", "deep", "deep", "first"),
        ("deep", "deep", "through_sorted", "second"),
        ("main", "<module>"),
    }
    own = found[("deep", "deep", "through_sorted", "second")]
    assert own["name"].startswith("OwnGreenlet at 0x") and own["state"] == "suspended"
    lines = [frame["line"] for frame in found[("deep", "deep", "deep", "deep", "first")]["frames"]]
    assert len(set(lines[1:4])) == 1 and lines[0] != lines[1] and 0 not in lines
