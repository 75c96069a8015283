# SPDX-License-Identifier: Apache-2.0
"""gsprof run: a program with everything on, its children, its signals and its exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Set

import pytest
from conftest import StartRunning
from support import EXIT_NOEXEC, EXIT_NOWRITE, EXIT_USAGE, GSPROF, gsprof, main_python

# <build>/src/cli/gsprof and <build>/python.
PACKAGE = GSPROF.parent.parent.parent / "python"

pytestmark = pytest.mark.skipif(
    not (PACKAGE / "gsprof" / "_gsprof.abi3.so").exists(),
    reason="this build has no Python extension",
)

BUSY = """
import os, subprocess, sys, time
import gsprof
def burn():
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        sum(range(1000))
with gsprof.span("burning"):
    burn()
print(os.environ.get("GSPROF"), gsprof.is_enabled(), os.getpid(), flush=True)
if len(sys.argv) > 2:
    sys.exit(subprocess.call([sys.executable, sys.argv[0], "0.1"]) or 7)
"""

WHOLE = {"meta.json", "manifest.json", "profile.gsp", "profile.json", "process.event.parquet"}


def files(folder: Path) -> Set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def ask(where: object, sql: str, env: Dict[str, str]) -> List[List[Any]]:
    text = gsprof("query", where, sql, "-f", "json", env=env).out
    return [list(row.values()) for row in json.loads(text)]


def test_a_tree_of_processes(runtime: Dict[str, str], tmp_path: Path) -> None:
    """A shell, a program, its child of a moment: rows of all, the status, the whole folder."""
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    command = f"{main_python()} {script} 0.7 again; exit $?"
    result = gsprof("run", "--", "sh", "-c", command, env=runtime, status=7, cwd=tmp_path)
    words = [line.split() for line in result.out.splitlines()]
    assert [line[:2] for line in words] == [["nested", "True"]] * 2, str(result)
    first, second = (int(line[2]) for line in words)
    assert "ended with status 7" in result.err and "burn" in result.err
    (folder,) = (tmp_path / "gsprof-runs").iterdir()
    assert folder.name.startswith("sh-") and f"gsprof-runs/{folder.name}" in result.err
    assert files(folder) >= WHOLE | {"python.span.parquet", "process.metrics.parquet"}
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["state"] == "complete" and meta["status"] == 7 and meta["signal"] is None
    assert meta["argv"] == ["sh", "-c", command] and meta["cwd"] == str(tmp_path)
    assert {first, second} <= {process["pid"] for process in meta["processes"]}
    assert 0 < meta["start_ns"] < meta["end_ns"]
    # The rings are gone: the folder has everything.
    alone = {"XDG_RUNTIME_DIR": str(tmp_path)}
    spans = ask(folder, "SELECT pid, name FROM python.span ORDER BY ts_ns", alone)
    assert spans == [[first, "burning"], [second, "burning"]]
    hot = ask(folder, "SELECT func FROM gsprof.hot_functions() LIMIT 3", alone)
    assert ["burn"] in hot, hot
    assert ask(folder, f"SELECT count(*) > 0 FROM process.metrics WHERE pid = {first}", alone) == [
        [True]
    ]
    profile = json.loads((folder / "profile.json").read_text())
    assert len(profile["samples"]) == meta["samples"] > 20
    assert not list(tmp_path.glob("gsprof-run.*"))


def test_signals_are_passed_on(
    runtime: Dict[str, str], tmp_path: Path, running: StartRunning
) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    code = (
        "import signal, sys\n"
        "def end(*_): sys.exit(9)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"open({str(said)!r}, 'w').close()\n"
        "while True: signal.pause()\n"
    )
    run = ("run", "-o", tmp_path / "kept", "--", main_python(), "-c", code)
    one = running(*run, env=runtime)
    said.read_text()
    one.signal(signal.SIGTERM)
    result = one.finish()
    assert result.status == 9 and "ended with status 9" in result.err


def test_names(runtime: Dict[str, str], tmp_path: Path) -> None:
    """A name is one run's: a second one is refused and changes nothing, --force replaces."""
    run = ("run", "-q", "--name", "base", "--no-metrics", "--no-stacks")
    quick = [main_python(), "-c", "pass"]
    gsprof(*run, "--", *quick, env=runtime, cwd=tmp_path)
    folder = tmp_path / "gsprof-runs" / "base"
    before = (folder / "meta.json").read_bytes()
    (folder / "notes.txt").write_text("mine")
    refused = gsprof(*run, "--", *quick, env=runtime, cwd=tmp_path, status=EXIT_NOWRITE)
    assert "gsprof-runs/base" in refused.err
    assert (folder / "meta.json").read_bytes() == before
    gsprof(*run, "--force", "--", *quick, env=runtime, cwd=tmp_path)
    assert (folder / "meta.json").read_bytes() != before
    assert files(folder) >= WHOLE | {"notes.txt"}
    # Two at one moment: one has the name, and the files are its own.
    both = [
        subprocess.Popen(
            [str(GSPROF), *run[:3], "pair", "--", *quick],
            cwd=tmp_path,
            env={**os.environ, **runtime},
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    assert sorted(one.wait() for one in both) == [0, EXIT_NOWRITE]
    meta = json.loads((tmp_path / "gsprof-runs" / "pair" / "meta.json").read_text())
    assert meta["state"] == "complete"
    # Nothing is left of a program that could not be started.
    gsprof("run", "--", "no-such-program", status=EXIT_NOEXEC, env=runtime, cwd=tmp_path)
    assert files(tmp_path / "gsprof-runs") == {"base", "pair"}


def test_misuse(runtime: Dict[str, str], tmp_path: Path) -> None:
    gsprof("run", status=EXIT_USAGE, env=runtime)
    gsprof("run", "--name", "../x", "--", "true", status=EXIT_USAGE, env=runtime, cwd=tmp_path)
    both = ("run", "--torch", "on", "--no-torch", "--", "true")
    gsprof(*both, status=EXIT_USAGE, env=runtime, cwd=tmp_path)
    missing = gsprof("run", "--", "no-such-program", status=EXIT_NOEXEC, env=runtime, cwd=tmp_path)
    assert "no-such-program" in missing.err
    none = gsprof("run", "--name", "x", "--", "true", env=runtime, cwd=tmp_path)
    assert "no stack" in none.err, str(none)
    nowhere = {**runtime, "GSPROF_PYTHON_DIR": str(tmp_path)}
    lost = gsprof("run", "--", "true", env=nowhere, status=None, cwd=tmp_path)
    assert "GSPROF_PYTHON_DIR" in lost.err


SHORT = "import time\nend = time.monotonic() + 0.4\nwhile time.monotonic() < end: sum(range(999))\n"


def test_what_is_missing_is_told(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The program runs on without the package; who counts on its rows hears of it."""
    start = tmp_path / "start"
    start.mkdir()
    hook = PACKAGE / "start" / "sitecustomize.py"
    (start / "sitecustomize.py").write_text(hook.read_text())
    (tmp_path / "gsprof").mkdir()
    (tmp_path / "gsprof" / "__init__.py").write_text("raise OSError('two\\nlines')\n")
    python = main_python()
    program = [python, "-c", "print('ran')"]
    env = {**runtime, "GSPROF_PYTHON_DIR": str(tmp_path)}
    broken = gsprof("run", "--", *program, env=env, cwd=tmp_path)
    assert broken.out == "ran\n"
    assert "no spans, steps or modules of process" in broken.err, str(broken)
    assert f"OSError: two lines; try: PYTHONPATH={tmp_path} {python} -c" in broken.err
    # An option of Python keeps the package out: stacks were seen, nobody spoke.
    alone = gsprof("run", "--", python, "-I", "-c", SHORT, env=runtime, cwd=tmp_path)
    assert "gsprof inject PID" in alone.err, str(alone)
    own = {**runtime, "GSPROF": "other.py"}
    chosen = gsprof("run", "--", *program, env=own, cwd=tmp_path)
    fine = gsprof("run", "--", *program, env=runtime, cwd=tmp_path)
    for result in (chosen, fine):
        assert "no spans" not in result.err, str(result)
