# SPDX-License-Identifier: Apache-2.0
"""gsprof.table: rows of tables that the program defines, also from its children and after its
end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Dict, List

from support import PACKAGE, PATIENCE_S, Json, Lines, Python, gsprof


PROGRAM = """
import os, sys
import gsprof

loss = gsprof.table("loss", {"step": int, "value": float, "ok": bool, "note": str,
                             "split": "category"})
assert loss.put(step=0) is False  # nothing is recorded yet
assert gsprof.enable()
assert loss.put(step=1, value=0.5, ok=True, note="first", split="train")
assert gsprof.table("loss", list(zip(loss.columns, ("int", "float", "bool", "str",
                                                   "category")))).put(step=2, note=None)

@gsprof.table
class EpochEnd:
    epoch: int
    seconds: "float"

assert EpochEnd(3, 1.25).save()

def check_rejected(kind, *args, **kwargs):
    try:
        gsprof.table(*args, **kwargs)
    except kind:
        return
    raise AssertionError(args)

check_rejected(ValueError, "loss", {"step": float})
check_rejected(ValueError, "span", {"step": int})
check_rejected(ValueError, "Big Name", {"step": int})
check_rejected(ValueError, "other", {"step": complex})
check_rejected(ValueError, "other", {})
check_rejected(ValueError, "other", {"pid": int})
check_rejected(ValueError, "other", {"ts_ns": int})
for odd, kind in (({"stepp": 1}, TypeError), ({"step": "x"}, TypeError),
                  ({"step": 1 << 70}, OverflowError)):
    try:
        loss.put(**odd)
    except kind:
        continue
    raise AssertionError(odd)

child = os.fork()
if child == 0:
    os._exit(0 if loss.put(step=100) else 1)
assert os.waitpid(child, 0)[1] == 0
print(os.getpid(), child, flush=True)
sys.stdin.readline()
gsprof.disable()
assert loss.put(step=3) is False
assert gsprof.enable() and loss.put(step=4, split="again")
print("again", flush=True)
sys.stdin.readline()
"""


def query(pid: int, sql: str, env: Dict[str, str]) -> List[Json]:
    found: List[Json] = json.loads(gsprof("query", pid, sql, "-f", "json", env=env).out)
    return found


def test_rows_of_the_program(some_python: Python, tmp_path: Path) -> None:
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "PYTHONPATH": str(PACKAGE), "GSPROF_FOLLOW": "off"}
    process = subprocess.Popen(
        [some_python.path, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **env},
    )
    try:
        assert process.stdout is not None and process.stdin is not None
        lines = Lines(process.stdout.fileno())
        pid, child = (int(word) for word in (lines.next() or "0 0").split())
        sql = "SELECT step, value, ok, note, split FROM python.loss ORDER BY ts_ns"
        first = {"step": 1, "value": 0.5, "ok": True, "note": "first", "split": "train"}
        empty: Json = {"value": None, "ok": None, "note": None, "split": None}
        assert query(pid, sql, env) == [first, {**empty, "step": 2}]
        assert query(pid, "SELECT epoch, seconds FROM python.epoch_end", env) == [
            {"epoch": 3, "seconds": 1.25}
        ]
        assert query(child, sql, env) == [{**empty, "step": 100}]
        assert "python.loss" in gsprof("tables", pid, env=env).out
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert lines.next() == "again"
        process.send_signal(signal.SIGKILL)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
        # The rows outlive the process, including those written before the agent was switched off.
        last = {**empty, "step": 4, "split": "again"}
        assert query(pid, sql, env) == [first, {**empty, "step": 2}, last]
    finally:
        process.kill()
        process.communicate()


def test_a_run_includes_user_tables(some_python: Python, tmp_path: Path) -> None:
    code = "import gsprof; gsprof.table('tries', {'n': int}).put(n=7)"
    folder = tmp_path / "run"
    env = {"XDG_RUNTIME_DIR": str(tmp_path)}
    gsprof("run", "-o", folder, "--", some_python.path, "-c", code, env=env)
    found = gsprof("query", folder, "SELECT n FROM python.tries", "-f", "json", env=env)
    assert json.loads(found.out) == [{"n": 7}]
