# SPDX-License-Identifier: Apache-2.0
"""gsprof list: the processes with tables, and the removal of tables of ended processes.

Root sees the rings of every user, and --clean would remove them. So each test has its own runtime
folder and, as root, a mount namespace with empty folders over the shared ones: other recordings on
this machine are neither seen nor touched. For other users the tests are skipped while rings exist.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
from conftest import NEEDS_EXTENSION, StartWriter, own_mounts
from support import EXIT_USAGE, GSPROF, PACKAGE, PATIENCE_S, RING_WRITER, Result
from support import gsprof, is_root, main_python


HIDE = """
set -e
for shared in /dev/shm /run/user /var/tmp /tmp/gsprof-[0-9]*; do
    [ ! -d "$shared" ] || mount -t tmpfs none "$shared"
done
exec "$@"
"""


def isolated() -> List[str]:
    """Returns a prefix with which a command sees only the rings of the test, or skips the test."""
    if not is_root():
        for folder in ("/dev/shm", "/tmp", "/var/tmp"):
            root = f"{folder}/gsprof-{os.getuid()}"
            if os.path.isdir(root) and os.listdir(root):
                pytest.skip(f"needs no rings of this user in {root}: gsprof list --clean")
        return []
    return [*own_mounts(), "sh", "-c", HIDE, "sh"]


def listing(env: Dict[str, str], *args: object, status: int = 0) -> Result:
    return gsprof("list", *args, env=env, before=isolated(), status=status)


def listed(env: Dict[str, str]) -> List[Dict[str, Any]]:
    rows: List[Dict[str, Any]] = json.loads(listing(env, "--json").out)
    return rows


def test_no_processes(runtime: Dict[str, str]) -> None:
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
def test_clean_removes_all_files_of_a_process(runtime: Dict[str, str]) -> None:
    """Including the agent's files, and a folder without rings."""
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


def test_clean_keeps_live_and_recent_processes(
    runtime: Dict[str, str], writer: StartWriter
) -> None:
    dead, live = writer(), writer()
    dead.end()
    listing(runtime, "--clean", "--older-than", "1h")
    assert len(listed(runtime)) == 2
    result = listing(runtime, "--clean")
    assert "1 ended process " in result.err
    assert [row["pid"] for row in listed(runtime)] == [live.pid]


def test_foreign_files_and_unreadable_folders(runtime: Dict[str, str], writer: StartWriter) -> None:
    """Foreign files and folders do not make list fail."""
    filled, live = writer(), writer()
    filled.end()
    root = Path(runtime["XDG_RUNTIME_DIR"]) / "gsprof"
    ring_dir = next(root.glob(f"{filled.pid}-*"))
    (ring_dir / "notes.txt").write_text("mine")
    (root / "77-1").symlink_to(ring_dir)
    (root / "78-1").write_text("no folder")
    (root / "79-1").mkdir(mode=0)
    cleaned = listing(runtime, "--clean")
    assert f"kept {ring_dir}: it contains other files" in cleaned.err, str(cleaned)
    assert (ring_dir / "notes.txt").read_text() == "mine" and not list(ring_dir.glob("*.ring"))
    assert [row["pid"] for row in listed(runtime)] == [live.pid]


CHURN = """
set -u
writer=$1 gsprof=$2 seen=$3
churn() {
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "$writer" --steps 1 --capacity 8 < /dev/null; done
}
churn > "$seen/1" & churn > "$seen/2" & churn > "$seen/3" &
churning="$!"
while kill -0 "$churning" 2> /dev/null; do
    "$gsprof" list --clean || exit
done & cleaner=$!
status=0
while kill -0 "$churning" 2> /dev/null; do
    "$gsprof" list --json > "$seen/list" || status=$?
    "$gsprof" list --clean || status=$?
done
wait "$cleaner" || status=$?
wait
exit "$status"
"""


def test_concurrent_start_exit_and_clean(runtime: Dict[str, str], tmp_path: Path) -> None:
    """Two concurrent cleaners, with processes that create rings and exit at once."""
    done = subprocess.run(
        [*isolated(), "sh", "-c", CHURN, "sh", str(RING_WRITER), str(GSPROF), str(tmp_path)],
        env={**os.environ, **runtime},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done
    assert "not empty" not in done.stderr and "No such file" not in done.stderr, done.stderr
    wrote = [json.loads(line) for n in "123" for line in (tmp_path / n).read_text().splitlines()]
    assert sum(row["event"] == "end" for row in wrote) == 36, wrote
    listing(runtime, "--clean")
    assert not list((Path(runtime["XDG_RUNTIME_DIR"]) / "gsprof").iterdir())


def test_live_processes_come_first(runtime: Dict[str, str], writer: StartWriter) -> None:
    live, dead = writer(), writer()
    dead.end()
    rows = listed(runtime)
    assert [row["pid"] for row in rows] == [live.pid, dead.pid]
    assert [row["own"] for row in rows] == [True, True]
    assert rows[0]["removed_ns"] is None
    assert rows[1]["removed_ns"] == rows[1]["last_write_ns"] + 24 * 3600 * 10**9
    text = listing(runtime)
    assert "kept for" in text.out and "24.0 h after the last row (ring.keep_time)" in text.err
    assert "above 1024 MB (ring.keep_mb)" in text.err
    only = json.loads(listing(runtime, "--live", "--json").out)
    assert [row["pid"] for row in only] == [live.pid]
    assert str(dead.pid) not in listing(runtime, "--live").out


def test_retention_limits(runtime: Dict[str, str], writer: StartWriter, tmp_path: Path) -> None:
    """The environment overrides config.toml. Every list removes what exceeds the limits."""
    dead, live = writer(), writer()
    dead.end()
    (tmp_path / "gsprof").mkdir()
    (tmp_path / "gsprof" / "config.toml").write_text('[ring]\nkeep_time = "1h"\nkeep_mb = 7\n')
    env = {**runtime, "XDG_CONFIG_HOME": str(tmp_path)}
    assert "tables 1.00 h after" in listing(env).err and "above 7 MB" in listing(env).err
    env["GSPROF_RING_KEEP_TIME"] = "soon"
    wrong = listing(env)
    assert "GSPROF_RING_KEEP_TIME: ring.keep_time must be a time from 0 to" in wrong.err
    assert "using the defaults" in wrong.err and "24.0 h after" in wrong.err
    env["GSPROF_RING_KEEP_TIME"] = "1ms"
    swept = listing(env)
    assert "Removed the tables of 1 ended process " in swept.err, str(swept)
    assert [row["pid"] for row in listed(runtime)] == [live.pid]


def test_run_removes_old_rings(
    runtime: Dict[str, str], writer: StartWriter, tmp_path: Path
) -> None:
    dead, live = writer(), writer()
    dead.end()
    env = {**runtime, "GSPROF_RING_KEEP_TIME": "1ms"}
    run = ("run", "-q", "-o", tmp_path / "run", "--", "true")
    gsprof(*run, env=env, before=isolated())
    assert [row["pid"] for row in listed(runtime)] == [live.pid]


def test_wrong_use(runtime: Dict[str, str]) -> None:
    listing(runtime, "--live", "--clean", status=EXIT_USAGE)
    listing(runtime, "--older-than", "soon", status=EXIT_USAGE)
    listing(runtime, "extra", status=EXIT_USAGE)
