# SPDX-License-Identifier: Apache-2.0
"""--subprocesses: the whole tree, whoever joins it and whoever leaves it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Dict, List, Set

from conftest import StartRunning, StartTarget
from support import (
    Profile,
    Python,
    gsprof,
    has_any,
    main_python,
    program,
    record_until,
    wait_for,
)

EARLY = {"in_shell", "by_exec", "by_fork", "by_spawn"}

# A worker that names itself as DataLoader's workers do, below a rank of a launcher.
NAMED = """
import ctypes, json, os, time
def busy():
    while True:
        pass
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    ctypes.CDLL(None).prctl(15, b"pt_data_worker", 0, 0, 0)
    os.write(write, b"x")
    busy()
os.read(read, 1)
print(json.dumps({"pid": os.getpid(), "worker": pid}), flush=True)
time.sleep(600)
"""


def test_tree(start: StartTarget, running: StartRunning, tmp_path: Path) -> None:
    """Through a shell, by exec, fork and spawn; one that starts later; one not Python."""
    target = start("launcher.py", tmp_path)
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-s", "-r", "200")
    one.sampling()
    assert target.go()["late"]
    one.until_seen(lambda so_far: EARLY | {"late"} <= set(so_far.names()))
    one.signal(signal.SIGINT)
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
    profile = record_until(has_any, target.pid, tmp_path / "p.json", "-i", rate_hz=100)
    assert {sample.pid for sample in profile.samples} == {target.pid}


def test_who_is_left_out_is_named(start: StartTarget, tmp_path: Path) -> None:
    """Once, with the option, and not when the option is given."""
    script = tmp_path / "named.py"
    script.write_text(NAMED)
    target = start(str(script))
    args = ["record", target.pid, "-i", "-d", "0.2", "--force", "-o", tmp_path / "p.svg"]
    said = gsprof(*args).err
    told = [line for line in said.splitlines() if "--subprocesses" in line]
    assert len(told) == 1 and f": {target.facts['worker']} (pt_data_worker: " in told[0], said
    assert "--subprocesses" not in gsprof(*args, "-s").err
    assert gsprof(*args, "-q").err == ""


# A child that is like its parent at first, and runs another program then.
FORKS_AND_RUNS = """
import os, sys, time
started, go, *words = sys.argv[1:]
pid = os.fork()
if pid:
    with open(started + ".part", "w") as file:
        file.write(str(pid))
    os.rename(started + ".part", started)
    os.waitpid(pid, 0)
else:
    while not os.path.exists(go):
        time.sleep(0.01)
    os.execv(sys.executable, [sys.executable, *words])
