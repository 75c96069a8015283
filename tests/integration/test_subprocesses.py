# SPDX-License-Identifier: Apache-2.0
"""--subprocesses: the whole process tree, while processes start and end."""

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

# A worker that sets its own name, as DataLoader's workers do, below a rank of a launcher.
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
    """Children through a shell, by exec, fork and spawn; one starts later; one is not Python."""
    target = start("launcher.py", tmp_path)
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-s", "-r", "200")
    one.wait_until_recording()
    assert target.go()["late"]
    one.wait_until_enough(lambda so_far: EARLY | {"late"} <= set(so_far.names()))
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


def test_without_the_option_only_one_process(start: StartTarget, tmp_path: Path) -> None:
    target = start("launcher.py", tmp_path)
    profile = record_until(has_any, target.pid, tmp_path / "p.json", "-i", rate_hz=100)
    assert {sample.pid for sample in profile.samples} == {target.pid}


def test_unrecorded_children_are_named(start: StartTarget, tmp_path: Path) -> None:
    """Printed once with the option to use, and not if the option is given."""
    script = tmp_path / "named.py"
    script.write_text(NAMED)
    target = start(str(script))
    args = ["record", target.pid, "-i", "-d", "0.2", "--force", "-o", tmp_path / "p.svg"]
    printed = gsprof(*args).err
    warnings = [line for line in printed.splitlines() if "--subprocesses" in line]
    assert (
        len(warnings) == 1 and f": {target.facts['worker']} (pt_data_worker: " in warnings[0]
    ), printed
    assert "--subprocesses" not in gsprof(*args, "-s").err
    assert gsprof(*args, "-q").err == ""


# A child that starts as a copy of its parent and then runs another program.
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


def test_unrecorded_children_of_a_launched_program(tmp_path: Path, running: StartRunning) -> None:
    """Children that start during the recording are named at its end, by their last program."""
    started, go, stop = (tmp_path / name for name in ("started", "go", "stop"))
    words = [main_python(), "-c", FORKS_AND_RUNS, started, go, program("exits.py"), stop, "0"]
    one = running("record", "-i", "-o", tmp_path / "p.json", "--", *words)
    one.wait_until_recording()
    wait_for(started.exists)

    def wait_for_search() -> None:
        """gsprof searches again when the recording is twice as long as at the last search."""
        so_far: List[float] = []

        def is_long() -> bool:
            profile = one.interim_profile()
            so_far.append(profile.raw["duration"] if profile else 0)
            return so_far[-1] > 2 * so_far[0] + 1

        wait_for(is_long)

    wait_for_search()
    go.touch()
    child = Path("/proc") / started.read_text()
    wait_for(lambda: b"exits.py" in (child / "cmdline").read_bytes())
    wait_for_search()
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

    # The children may not have reached their functions yet.
    wait_for(all_are_seen, str(names))


def test_workers_have_their_names(start: StartTarget, tmp_path: Path) -> None:
    """In recordings and dumps, after the rank."""
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
    printed = {row["pid"]: row["process_info"]["process_name"] for row in raw}
    assert printed[target.facts["worker"]] == "pt_data_worker"


def test_launched_through_a_shell(running: StartRunning, tmp_path: Path) -> None:
    """With --subprocesses, the launched program need not be Python."""
    path = tmp_path / "p.json"
    stop = tmp_path / "stop"
    script = f"{main_python()} {program('exits.py')} {stop} 0; exit 3"
    one = running("record", "-o", path, "-s", "-r", "200", "--", "/bin/sh", "-c", script)
    one.wait_until_recording()
    one.wait_until_enough(lambda so_far: "busy" in so_far.names())
    stop.touch()
    done = one.finish()
    assert done.status == 3, done
    assert "busy" in Profile.load(path).names()


def test_fork_storm(
    python: Python, start: StartTarget, running: StartRunning, tmp_path: Path
) -> None:
    """Children that end as soon as they start: the recording ends, has samples and counts them."""
    stop = tmp_path / "stop"
    target = start("forkstorm.py", stop, python=python)
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-s", "-r", "500")
    one.wait_until_recording()
    one.wait_until_enough(lambda so_far: any("storm" in sample.names for sample in so_far.samples))
    stop.touch()
    done = one.finish()
    assert done.status == 0, done
    assert target.read_facts()["forks"] >= 50
    profile = Profile.load(path)
    assert any("storm" in sample.names for sample in profile.samples)
    # A fork of Python is Python, even if it ended before it could be sampled.
    assert profile.losses["skipped"] == 0


def test_zombies(running: StartRunning, tmp_path: Path) -> None:
    """Zombies keep their type and are not counted as processes without Python."""
    stop = tmp_path / "stop"
    code = "import os, subprocess, sys\n"
    code += "children = [subprocess.Popen([sys.executable, '-c', 'pass']) for _ in range(3)]\n"
    code += "for child in children: os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)\n"
    code += "def wait_for_stop():\n    while not os.path.exists(sys.argv[1]): pass\n"
    code += "wait_for_stop()\n"
    path = tmp_path / "p.json"
    one = running("record", "-o", path, "-s", "--", main_python(), "-c", code, stop)
    one.wait_until_recording()
    # gsprof scans the whole tree once a second.
    one.wait_until_enough(
        lambda so_far: sum("wait_for_stop" in sample.names for sample in so_far.samples) >= 250
    )
    stop.touch()
    assert one.finish().status == 0
    assert Profile.load(path).losses["skipped"] == 0


def test_exec_of_another_program(running: StartRunning, tmp_path: Path) -> None:
    """The target becomes another interpreter during the recording."""
    path = tmp_path / "p.json"
    go = tmp_path / "go"
    stop = tmp_path / "stop"
    script = (
        "import os, sys\n"
        f"while not os.path.exists({str(go)!r}): pass\n"
        f"os.execv(sys.executable, [sys.executable, {program('exits.py')!r}, {str(stop)!r}, '4'])"
    )
    one = running("record", "-o", path, "-r", "200", "--", main_python(), "-c", script)
    one.wait_until_recording()
    one.wait_for_samples(10)
    go.touch()
    one.wait_until_enough(lambda so_far: "busy" in so_far.names())
    stop.touch()
    done = one.finish()
    assert done.status == 4, done
    assert "busy" in Profile.load(path).names()
