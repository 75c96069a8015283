# SPDX-License-Identifier: Apache-2.0
"""A process bears the name of the program that it runs after its last exec, everywhere."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

from conftest import NEEDS_EXTENSION, StartRunning
from support import PATIENCE_S, Profile, gsprof, main_python

# Works until it may end, so that its end is the test's choice.
LATER = """
import os, sys
def burn():
    while not os.path.exists(sys.argv[1]):
        sum(range(1000))
burn()
"""

# A child that is its parent's copy for a while, and then runs another program.
FORKING = """
import os, sys
go, python, later, stop = sys.argv[1:]
pid = os.fork()
if pid == 0:
    open(go).read()
    os.execv(python, [python, later, stop])
os.waitpid(pid, 0)
"""


class Scene:
    """The programs, and the files that let them go on: `go` is a FIFO, `stop` must exist."""

    def __init__(self, folder: Path, env: Dict[str, str]) -> None:
        self.env = env
        self.go = folder / "go"
        self.stop = folder / "stop"
        self.later = folder / "later.py"
        self.later.write_text(LATER)
        self.forking = folder / "forking.py"
        self.forking.write_text(FORKING)
        os.mkfifo(self.go)

    def shell(self) -> List[str]:
        """A shell that becomes the program when it is let go."""
        text = f'read line <"{self.go}"; exec "{main_python()}" "{self.later}" "{self.stop}"'
        return ["sh", "-c", text]

    def let_go(self) -> None:
        self.go.write_text("\n")

    def listed(self) -> Dict[int, str]:
        """The command of each process that `list` has, by pid."""
        rows = json.loads(gsprof("list", "--json", env=self.env).out)
        own = self.env["XDG_RUNTIME_DIR"]  # root sees everybody's
        return {row["pid"]: row["command"] for row in rows if row["path"].startswith(own)}


def wait_for(condition: Callable[[], Any]) -> Any:
    """What the condition gives once it is true; each look runs a program, and so is a pause."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
    raise AssertionError("it did not come true")


def check_run(folder: Path, pid: int, scene: Scene) -> None:
    """Every part of the run names the program, and none what it was before."""
    command = f"{main_python()} {scene.later} {scene.stop}"
    for name in ("meta.json", "profile.json"):
        listed = json.loads((folder / name).read_text())["processes"]
        assert [p["cmdline"] for p in listed if p["pid"] == pid] == [command], name
    report = json.loads(gsprof("report", folder, "-f", "json", env=scene.env).out)
    program = os.path.basename(os.path.realpath(main_python()))
    legends = {
        series["name"]
        for chart in report["charts"]
        for series in chart["series"]
        if series["name"].endswith(f" ({pid})")
    }
    assert legends in ({f"{program} ({pid})"}, {f"{os.path.basename(main_python())} ({pid})"})


@NEEDS_EXTENSION
def test_shell_that_becomes_a_program(
    runtime: Dict[str, str], tmp_path: Path, running: StartRunning
) -> None:
    scene = Scene(tmp_path, runtime)
    run = running("run", "-q", "-o", tmp_path / "run", "--", *scene.shell(), env=runtime)
    ((pid, before),) = wait_for(scene.listed).items()
    assert before.startswith("sh -c")
    # The shell has rows of its own before it is let go.
    wait_for(
        lambda: "sh" in gsprof("query", pid, "SELECT name FROM process.metrics", env=runtime).out
    )
    scene.let_go()
    wait_for(lambda: "later.py" in scene.listed()[pid] and "sh -c" not in scene.listed()[pid])
    wait_for(
        lambda: "burn" in gsprof("query", pid, "SELECT func FROM python.stack", env=runtime).out
    )
    # Metrics are taken once a second: the charts have the name of the last row.
    wait_for(
        lambda: "python"
        in gsprof("query", pid, "SELECT name FROM process.metrics", env=runtime).out
    )
    scene.stop.touch()
    assert run.finish().status == 0
    check_run(tmp_path / "run", pid, scene)


@NEEDS_EXTENSION
def test_child_that_execs_later(
    runtime: Dict[str, str], tmp_path: Path, running: StartRunning
) -> None:
    scene = Scene(tmp_path, runtime)
    python = main_python()
    argv = [python, scene.forking, scene.go, python, scene.later, scene.stop]
    run = running("run", "-q", "-o", tmp_path / "run", "--", *argv, env=runtime)
    # Parent and child, both by the parent's name.
    both = wait_for(lambda: len(scene.listed()) == 2 and scene.listed())
    assert all("forking.py" in command for command in both.values()), both
    scene.let_go()
    pid = wait_for(lambda: [pid for pid, c in scene.listed().items() if "forking" not in c])[0]
    parent = next(other for other in both if other != pid)
    # Metrics of the whole tree are in the rings of its root.
    sql = f"SELECT pid FROM process.metrics WHERE pid = {pid}"
    wait_for(lambda: str(pid) in gsprof("query", parent, sql, env=runtime).out)
    scene.stop.touch()
    assert run.finish().status == 0
    check_run(tmp_path / "run", pid, scene)


def test_native_recording_of_a_shell(tmp_path: Path, running: StartRunning) -> None:
    """A recording has an entry for each program that a process ran, by its own name."""
    scene = Scene(tmp_path, {})
    out = tmp_path / "out.json"
    argv = ["record", "--native", "--idle", "-o", out, "--", *scene.shell()]
    recording = running(*argv)
    recording.sampling()

    def so_far() -> List[Any]:
        """The entries of a file of what was recorded until now."""
        recording.signal(signal.SIGUSR1)
        line = recording.lines.next() or ""
        if "nothing is recorded yet" in line:
            return []
        path = next(
            path for path in reversed(sorted(tmp_path.glob("out.*.json"))) if path.name in line
        )
        return [row["cmdline"] for row in json.loads(path.read_text())["processes"]]

    assert wait_for(so_far)[0].startswith("sh -c")
    scene.let_go()
    wait_for(lambda: len(so_far()) > 1)
    scene.stop.touch()
    assert recording.finish().status == 0
    profile = Profile.load(out)
    assert "burn" in profile.names()
    assert len(profile.raw["processes"]) == 2
    assert profile.raw["processes"][1]["cmdline"].startswith(main_python())
