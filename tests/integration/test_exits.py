# SPDX-License-Identifier: Apache-2.0
"""A program ends under `gsprof run` as it does alone: the same status, the same output.

The short form of tests/exits/exits.py (`make test-exits`). Each case runs on two interpreters;
every interpreter is used."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import List, Tuple

import pytest

from conftest import NEEDS_EXTENSION, PYTHONS
from support import ROOT, Python

sys.path.insert(0, str(ROOT / "tests" / "exits"))

from exits import CASES, Case, build_native, compare, fits  # noqa: E402

pytestmark = NEEDS_EXTENSION


def chosen() -> List[Tuple[Case, Python]]:
    pairs = []
    for number, case in enumerate(case for case in CASES if case.is_short):
        able = [python for python in PYTHONS if fits(case, python)]
        indexes = {number % len(able), (number + len(able) // 2) % len(able)} if able else set()
        pairs += [(case, able[index]) for index in sorted(indexes)]
    return pairs


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = build_native(tmp_path_factory.mktemp("native"))
    return path


@pytest.mark.parametrize(
    "case, interpreter", chosen(), ids=lambda value: getattr(value, "name", str(value))
)
def test_same_end_as_alone(case: Case, interpreter: Python, tmp_path: Path, native: Path) -> None:
    outcome = compare(case, interpreter.path, tmp_path, native)
    assert not outcome.difference, outcome.difference
