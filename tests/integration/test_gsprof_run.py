# SPDX-License-Identifier: Apache-2.0
"""gsprof run: a program with everything on, its children, its signals and its exit status."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Dict

import pytest
from conftest import StartRunning
from support import EXIT_NOEXEC, EXIT_USAGE, GSPROF, gsprof, main_python

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
    end = time.monotonic() + 0.7
    while time.monotonic() < end:
        sum(range(1000))
with gsprof.span("burning"):
    burn()
print(os.environ.get("GSPROF"), gsprof.is_enabled(), os.getpid(), flush=True)
if len(sys.argv) > 1:
    sys.exit(subprocess.call([sys.executable, sys.argv[0]]) or 7)
"""


def test_a_tree_of_processes(runtime: Dict[str, str], tmp_path: Path) -> None:
    """A shell, a program, its child: rows of both Pythons, the status, the summary, the folder."""
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    folder = tmp_path / "kept"
    command = f"{main_python()} {script} again; exit $?"
    result = gsprof("run", "-o", folder, "--", "sh", "-c", command, env=runtime, status=7)
    words = [line.split() for line in result.out.splitlines()]
    assert [line[:2] for line in words] == [["nested", "True"]] * 2, str(result)
    first, second = (int(line[2]) for line in words)
    assert "ended with status 7" in result.err and "burn (busy.py)" in result.err
    asked = re.search(r"gsprof query (\S+) '(.*)'", result.err)
    assert asked and Path(asked[1]) == folder and f"gsprof report {first}" in result.err
    for pid in (first, second):
        found = gsprof("query", pid, "SELECT name FROM python.span", "-f", "json", env=runtime)
        assert json.loads(found.out) == [{"name": "burning"}]
    hot = json.loads(gsprof("query", folder, asked[2], "-f", "json", env=runtime).out)
    assert any(row["func"] == "burn" for row in hot), hot
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
    one = running("run", "--", main_python(), "-c", code, env=runtime)
    said.read_text()
    one.signal(signal.SIGTERM)
    result = one.finish()
    assert result.status == 9 and "ended with status 9" in result.err


def test_misuse(runtime: Dict[str, str], tmp_path: Path) -> None:
    gsprof("run", status=EXIT_USAGE, env=runtime)
    gsprof("run", "--name", "../x", "--", "true", status=EXIT_USAGE, env=runtime, cwd=tmp_path)
    missing = gsprof("run", "--", "no-such-program", status=EXIT_NOEXEC, env=runtime)
    assert "no-such-program" in missing.err
    none = gsprof("run", "--name", "x", "--", "true", env=runtime, cwd=tmp_path)
    assert "nothing was recorded" in none.err or "no stack" in none.err, str(none)
    nowhere = {**runtime, "GSPROF_PYTHON_DIR": str(tmp_path)}
    assert "GSPROF_PYTHON_DIR" in gsprof("run", "--", "true", env=nowhere, status=None).err


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
    broken = gsprof("run", "--", *program, env=env)
    assert broken.out == "ran\n"
    assert "no spans, steps or modules of process" in broken.err, str(broken)
    assert f"OSError: two lines; try: PYTHONPATH={tmp_path} {python} -c" in broken.err
    # An option of Python keeps the package out: stacks were seen, nobody spoke.
    alone = gsprof("run", "--", python, "-I", "-c", SHORT, env=runtime)
    assert "gsprof inject PID" in alone.err, str(alone)
    chosen = gsprof("run", "--", *program, env={**runtime, "GSPROF": "other.py"})
    fine = gsprof("run", "--", *program, env=runtime)
    for result in (chosen, fine):
        assert "no spans" not in result.err, str(result)
