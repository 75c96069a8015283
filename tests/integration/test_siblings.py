# SPDX-License-Identifier: Apache-2.0
"""Functions with frames of one size that call each other every few tens of nanoseconds: a recording
has no stack that the program cannot make."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import StartTarget
from support import Python, illegal_pairs, record

KINDS = ["calls", "callbacks", "keywords", "through_c", "recursion", "generators", "coroutines"]

# A wrong pair that a recording takes for proven comes again, so pairs are counted, not stacks.
# With one wrong stack in 100,000 and at most 12,000 stacks, more than four pairs have a
# probability of 2e-7.
PAIRS_MAX = 4


@pytest.mark.parametrize("kind", KINDS)
def test_siblings(python: Python, kind: str, start: StartTarget, tmp_path: Path) -> None:
    target = start("siblings.py", kind, python=python)
    profile = record(target.pid, tmp_path / "p.json", duration_s=0.6, rate_hz=20000)
    # It may still be busy telling us that it is ready.
    profile.samples = [s for s in profile.samples if s.names[1:2] != ["ready"]]
    assert len(profile.samples) >= 200, profile.losses
    wrong = set(illegal_pairs(profile, target.facts["pairs"]))
    assert len(wrong) <= PAIRS_MAX, wrong
    # Calls are learnt at the beginning, so some stacks are lost then.
    assert profile.losses["torn"] <= 0.1 * len(profile.samples), profile.losses
    assert target.alive()
