# SPDX-License-Identifier: Apache-2.0
"""gsprof run: programs that replace the files and folders of their own recording."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Dict, Iterator, List

import pytest
from conftest import NEEDS_EXTENSION, StartRunning
from support import gsprof, main_python, wait_for


pytestmark = NEEDS_EXTENSION

OWNER = 1504
# Of the sudo that is simulated.
SUDO = {"XDG_RUNTIME_DIR": "", "SUDO_UID": str(OWNER), "SUDO_GID": str(OWNER)}

MOVE = """
import os, sys, time
time.sleep(0.8)
os.rename(sys.argv[1], sys.argv[2])
os.symlink(sys.argv[3], sys.argv[1])
end = time.monotonic() + 2.5
while time.monotonic() < end: sum(range(1000))
"""

REPLACE = """
import os, sys, time
path = os.environ["GSPROF_RUN_FILE"]
os.rename(path, path + ".old")
os.mkfifo(path) if sys.argv[1] == "fifo" else os.symlink("/dev/zero", path)
import subprocess
subprocess.run([sys.executable, "-c", "import time; time.sleep(0.3)"], check=True)
end = time.monotonic() + 1
while time.monotonic() < end: sum(range(1000))
print("done")
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The folder of the user who called sudo."""
    folder = Path("/tmp") / f"gsprof-test-{os.getpid()}"
    folder.mkdir()
    os.chown(folder, OWNER, OWNER)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(f"/dev/shm/gsprof-{OWNER}", ignore_errors=True)


def content(folder: Path) -> Dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.needs_root
@pytest.mark.parametrize("where", ["--name", "--output"])
def test_a_program_moves_its_run_folder(home: Path, where: str) -> None:
    """Root writes all files into the folder that it created, not where a link leads now."""
    precious = home / "precious"
    (precious / "app").mkdir(parents=True)
    (precious / "app" / "meta.json").write_text("mine")
    precious.chmod(0o700)
    runs = home / "gsprof-runs"
    runs.mkdir()
    os.chown(runs, OWNER, OWNER)
    (home / "move.py").write_text(MOVE)
    name = "app" if where == "--name" else runs / "app"
    paths = (runs, home / "old", precious)
    run = ("run", where, name, "--", "/usr/bin/python3", home / "move.py", *paths)
    result = gsprof(*run, env=SUDO, cwd=home)
    assert runs.is_symlink() and content(precious / "app") == {"meta.json": b"mine"}
    moved = home / "old" / "app"
    meta = json.loads((moved / "meta.json").read_text())
    assert meta["state"] == "complete" and meta["name"] == "app" and meta["samples"] > 20
    assert {"report.html", "profile.json", "python.stack_sample.parquet"} <= set(content(moved))
    # The user sees the path, not the descriptor.
    assert "gsprof-runs/app" in result.err and "/proc/" not in result.err, str(result)
    assert b"/proc/self/fd" not in (moved / "report.html").read_bytes()


@pytest.mark.needs_root
def test_links_in_a_folder_of_the_user(home: Path) -> None:
    """An existing folder may have links with the names of a run's files: they are replaced."""
    precious = home / "precious.txt"
    precious.write_text("mine")
    precious.chmod(0o600)
    folder = home / "run"
    folder.mkdir()
    for name in ("profile.gsp", "profile.json", "report.html", "manifest.json"):
        (folder / name).symlink_to(precious)
    os.chown(folder, OWNER, OWNER)
    run = ("run", "--force", "-o", folder, "--no-torch", "--", "/usr/bin/python3", "-c")
    plant = (
        "import os, time\n"
        f"os.chdir({str(folder)!r})\n"
        "for name in ('profile.gsp', 'profile.json', 'report.html'):\n"
        f"    os.symlink({str(precious)!r}, name)\n"
        "time.sleep(0.5)\n"
    )
    gsprof(*run, plant, env=SUDO)
    assert precious.read_text() == "mine"
    assert not any(path.is_symlink() for path in folder.iterdir())


@pytest.mark.parametrize("kind", ["fifo", "zero"])
def test_a_program_replaces_the_run_file(
    runtime: Dict[str, str], tmp_path: Path, kind: str
) -> None:
    """gsprof reads the file that it created; its processes do not wait for a reader of the pipe."""
    script = tmp_path / "replace.py"
    script.write_text(REPLACE)
    env = {**runtime, "TMPDIR": str(tmp_path)}
    run = ("run", "-o", tmp_path / "run", "--", main_python(), script, kind)
    result = gsprof(*run, env=env)
    assert result.out == "done\n"
    meta = json.loads((tmp_path / "run" / "meta.json").read_text())
    assert meta["state"] == "complete" and meta["samples"] > 20


def test_a_long_run_file(runtime: Dict[str, str], tmp_path: Path) -> None:
    """gsprof stops reading at a limit."""
    code = (
        "import os\n"
        "path = os.environ['GSPROF_RUN_FILE']\n"
        "os.truncate(path, 1 << 40)\n"
        "print('done')\n"
    )
    env = {**runtime, "TMPDIR": str(tmp_path)}
    run = ("run", "-o", tmp_path / "run", "--", main_python(), "-c", code)
    assert gsprof(*run, env=env).out == "done\n"


def run_files(folder: Path) -> List[str]:
    return sorted(path.name for path in folder.glob("gsprof-run.*"))


def test_run_files_of_killed_runs(
    runtime: Dict[str, str], tmp_path: Path, running: StartRunning
) -> None:
    """The next run removes them, and no other file."""
    env = {**runtime, "TMPDIR": str(tmp_path)}
    ready = tmp_path / "ready"
    code = (
        "import os, signal\n"
        f"open({str(ready)!r} + '.new', 'w').write(str(os.getpid()))\n"
        f"os.rename({str(ready)!r} + '.new', {str(ready)!r})\n"
        "signal.pause()\n"
    )
    wait = (main_python(), "-c", code)
    alive = running("run", "-o", tmp_path / "a", "--", *wait, env=env)
    wait_for(ready.exists)
    ready.unlink()
    kept = run_files(tmp_path)
    killed = running("run", "-o", tmp_path / "b", "--", *wait, env=env)
    wait_for(ready.exists)
    killed.signal(signal.SIGKILL)
    killed.process.wait()
    os.kill(int(ready.read_text()), signal.SIGKILL)
    assert len(kept) == 1 and len(run_files(tmp_path)) == 2
    (tmp_path / "target").write_text("mine")
    (tmp_path / "gsprof-run.linked").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "gsprof-run.piped1")
    (tmp_path / "gsprof-run.longer1").write_text("mine")
    (tmp_path / "gsprof-run.with-1").write_text("mine")
    others = ["gsprof-run.linked", "gsprof-run.longer1", "gsprof-run.piped1", "gsprof-run.with-1"]
    if os.geteuid() == 0:
        (tmp_path / "gsprof-run.user01").write_text("mine")
        os.chown(tmp_path / "gsprof-run.user01", OWNER, OWNER)
        others.append("gsprof-run.user01")
    gsprof("run", "-o", tmp_path / "c", "--", sys.executable, "-c", "pass", env=env)
    assert run_files(tmp_path) == sorted(kept + others)
    alive.signal(signal.SIGTERM)
    alive.finish()
    assert run_files(tmp_path) == sorted(others)