"""


def test_who_is_left_out_of_a_program(tmp_path: Path, running: StartRunning) -> None:
    """Children of a program that starts them later are named at the end, as they are then."""
    started, go, stop = (tmp_path / name for name in ("started", "go", "stop"))
    words = [main_python(), "-c", FORKS_AND_RUNS, started, go, program("exits.py"), stop, "0"]
    one = running("record", "-i", "-o", tmp_path / "p.json", "--", *words)
    one.sampling()
    wait_for(started.exists)

    def others_are_looked_for() -> None:
        """They are when the recording is twice as long as it was."""
        so_far: List[float] = []

        def is_long() -> bool:
            profile = one.so_far()
            so_far.append(profile.raw["duration"] if profile else 0)
            return so_far[-1] > 2 * so_far[0] + 1

        wait_for(is_long)

    others_are_looked_for()
    go.touch()
    child = Path("/proc") / started.read_text()
    wait_for(lambda: b"exits.py" in (child / "cmdline").read_bytes())
    others_are_looked_for()
    stop.touch()
    done = one.finish()
    assert done.status == 0 and "Not recorded without --subprocesses: " in done.err, done
    assert "exits.py" in done.err.split("--subprocesses: ")[1]


def test_dump_of_the_tree(start: StartTarget, tmp_path: Path) -> None:
    target = start("launcher.py", tmp_path)
    names: Set[str] = set()

    def all_are_seen() -> bool:
        raw = json.loads(gsprof("dump", "-p", target.pid, "-s", "--json").out)
        names.update(frame["name"] for thread in raw for frame in thread["frames"])
        return names >= EARLY

    # The children are on their way to where they will be.
    wait_for(all_are_seen, str(names))


def test_workers_have_their_names(start: StartTarget, tmp_path: Path) -> None:
    """In recordings and in dumps, with the rank before them."""
    script = tmp_path / "named.py"
    script.write_text(NAMED)
    target = start(str(script), env={"RANK": "3"})
    profile = record_until(has_any, target.pid, tmp_path / "p.json", "-s")
    names = {process["pid"]: process["name"] for process in profile.raw["processes"]}
    worker = names[target.facts["worker"]]
    assert worker.startswith("rank 3: pt_data_worker: python"), names
    text = gsprof("dump", "-s", target.pid).out
    assert f"Process {target.facts['worker']}: rank 3: pt_data_worker: " in text, text
    assert f"Process {target.pid}: rank 3: {main_python()} " in text, text
    raw = json.loads(gsprof("dump", "-s", "-j", target.pid).out)
    said = {row["pid"]: row["process_info"]["process_name"] for row in raw}
    assert said[target.facts["worker"]] == "pt_data_worker"


def test_launched_through_a_shell(running: StartRunning, tmp_path: Path) -> None:
    """The program itself need not be Python when the tree is asked for."""
    path = tmp_path / "p.json"
    stop = tmp_path / "stop"
    script = f"{main_python()} {program('exits.py')} {stop} 0; exit 3"
    one = running("record", "-o", path, "-s", "-r", "200", "--", "/bin/sh", "-c", script)
    one.sampling()
    one.until_seen(lambda so_far: "busy" in so_far.names())
    stop.touch()
    done = one.finish()
    assert done.status == 3, done
    assert "busy" in Profile.load(path).names()


def test_fork_storm(
    python: Python, start: StartTarget, running: StartRunning, tmp_path: Path
) -> None:
    """Children that die as fast as they are born: an end, a profile, a count."""
    stop = tmp_path / "stop"
    target = start("forkstorm.py", stop, python=python)
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-s", "-r", "500")
    one.sampling()
    one.until_seen(lambda so_far: any("storm" in sample.names for sample in so_far.samples))
    stop.touch()
    done = one.finish()
    assert done.status == 0, done
    assert target.hear()["forks"] >= 50
    profile = Profile.load(path)
    assert any("storm" in sample.names for sample in profile.samples)
    # A fork of Python is Python, also one that ended before it could be looked at.
    assert profile.losses["skipped"] == 0


def test_children_that_nobody_waits_for(running: StartRunning, tmp_path: Path) -> None:
    """They have ended as what they were, and are not met again as something that is not Python."""
    stop = tmp_path / "stop"
    code = "import os, subprocess, sys\n"
    code += "children = [subprocess.Popen([sys.executable, '-c', 'pass']) for _ in range(3)]\n"
    code += "for child in children: os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)\n"
    code += "def unburied():\n    while not os.path.exists(sys.argv[1]): pass\n"
    code += "unburied()\n"
    path = tmp_path / "p.json"
    one = running("record", "-o", path, "-s", "--", main_python(), "-c", code, stop)
    one.sampling()
    # The whole tree is looked through once a second.
    one.until_seen(lambda so_far: sum("unburied" in look.names for look in so_far.samples) >= 250)
    stop.touch()
    assert one.finish().status == 0
    assert Profile.load(path).losses["skipped"] == 0


def test_exec_of_another_program(running: StartRunning, tmp_path: Path) -> None:
    """The target becomes another interpreter under our eyes: no nonsense, no crash."""
    path = tmp_path / "p.json"
    go = tmp_path / "go"
    stop = tmp_path / "stop"
    script = (
        "import os, sys\n"
        f"while not os.path.exists({str(go)!r}): pass\n"
        f"os.execv(sys.executable, [sys.executable, {program('exits.py')!r}, {str(stop)!r}, '4'])"
    )
    one = running("record", "-o", path, "-r", "200", "--", main_python(), "-c", script)
    one.sampling()
    one.seen(10)
    go.touch()
    one.until_seen(lambda so_far: "busy" in so_far.names())
    stop.touch()
    done = one.finish()
    assert done.status == 4, done
    assert "busy" in Profile.load(path).names()
