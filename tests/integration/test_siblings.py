# SPDX-License-Identifier: Apache-2.0
"""Functions with frames of one size that call each other every few tens of nanoseconds: a recording
has no stack that the program cannot make."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import StartTarget
from support import (
    Profile,
    Python,
    check_rare,
    has_samples,
    has_weight,
    illegal_pairs,
    most_by_chance,
    observations,
    record_until,
    weight_of,
)

KINDS = ["calls", "callbacks", "keywords", "through_c", "recursion", "generators", "coroutines"]

# A wrong pair that a recording takes for proven comes again, so pairs are counted, not stacks.
WRONG_SHARE = 1e-5
# Of the stacks: calls are learnt at the beginning of a recording, so some are lost then.
TORN_SHARE = 0.05


def check_torn(profile: Profile) -> None:
    """A stack that is torn while its thread waits for a CPU is so at every look: the losses are
    worth no more than the samples are.  False alarms: FALSE_ALARM."""
    torn = profile.losses["torn"]
    count = int(weight_of(profile.samples))
    allowed = most_by_chance(count, TORN_SHARE) / count
    assert torn / (len(profile.samples) + torn) <= allowed, (allowed, count, profile.losses)


def is_enough(profile: Profile) -> bool:
    return has_samples(200)(profile) and has_weight(100)(profile)


@pytest.mark.parametrize("kind", KINDS)
def test_siblings(python: Python, kind: str, start: StartTarget, tmp_path: Path) -> None:
    target = start("siblings.py", kind, python=python)
    profile = record_until(is_enough, target.pid, tmp_path / "p.json", rate_hz=20000)
    # It may still be busy telling us that it is ready.
    profile.samples = [s for s in profile.samples if s.names[1:2] != ["ready"]]
    wrong = set(illegal_pairs(profile, target.facts["pairs"]))
    check_rare(sorted(wrong), len(observations(profile.samples)), WRONG_SHARE)
    check_torn(profile)
    assert target.alive()
