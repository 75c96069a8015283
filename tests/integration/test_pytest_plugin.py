# SPDX-License-Identifier: Apache-2.0
"""pytest --gsprof: the table, xdist workers, and that it never makes a test fail."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest
from conftest import NEEDS_EXTENSION
from support import PACKAGE, PATIENCE_S, gsprof, main_python


pytestmark = NEEDS_EXTENSION

TESTS = """
import sys, threading, time
import pytest

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def test_busy():
    burn(0.4)

def test_waits():
    threading.Event().wait(0.3)

@pytest.fixture
def slow():
    burn(0.2)
    yield
    burn(0.1)

def test_fixture(slow):
    pass

def test_fails():
    assert not "a failing test"

@pytest.mark.gsprof
def test_marked():
    burn(0.1)

def test_extension():
    print("loaded" if "gsprof._gsprof" in sys.modules else "not loaded")
"""


class PytestRun:
    """The exit status and the output of pytest."""

    def __init__(self, folder: Path, *args: str, **env: str) -> None:
        (folder / "test_it.py").write_text(TESTS)
        whole = {key: text for key, text in os.environ.items() if not key.startswith("PYTEST")}
        whole.update({"PYTHONPATH": str(PACKAGE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
        plugin = [] if "PYTEST_DISABLE_PLUGIN_AUTOLOAD" in env else ["-p", "gsprof.pytest_plugin"]
        plugin += ["-p", "no:cacheprovider"]
        done = subprocess.run(
            [main_python(), "-m", "pytest", *plugin, *args, "test_it.py"],
            cwd=folder,
            env={**whole, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
            check=False,
        )
        self.status = done.returncode
        self.output = done.stdout.decode("utf-8", "replace")
        self.folder = folder

    def rows(self) -> Dict[str, List[str]]:
        """Returns the lines of the table by test."""
        found = re.findall(r"^ *([\d.]+) +(\d+%|-)  test_it.py::(\w+) +(.*)$", self.output, re.M)
        return {name: [wall, cpu, where] for wall, cpu, name, where in found}


def test_every_test_has_its_row(tmp_path: Path) -> None:
    ran = PytestRun(tmp_path, "--gsprof")
    assert ran.status == 1 and "1 failed, 5 passed" in ran.output, ran.output
    rows = ran.rows()
    assert set(rows) >= {"test_busy", "test_waits", "test_fixture", "test_fails"}, ran.output
    assert float(rows["test_busy"][0]) >= 0.4 and "burn (test_it.py)" in rows["test_busy"][2]
    # Setup and teardown count for the test.
    assert float(rows["test_fixture"][0]) >= 0.3 and "burn" in rows["test_fixture"][2]
    assert int(rows["test_waits"][1].rstrip("%")) < 50 < int(rows["test_busy"][1].rstrip("%"))
    assert "wait (threading.py)" in rows["test_waits"][2], rows
    # The printed command works on the recording.
    assert "gsprof report gsprof-pytest/run" in ran.output
    sql = "SELECT phase, count(*) AS n FROM python.span GROUP BY phase ORDER BY phase"
    found = json.loads(gsprof("query", tmp_path / "gsprof-pytest/run", sql, "-f", "json").out)
    assert found == [{"phase": phase, "n": 6} for phase in ("call", "setup", "teardown")]


def test_pythonpath_is_enough(tmp_path: Path) -> None:
    """PYTHONPATH=build/python pytest --gsprof, as in the README."""
    ran = PytestRun(tmp_path, "--gsprof", "-k", "busy", PYTEST_DISABLE_PLUGIN_AUTOLOAD="")
    assert ran.status == 0 and "test_busy" in ran.rows(), ran.output


def test_only_requested_tests_are_profiled(tmp_path: Path) -> None:
    """Without the option, only marked tests are profiled; without marks, nothing is done."""
    (tmp_path / "kept" / "run").mkdir(parents=True)
    ran = PytestRun(tmp_path, "--gsprof-dir", "kept", "-k", "not fails and not fixture")
    assert ran.status == 0 and list(ran.rows()) == ["test_marked"], ran.output
    assert (tmp_path / "kept" / "run-2" / "meta.json").exists(), "older recordings are kept"
    quiet = PytestRun(tmp_path, "-k", "marker or extension")
    assert quiet.status == 0 and "gsprof" not in quiet.output, quiet.output
    assert not (tmp_path / "gsprof-pytest").exists()


@pytest.mark.parametrize("fault", ["no program", "no folder"])
def test_errors_are_printed_and_no_test_fails(fault: str, tmp_path: Path) -> None:
    folder, env = "out", {}
    if fault == "no program":
        env = {"GSPROF_PROGRAM": "/bin/false"}
    else:
        (tmp_path / "out").write_text("a file")
    ran = PytestRun(tmp_path, f"--gsprof={folder}", "-k", "marked or extension", **env)
    assert ran.status == 0 and "2 passed" in ran.output, ran.output
    assert "not everything was profiled" in ran.output


def test_ignored_interrupts(tmp_path: Path) -> None:
    """Background jobs of a script ignore SIGINT."""
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ran = PytestRun(tmp_path, "--gsprof", "-k", "busy")
    finally:
        signal.signal(signal.SIGINT, old)
    assert ran.status == 0 and "test_busy" in ran.rows(), ran.output


def test_workers_of_xdist(tmp_path: Path) -> None:
    pytest.importorskip("xdist", reason="needs python3-pytest-xdist")
    ran = PytestRun(tmp_path, "-p", "xdist.plugin", "--gsprof", "-n", "2", "-k", "not fails")
    assert ran.status == 0 and "5 passed" in ran.output, ran.output
    assert {"test_busy", "test_waits", "test_fixture"} <= set(ran.rows()), ran.output
    recorded = {path.name for path in (tmp_path / "gsprof-pytest").iterdir()}
    assert recorded == {"gw0", "gw1"}
