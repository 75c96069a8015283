# SPDX-License-Identifier: Apache-2.0
"""gsprof list: which processes have tables, and how those of ended ones go away.

Each test has a runtime folder of its own: what others on this machine record is left alone.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

from support import EXIT_USAGE, GSPROF, Target, gsprof

WRITER = Path(os.environ.get("GSPROF_RING_WRITER", GSPROF.parent / "tests/tools/ring_writer"))
if not WRITER.exists():  # GSPROF_BIN in a build folder
    WRITER = GSPROF.parent.parent.parent / "tests" / "tools" / "ring_writer"

StartWriter = Callable[..., Target]


@pytest.fixture
def runtime(tmp_path: Path) -> Dict[str, str]:
    """The environment with a runtime folder that is this test's alone."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(folder)}


@pytest.fixture
def writer(runtime: Dict[str, str]) -> Iterator[StartWriter]:
    if not WRITER.exists():
        pytest.skip(f"no {WRITER}: ninja builds it")
    started: List[Target] = []

    def begin(*args: object) -> Target:
        target = Target([str(WRITER), *map(str, args)], env=runtime)
        started.append(target)
        return target

    yield begin
    for target in started:
        target.end()


def listed(env: Dict[str, str]) -> List[Dict[str, Any]]:
    rows: List[Dict[str, Any]] = json.loads(gsprof("list", "--json", env=env).out)
    return rows


def test_nobody(runtime: Dict[str, str]) -> None:
    assert listed(runtime) == []
    result = gsprof("list", env=runtime)
    assert result.out == "" and "No process" in result.err


def test_live_and_dead(runtime: Dict[str, str], writer: StartWriter) -> None:
    first, second = writer("--rank", 3), writer()
    first.end()
    rows = {row["pid"]: row for row in listed(runtime)}
    assert set(rows) == {first.pid, second.pid}
    assert not rows[first.pid]["live"] and rows[second.pid]["live"]
    assert rows[first.pid]["rank"] == 3 and rows[second.pid]["rank"] is None
    assert all(row["tables"] == 2 and row["bytes"] > 0 for row in rows.values())
    assert "ring_writer" in rows[first.pid]["command"]
    text = gsprof("list", env=runtime).out
    assert "live" in text and "ended" in text and "(2 rows)" in text


def test_clean_keeps_the_live_and_the_young(runtime: Dict[str, str], writer: StartWriter) -> None:
    dead, live = writer(), writer()
    dead.end()
    gsprof("list", "--clean", env=runtime)
    assert len(listed(runtime)) == 2
    result = gsprof("list", "--clean", "--older-than", "1ms", env=runtime)
    assert "1 ended process " in result.err
    assert [row["pid"] for row in listed(runtime)] == [live.pid]


def test_wrong_use(runtime: Dict[str, str]) -> None:
    gsprof("list", "--older-than", "soon", env=runtime, status=EXIT_USAGE)
    gsprof("list", "extra", env=runtime, status=EXIT_USAGE)
