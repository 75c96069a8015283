# SPDX-License-Identifier: Apache-2.0
"""Samples and stacks in SQL, from several processes that run the same code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

from conftest import NEEDS_EXTENSION, StartRunning
from support import gsprof, main_python, wait_for

pytestmark = NEEDS_EXTENSION

SAME_CODE = """
import os, sys, threading
def burn():
    while not os.path.exists(sys.argv[1]):
        sum(range(1000))
def idle():
    threading.Event().wait()
worker = os.fork()
for _ in range(4):
    threading.Thread(target=idle, daemon=True).start()
burn()
if worker == 0:
    os._exit(0)
os.wait()
"""


def query(where: object, sql: str, env: Dict[str, str]) -> List[Any]:
    text = gsprof("query", "-q", where, sql, "-f", "json", env=env).out
    return [list(row.values()) for row in json.loads(text)]


def check_unique(folder: Path, env: Dict[str, str]) -> None:
    rows, keys = query(
        folder, "SELECT count(*), count(DISTINCT (stack_id, depth)) FROM python.stack", env
    )[0]
    assert rows == keys > 0
    # In one statement, because samples are added during the recording.
    joined, whole = query(
        folder,
        "WITH s AS MATERIALIZED (SELECT stack_id, weight_ns FROM python.stack_sample"
        " WHERE stack_id IN (SELECT stack_id FROM python.stack))"
        " SELECT (SELECT sum(weight_ns) FROM s JOIN python.stack USING (stack_id) WHERE depth = 0),"
        " (SELECT sum(weight_ns) FROM s)",
        env,
    )[0]
    assert joined == whole > 0


def test_each_frame_of_a_stack_is_stored_once(
    runtime: Dict[str, str], tmp_path: Path, running: StartRunning
) -> None:
    """Holds during the recording of several processes and for the finished run."""
    script = tmp_path / "same.py"
    script.write_text(SAME_CODE)
    folder = tmp_path / "run"
    end = tmp_path / "end"
    run = running("run", "-o", folder, "--", main_python(), script, end, env=runtime)
    seen = "SELECT count(DISTINCT pid) FROM python.stack_sample JOIN python.stack USING (stack_id)"
    seen += " WHERE func = 'burn'"
    wait_for(lambda: folder.exists(), "the folder does not exist")
    wait_for(lambda: query(folder, seen, runtime)[0][0] == 2, "not all processes are recorded")
    check_unique(folder, runtime)
    end.touch()
    assert run.finish().status == 0
    alone = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert query(folder, seen, alone) == [[2]]
    check_unique(folder, alone)
    # The file itself has each frame once, for other readers.
    segments = json.loads((folder / "manifest.json").read_text())["segments"]
    rows = sum(row["rows"] for row in segments if row["file"] == "python.stack.parquet")
    assert query(folder, "SELECT count(*) FROM python.stack", alone) == [[rows]]
    # Waiting threads sort after working ones.
    assert query(folder, "SELECT func FROM gsprof.hot_lines() LIMIT 1", alone) == [["burn"]]
    assert query(folder, "SELECT func FROM gsprof.hot_functions() LIMIT 1", alone) == [["burn"]]
    every = query(folder, "SELECT func FROM gsprof.hot_functions(idle := true) LIMIT 1", alone)
    assert "wait" in every[0][0], every
