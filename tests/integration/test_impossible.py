# SPDX-License-Identifier: Apache-2.0
"""Programs that call and return every few tens of nanoseconds, with every kind of call in Python: a
recording has no impossible stack, that is, no stack that the program never has.

All kinds of calls run on one interpreter for each frame layout, some on the others. With
GSPROF_TEST_FULL=1 all run on all; bench/impossible_stacks.py uses many more samples."""

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
# Of lines: between two reads, a function that is called constantly may get another caller.
LINE_SHARE = 0.02
# Of stacks: a recording verifies calls at its start, so some samples are lost there.
TORN_SHARE = 0.05
# The mark of the garbage collector.
GARBAGE = "(garbage collection)"
# One interpreter for each version: calls do not depend on how it was built.
VERSIONS = {python.version[:2]: python for python in PYTHONS}
# The versions that introduced a new frame layout.
NEW_LAYOUTS = ((3, 8), (3, 11), (3, 13), (3, 15))
KINDS_ELSEWHERE = ("siblings", "generators")


def cases() -> Iterator[object]:
    for version, python in VERSIONS.items():
        is_full = version in NEW_LAYOUTS or os.environ.get("GSPROF_TEST_FULL")
        for kind in KINDS if is_full else KINDS_ELSEWHERE:
            yield pytest.param(python, kind, id=f"{python}-{kind}")


def check_torn(profile: Profile) -> None:
    """Checks the share of torn samples. A stack that is torn while its thread waits for a CPU is
    torn in every sample, so losses are no more independent than samples. Probability of a false
    alarm: FALSE_ALARM."""
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
    # A wrong call that was verified by mistake is repeated: each stack counts once.
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
