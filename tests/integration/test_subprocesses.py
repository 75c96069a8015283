# SPDX-License-Identifier: Apache-2.0
"""--subprocesses: the whole tree, whoever joins it and whoever leaves it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Dict, Set

from conftest import StartRunning, StartTarget
from support import PATIENCE_S, Profile, Python, gsprof, main_python, program

EARLY = {"in_shell", "by_exec", "by_fork", "by_spawn"}


def test_tree(start: StartTarget, running: StartRunning, tmp_path: Path) -> None:
    """Through a shell, by exec, fork and spawn; one that starts later; one not Python."""
    target = start("launcher.py", tmp_path)
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-s", "-r", "200", "-d", "2.5")
    one.sampling()
    assert target.go()["late"]
    done = one.finish()
    assert done.status == 0, done
    profile = Profile.load(path)
    names = set(profile.names())
    assert not (EARLY | {"late"}) - names, names
    where: Dict[str, Set[int]] = {}
    for sample in profile.samples:
        for name in EARLY | {"late"}:
            if name in sample.names:
                where.setdefault(name, set()).add(sample.pid)
    assert all(len(pids) == 1 for pids in where.values()), where
    assert len(set.union(*where.values())) == 5
    assert profile.losses["skipped"] >= 1


def test_without_it_only_the_one(start: StartTarget, tmp_path: Path) -> None:
    target = start("launcher.py", tmp_path)
    path = tmp_path / "p.json"
    gsprof("record", "-p", target.pid, "-o", path, "-i", "-d", "0.5")
    assert {sample.pid for sample in Profile.load(path).samples} == {target.pid}


def test_dump_of_the_tree(start: StartTarget, tmp_path: Path) -> None:
    target = start("launcher.py", tmp_path)
    names: Set[str] = set()
    # The children are on their way to where they will be.
    deadline = time.monotonic() + PATIENCE_S
    while not names >= EARLY and time.monotonic() < deadline:
        raw = json.loads(gsprof("dump", "-p", target.pid, "-s", "--json").out)
        names |= {frame["name"] for thread in raw for frame in thread["frames"]}
    assert names >= EARLY


def test_launched_through_a_shell(tmp_path: Path) -> None:
    """The program itself need not be Python when the tree is asked for."""
    path = tmp_path / "p.json"
    script = f"{main_python()} {program('exits.py')} 0.6 0; exit 3"
    gsprof("record", "-o", path, "-s", "-r", "200", "--", "/bin/sh", "-c", script, status=3)
    assert "busy" in Profile.load(path).names()


def test_fork_storm(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Children that die as fast as they are born: an end, a profile, a count."""
    target = start("forkstorm.py", "0.8", python=python)
    path = tmp_path / "p.json"
    gsprof("record", "-p", target.pid, "-o", path, "-s", "-r", "500", "-d", "20")
    profile = Profile.load(path)
    assert target.hear()["forks"] >= 50
    assert any("storm" in sample.names for sample in profile.samples)


def test_exec_of_another_program(start: StartTarget, tmp_path: Path) -> None:
    """The target becomes another interpreter under our eyes: no nonsense, no crash."""
    path = tmp_path / "p.json"
    script = (
        "import os, sys, time\n"
        "end = time.time() + 0.4\n"
        "while time.time() < end: pass\n"
        f"os.execv(sys.executable, [sys.executable, {program('exits.py')!r}, '0.6', '4'])"
    )
    gsprof("record", "-o", path, "-r", "200", "--", main_python(), "-c", script, status=4)
    profile = Profile.load(path)
    assert "busy" in profile.names(), profile.names()
