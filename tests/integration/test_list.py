# SPDX-License-Identifier: Apache-2.0
"""gsprof list: which processes have tables, and how those of ended ones go away.

Root sees the rings of every user, and --clean would remove them.  So each test has a runtime folder
of its own and, as root, empty folders over the shared ones, in a mount namespace: what others on
this machine record is neither seen nor touched.  Another user is skipped while rings are there.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
from conftest import NEEDS_EXTENSION, StartWriter, own_mounts
from support import EXIT_USAGE, PACKAGE, Result, gsprof, is_root, main_python


HIDE = """
set -e
for shared in /dev/shm /run/user /tmp/gsprof-[0-9]*; do
    [ ! -d "$shared" ] || mount -t tmpfs none "$shared"
done
exec "$@"
"""


def alone() -> List[str]:
    """What to put before a command so that it sees no rings but the test's; skips where that
    cannot be had."""
    if not is_root():
        for root in (f"/dev/shm/gsprof-{os.getuid()}", f"/tmp/gsprof-{os.getuid()}"):
            if os.path.isdir(root) and os.listdir(root):
                pytest.skip(f"needs no rings of this user in {root}: gsprof list --clean")
        return []
    return [*own_mounts(), "sh", "-c", HIDE, "sh"]


def listing(env: Dict[str, str], *args: object, status: int = 0) -> Result:
    return gsprof("list", *args, env=env, before=alone(), status=status)


def listed(env: Dict[str, str]) -> List[Dict[str, Any]]:
    rows: List[Dict[str, Any]] = json.loads(listing(env, "--json").out)
    return rows


def test_nobody(runtime: Dict[str, str]) -> None:
    assert listed(runtime) == []
    result = listing(runtime)
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
    text = listing(runtime).out
    assert "live" in text and "ended" in text and "(2 rows)" in text


@NEEDS_EXTENSION
def test_clean_removes_all_that_a_process_left(runtime: Dict[str, str]) -> None:
    """The agent's files too, and what is left of a folder without rings."""
    path = os.pathsep.join([str(PACKAGE), str(PACKAGE / "start")])
    env = {**os.environ, **runtime, "PYTHONPATH": path, "GSPROF_MEMORY": "sampled"}
    for _ in range(2):
        subprocess.run([main_python(), "-c", "kept = bytes(1 << 20)"], env=env, check=True)
    root = Path(runtime["XDG_RUNTIME_DIR"]) / "gsprof"
    first, second = root.iterdir()
    assert (first / "memory").exists() and (second / "memory").exists()
    for ring in first.glob("*.ring"):
        ring.unlink()
    (first / "meta.json").unlink()
    os.utime(first, (0, 0))
    result = listing(runtime, "--clean", "--older-than", "1ms")
    assert "1 ended process " in result.err
    assert list(root.iterdir()) == []


def test_clean_keeps_the_live_and_the_young(runtime: Dict[str, str], writer: StartWriter) -> None:
    dead, live = writer(), writer()
    dead.end()
    listing(runtime, "--clean", "--older-than", "1h")
    assert len(listed(runtime)) == 2
    result = listing(runtime, "--clean")
    assert "1 ended process " in result.err
    assert [row["pid"] for row in listed(runtime)] == [live.pid]


def test_wrong_use(runtime: Dict[str, str]) -> None:
    listing(runtime, "--older-than", "soon", status=EXIT_USAGE)
    listing(runtime, "extra", status=EXIT_USAGE)
