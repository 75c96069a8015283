# SPDX-License-Identifier: Apache-2.0
"""Programs that call and return every few tens of nanoseconds, in every way that Python has: a
recording has no stack that the program cannot have.

Every way on one interpreter for each form of frames, some on the others; GSPROF_TEST_FULL=1 tries
all, and bench/impossible_stacks.py counts them in many more samples."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator

import pytest

from conftest import PYTHONS, StartTarget
from greenlets import environment
from impossible import KINDS, Legal
from support import (
    Profile,
    Python,
    check_rare,
    has_samples,
    has_weight,
    most_by_chance,
    observations,
    record_until,
    weight_of,
)

IMPOSSIBLE_SHARE = 1e-5
# Of the lines: the callers of a function that is called without end may take turns in between.
LINE_SHARE = 0.02
# Of the stacks: calls are learnt at the beginning of a recording, so some are lost then.
TORN_SHARE = 0.05
# What the collector of garbage does has a mark of its own.
GARBAGE = "(garbage collection)"
# One of each version: this is about how it calls, not about how it was built.
VERSIONS = {python.version[:2]: python for python in PYTHONS}
# The versions in which frames became what they are in those after them.
FORMS = ((3, 8), (3, 11), (3, 13), (3, 15))
ELSEWHERE = ("siblings", "generators")


def cases() -> Iterator[object]:
    for version, python in VERSIONS.items():
        is_full = version in FORMS or os.environ.get("GSPROF_TEST_FULL")
        for kind in KINDS if is_full else ELSEWHERE:
            yield pytest.param(python, kind, id=f"{python}-{kind}")


def check_torn(profile: Profile) -> None:
    """A stack that is torn while its thread waits for a CPU is so at every look: the losses are
    worth no more than the samples are.  False alarms: FALSE_ALARM."""
    torn = profile.losses["torn"]
    count = int(weight_of(profile.samples))
    allowed = most_by_chance(count, TORN_SHARE) / count
    assert torn / (len(profile.samples) + torn) <= allowed, (allowed, count, profile.losses)


def is_enough(profile: Profile) -> bool:
    return has_samples(200)(profile) and has_weight(100)(profile)


@pytest.mark.parametrize(("version", "kind"), cases())
def test_impossible(version: Python, kind: str, start: StartTarget, tmp_path: Path) -> None:
    try:
        env = environment(version) if kind == "greenlets" else {}
    except LookupError as error:
        pytest.skip(str(error))
    target = start("adversary.py", kind, python=version, env=env)
    profile = record_until(is_enough, target.pid, tmp_path / "p.json", rate_hz=20000)
    legal = Legal(target.facts)
    seen = observations(profile.samples)
    stacks = [[name for name in sample.names if name != GARBAGE] for sample in seen]
    # A wrong call that a recording takes for proven comes again: each stack counts once.
    wrong = {tuple(names) for names in stacks if not legal.has(names)}
    check_rare(sorted(wrong), len(seen), IMPOSSIBLE_SHARE)
    check_torn(profile)
    assert target.alive()


@pytest.mark.parametrize("version", VERSIONS.values(), ids=str)
def test_lines_of_returns(version: Python, start: StartTarget, tmp_path: Path) -> None:
    target = start("returns.py", python=version)
    path = tmp_path / "p.json"
    profile = record_until(is_enough, target.pid, path, duration_s=1.5, rate_hz=1000)
    pairs = [
        [sample.names[-2], sample.leaf.line]
        for sample in observations(profile.samples)
        if sample.names[-1] == "choose"
    ]
    check_rare([pair for pair in pairs if pair in target.facts["wrong"]], len(pairs), LINE_SHARE)
