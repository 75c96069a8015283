# SPDX-License-Identifier: Apache-2.0
"""gsprof config PID: settings of the agent in a process, and whether it has applied them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import StartTarget
from support import EXIT_NOFILE, EXIT_NOPROC, EXIT_USAGE, GSPROF, Json, Target, gsprof

# <build>/src/cli/gsprof and <build>/src/agent/libgsprof_agent.so.
AGENT = GSPROF.parent.parent / "agent" / "libgsprof_agent.so"

pytestmark = pytest.mark.skipif(not AGENT.exists(), reason="this build has no agent to load")


@pytest.fixture(autouse=True)
def fixture_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture(name="target")
def fixture_target(start: StartTarget) -> Target:
    """Applies settings when the test lets it continue."""
    return start("agent_settings.py", AGENT)


@pytest.fixture(name="eager")
def fixture_eager(start: StartTarget) -> Target:
    """Applies settings at once."""
    return start("agent_settings.py", AGENT, "eager")


def settings_of(document: Json) -> Json:
    return {row["name"]: row for row in document["settings"]}


def test_all_settings_with_their_meaning(target: Target) -> None:
    document = json.loads(gsprof("config", target.pid, "--json").out)
    assert (document["pid"], document["state"], document["applied"]) == (
        target.pid,
        ["loaded"],
        True,
    )
    rows = settings_of(document)
    rate = rows["gsprof.torch.rate"]
    assert (rate["value"], rate["type"], rate["default"]) == ("1", "number", "1")
    assert all(row["description"] for row in rows.values())
    table = gsprof("config", target.pid).out
    assert all(name in table for name in rows)
    some = gsprof(target.pid, "config", "gsprof.torch.r").out
    assert "gsprof.torch.rate" in some and "gsprof.torch.layers" not in some


def test_a_change_that_is_applied_at_once(eager: Target) -> None:
    changed = gsprof(eager.pid, "config", "gsprof.torch=yes", "torch.rate=0.250")
    assert "applied the change" in changed.err
    document = json.loads(gsprof("config", eager.pid, "--json").out)
    rows = settings_of(document)
    assert rows["gsprof.torch"]["value"] == "on"
    assert rows["gsprof.torch.rate"]["value"] == "0.25"
    assert eager.go()["rate"] == "0.25"
    query = "SELECT value FROM gsprof.setting WHERE name = 'gsprof.torch.rate' ORDER BY ts_ns"
    found = json.loads(gsprof("query", eager.pid, query, "-f", "json").out)
    assert [row["value"] for row in found] == ["1", "0.25"]


def test_a_change_that_is_applied_later(target: Target) -> None:
    changed = gsprof("config", target.pid, "torch.rate=0.5", "--json")
    assert "not applied within a second" in changed.err
    document = json.loads(changed.out)
    assert document["applied"] is False and list(settings_of(document)) == ["gsprof.torch.rate"]
    assert target.go()["rate"] == "0.5"
    assert json.loads(gsprof("config", target.pid, "--json").out)["applied"] is True


def test_invalid_settings(target: Target) -> None:
    wrong = gsprof("config", target.pid, "spans=off", "torch.rat=1", status=EXIT_USAGE)
    assert f"gsprof config {target.pid} gsprof.torch.rate" in wrong.err
    odd = gsprof("config", target.pid, "torch.layers=enc(ode", status=EXIT_USAGE).err
    assert "torch.layers must be a regular expression" in odd and "( is not closed" in odd
    for word in ("torch.rate=1.5", "torch=maybe", "torch.modules=none", "=1", "torch.rate=1 x"):
        gsprof("config", target.pid, word, status=EXIT_USAGE)
    gsprof("config", target.pid, "torch", "spans=off", status=EXIT_USAGE)
    gsprof("config", target.pid, "nosuch", status=EXIT_USAGE)
    # A key without a process or server: the message asks for one.
    for key, owner, endpoint in (
        ("ring.rows", "a PID or HOST:PORT", "PID"),
        ("gsprof.torch.rate", "a PID", "PID"),
        ("query_rows", "HOST:PORT", "localhost:8091"),
    ):
        alone = gsprof("config", key, status=EXIT_USAGE).err
        assert f"config needs {owner} before the setting {key}" in alone, alone
        assert f"gsprof config {endpoint} {key}\n" in alone, alone
    # If one of several settings is invalid, none is applied.
    rows = settings_of(json.loads(gsprof("config", target.pid, "--json").out))
    assert rows["gsprof.spans"]["value"] == "on"


def test_ring_size(start: StartTarget) -> None:
    """The setting is listed, read from the environment, and refused with the allowed range."""
    target = start("agent_settings.py", AGENT, env={"GSPROF_RING_ROWS": "500"})
    document = json.loads(gsprof("config", target.pid, "--json").out)
    row = settings_of(document)["gsprof.ring.rows"]
    assert (row["value"], row["default"], row["type"]) == ("500", "0", "number")
    assert document["applied"] and "without rows yet" in row["description"]
    gsprof("config", target.pid, "ring.rows=700")
    assert "700" in gsprof("config", target.pid, "ring").out
    for wrong in ("-1", "10000001", "many"):
        bad = gsprof("config", target.pid, f"ring.rows={wrong}", status=EXIT_USAGE)
        assert "gsprof.ring.rows must be" in bad.err
    assert (
        "between 0 and 10000000"
        in gsprof("config", target.pid, "ring.rows=10000001", status=EXIT_USAGE).err
    )


def test_invalid_ring_size_in_the_environment(start: StartTarget) -> None:
    """The agent prints nothing: gsprof config reports the invalid value."""
    target = start("agent_settings.py", AGENT, env={"GSPROF_RING_ROWS": "many"})
    asked = gsprof("config", target.pid, "ring")
    why = "gsprof.ring.rows must be a whole number, not 'many'"
    begin = f"gsprof: process {target.pid} ignores GSPROF_RING_ROWS in its environment: {why}"
    assert f"{begin}; it keeps the default of 10000 rows\n" in asked.err
    assert f"{begin}; it keeps 700 rows\n" in gsprof("config", target.pid, "ring.rows=700").err
    assert gsprof("config", target.pid, "torch").err == ""
    assert gsprof("-q", "config", target.pid, "ring").err == ""


def test_processes_without_an_agent(target: Target) -> None:
    none = gsprof("config", os.getpid(), status=EXIT_NOFILE)
    assert f"gsprof inject {os.getpid()}" in none.err
    os.kill(target.pid, signal.SIGKILL)
    target.process.wait()
    ended = gsprof("config", target.pid, "torch=on", status=EXIT_NOPROC)
    assert "has exited" in ended.err
    gsprof("config", 2**30, status=EXIT_NOPROC)


def test_a_page_that_is_cut_meanwhile(target: Target, tmp_path: Path) -> None:
    """The owner of a control page truncates it while gsprof changes it."""
    page = next(tmp_path.glob(f"gsprof/{target.pid}-*/control"))
    whole = page.read_bytes()
    page.unlink()  # the agent keeps its own
    page.write_bytes(whole)
    cut = (
        "import os, sys\n"
        "path, whole = sys.argv[1], open(sys.argv[1], 'rb').read()\n"
        "print('up', flush=True)\n"
        "fd = os.open(path, os.O_RDWR)\n"
        "while True:\n"
        "    os.ftruncate(fd, 0)\n"
        "    os.pwrite(fd, whole, 0)\n"
    )
    cutter = subprocess.Popen([sys.executable, "-c", cut, str(page)], stdout=subprocess.PIPE)
    try:
        assert cutter.stdout is not None and cutter.stdout.readline() == b"up\n"
        for i in range(20):
            # Any answer, but no death by SIGBUS.
            gsprof("config", target.pid, f"torch.rate=0.{i + 10}", status=None)
    finally:
        cutter.kill()
        cutter.wait()
