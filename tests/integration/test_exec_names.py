# SPDX-License-Identifier: Apache-2.0
"""A process has the name of the program that it runs after its last exec, in every output."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Dict, List

from conftest import NEEDS_EXTENSION, StartRunning
from support import GSPROF, Lines, Profile, gsprof, main_python, wait_for

# Works until the test creates a file.
LATER = """
import os, sys
def burn():
    while not os.path.exists(sys.argv[1]):
        sum(range(1000))
burn()
"""

# A child that is a copy of its parent for a while and then runs another program.
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
    """The programs and the files that control them. They wait for a line from the FIFO `go` and end
    when `stop` exists."""

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
        """A shell that waits for `go` and then executes the program."""
        text = f'read line <"{self.go}"; exec "{main_python()}" "{self.later}" "{self.stop}"'
        return ["sh", "-c", text]

    def release(self) -> None:
        self.go.write_text("\n")

    def listed(self) -> Dict[int, str]:
        """Returns the command of each process in the output of `list`, by pid."""
        rows = json.loads(gsprof("list", "--json", env=self.env).out)
        own = self.env["XDG_RUNTIME_DIR"]  # root sees the processes of all users
        return {row["pid"]: row["command"] for row in rows if row["path"].startswith(own)}


def check_run(folder: Path, pid: int, scene: Scene) -> None:
    """Checks that every file of the run has the name of the program, not the one before exec."""
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
    # The shell has rows before it executes the program.
    wait_for(
        lambda: "sh" in gsprof("query", pid, "SELECT name FROM process.metrics", env=runtime).out
    )
    scene.release()
    wait_for(lambda: "later.py" in scene.listed()[pid] and "sh -c" not in scene.listed()[pid])
    wait_for(
        lambda: "burn" in gsprof("query", pid, "SELECT func FROM python.stack", env=runtime).out
    )
    # Metrics are collected once a second: the charts use the name of the last row.
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
    # Parent and child, both with the parent's name.
    both = wait_for(lambda: len(scene.listed()) == 2 and scene.listed())
    assert all("forking.py" in command for command in both.values()), both
    scene.release()
    pid = wait_for(lambda: [pid for pid, c in scene.listed().items() if "forking" not in c])[0]
    parent = next(other for other in both if other != pid)
    # The rings of the root process have the metrics of the whole tree.
    sql = f"SELECT pid FROM process.metrics WHERE pid = {pid}"
    wait_for(lambda: str(pid) in gsprof("query", parent, sql, env=runtime).out)
    scene.stop.touch()
    assert run.finish().status == 0
    check_run(tmp_path / "run", pid, scene)


def test_native_recording_of_a_shell(tmp_path: Path, running: StartRunning) -> None:
    """A recording has one entry for each program that a process ran, with its name."""
    scene = Scene(tmp_path, {})
    out = tmp_path / "out.json"
    argv = ["record", "--native", "--idle", "-o", out, "--", *scene.shell()]
    recording = running(*argv)
    recording.wait_until_recording()

    assert wait_for(recording.interim_profile).raw["processes"][0]["cmdline"].startswith("sh -c")
    scene.release()
    recording.wait_until_enough(lambda so_far: "burn" in so_far.names())
    scene.stop.touch()
    assert recording.finish().status == 0
    profile = Profile.load(out)
    assert "burn" in profile.names()
    assert len(profile.raw["processes"]) == 2
    assert profile.raw["processes"][1]["cmdline"].startswith(main_python())


def test_top_of_a_python_that_execs(tmp_path: Path) -> None:
    """Each table has the current name of the process."""
    scene = Scene(tmp_path, {})
    python = main_python()
    wait = "import os, sys; open(sys.argv[1]).read(); os.execv(sys.argv[2], sys.argv[2:])"
    argv = [python, "-c", wait, str(scene.go), python, str(scene.later), str(scene.stop)]
    with subprocess.Popen(argv) as process:
        top = subprocess.Popen(
            [str(GSPROF), "top", "-p", str(process.pid), "--json", "--idle", "--delay", "0.2"],
            stdout=subprocess.PIPE,
        )
        assert top.stdout is not None
        try:
            lines = Lines(top.stdout.fileno())
            assert wait in json.loads(lines.next() or "{}")["command"]
            scene.release()
            program = f"{python} {scene.later}"[:100]  # long titles are truncated
            wait_for(lambda: json.loads(lines.next() or "{}")["command"].startswith(program))
        finally:
            top.kill()
            top.communicate()
            scene.stop.touch()
