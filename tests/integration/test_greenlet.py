# SPDX-License-Identifier: Apache-2.0
"""Greenlets: a dump has the whole stacks of suspended greenlets and the parents of the running one,
and a recording never mixes two greenlets."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple

import pytest

from conftest import StartTarget
from greenlets import SYSTEM, environment, has_module
from support import (
    Json,
    Profile,
    Python,
    Target,
    check_rare,
    gsprof,
    main_python,
    record_until,
    wait_for,
)


@pytest.fixture(scope="module")
def greenlet_env(python: Python) -> Dict[str, str]:
    """The environment variables with which an interpreter can import greenlet."""
    if python.label.split("-")[0].endswith("t"):
        pytest.skip("the garbage collector of free-threaded builds has no lists")
    try:
        return environment(python)
    except LookupError as error:
        pytest.skip(str(error))


def threads_of(pid: int, *args: object) -> Dict[str, Json]:
    threads: List[Json] = json.loads(gsprof("dump", "--json", "-p", pid, *args).out)
    return {thread["thread_name"]: thread for thread in threads}


def names(task: Json) -> Tuple[str, ...]:
    return tuple(frame["name"].rsplit(".", 1)[-1] for frame in task["frames"])


def check_frames(target: Target) -> None:
    threads = threads_of(target.pid)
    assert set(threads) == {"MainThread", "other"}
    found = {names(task): task for task in threads["MainThread"]["tasks"]}
    assert set(found) == {
        ("deep", "deep", "deep", "deep", "first"),
        ("deep", "deep", "through_sorted", "second"),
        ("between",),
        ("main", "<module>"),
        (),
    }
    assert all(task["kind"] == "greenlet" for task in found.values())
    running = found.pop(())
    assert {task["state"] for task in found.values()} == {"suspended"}
    assert running["state"] == "running"
    own = found[("deep", "deep", "through_sorted", "second")]
    assert own["name"].startswith("own one (OwnGreenlet at 0x")
    lines = [frame["line"] for frame in found[("deep", "deep", "deep", "deep", "first")]["frames"]]
    assert len(set(lines[1:4])) == 1 and lines[0] != lines[1] and 0 not in lines
    # The stack of the thread ends where the running greenlet starts; the rest is in its parents.
    assert names(threads["MainThread"])[-2:] == ("station", "stand")
    assert f"0x{target.facts['running']:x}" in running["name"]
    assert running["parent"] == found[("between",)]["name"]
    assert f"0x{target.facts['between']:x}" in running["parent"]
    assert found[("between",)]["parent"] == found[("main", "<module>")]["name"]
    assert own["parent"] == found[("main", "<module>")]["name"]
    assert found[("main", "<module>")]["parent"] is None
    assert found[("main", "<module>")]["name"].startswith("main greenlet")
    # A greenlet belongs to the thread that runs it.
    (other,) = threads["other"]["tasks"]
    assert names(other) == ("deep", "deep") and other["state"] == "suspended"
    assert other["parent"] not in {task["name"] for task in found.values()}


def test_dump(python: Python, greenlet_env: Dict[str, str], start: StartTarget) -> None:
    check_frames(start("greenlets.py", python=python, env=greenlet_env))


def test_text(start: StartTarget) -> None:
    target = start("greenlets.py", exe=SYSTEM)
    text = gsprof("dump", "-p", target.pid).out
    assert '(running, parent "' in text and '(suspended, parent "main greenlet' in text
    assert "Greenlet" not in gsprof("dump", "-p", target.pid, "--tasks", "never").out


def test_locals(start: StartTarget) -> None:
    target = start("greenlets.py", exe=SYSTEM)
    tasks = threads_of(target.pid, "--locals")["MainThread"]["tasks"]
    (first,) = [task for task in tasks if names(task)[-1:] == ("first",)]
    values = [[row["repr"] for row in frame["locals"]] for frame in first["frames"]]
    assert values == [["0"], ["1"], ["2"], ["3"], []]


@pytest.mark.parametrize("flags", [[], ["--blocking"], ["--gil"]], ids=["plain", "stops", "gil"])
def test_recording_mixes_nothing(
    python: Python,
    flags: List[str],
    greenlet_env: Dict[str, str],
    start: StartTarget,
    tmp_path: Path,
) -> None:
    """Two greenlets switch about a hundred thousand times a second; each stack belongs entirely to
    one of them."""
    target = start("greenlets_switching.py", python=python, env=greenlet_env)
    legal = {tuple(stack) for stack in target.facts["stacks"]}

    def stacks(profile: Profile) -> Set[Tuple[str, ...]]:
        seen = {tuple(sample.names) for sample in profile.samples}
        # The program may not have returned from ready() yet.
        return {stack for stack in seen if stack[:2] != ("<module>", "main")}

    def is_enough(profile: Profile) -> bool:
        return {stack[0] for stack in stacks(profile)} >= {"short_run", "long_run"}

    profile = record_until(is_enough, target.pid, tmp_path / "out.json", *flags, rate_hz=1000)
    assert stacks(profile) <= legal, stacks(profile) - legal
    assert target.alive()


def test_dump_while_they_switch(
    python: Python, greenlet_env: Dict[str, str], start: StartTarget
) -> None:
    """A greenlet that continues during the read is left out, not shown with wrong frames."""
    target = start("greenlets_switching.py", python=python, env=greenlet_env)
    legal = {tuple(stack) for stack in target.facts["stacks"]}
    legal |= {(), ("<module>", "main")}
    count = 0
    illegal = []
    for _ in range(60):
        (thread,) = threads_of(target.pid).values()
        wrong = []
        for task in thread["tasks"]:
            assert task["state"] in ("running", "suspended")
            if tuple(reversed(names(task))) not in legal:
                wrong.append(task)
        count += 1
        if wrong:
            illegal.append(wrong)
        time.sleep(random.uniform(0, 0.02))
    # A greenlet that moves between two equal reads is not detected, nor is a thread that the
    # scheduler interrupts during a switch: its memory does not change. Such a thread may stay there
    # for some time, so all greenlets of a dump are one observation, and dumps are apart.
    check_rare(illegal, count, 0.01)
    assert target.alive()


# ------------------------------------------------------------------------ gevent

SLEEPS = {f"sleeper {i}": ("sleep", *["sleeper"] * (i + 1)) for i in range(5)}


def by_name(tasks: List[Json]) -> Dict[str, Json]:
    """Returns the tasks by name, without class and address."""
    return {task["name"].split(" (")[0]: task for task in tasks}


def check_waits(tasks: Dict[str, Json]) -> None:
    for name, frames in SLEEPS.items():
        assert names(tasks[name]) == frames, tasks[name]
        assert tasks[name]["state"] == "suspended"
        assert "Hub" in tasks[name]["parent"]
    assert names(tasks["reader"])[-1] == "reader"
    assert names(tasks["waiter"])[-1] == "waiter"


def test_gevent(start: StartTarget) -> None:
    assert has_module(SYSTEM, "gevent"), "the tests need the package python3-gevent"
    target = start("gevents.py", exe=SYSTEM)
    (thread,) = threads_of(target.pid).values()
    tasks = by_name(thread["tasks"])
    check_waits(tasks)
    (hub,) = [task for name, task in tasks.items() if "Hub" in name]
    assert hub["state"] == "suspended" and names(hub) == ("run",)
    assert len(tasks) == len(SLEEPS) + 3
    target.go()

    def thread_of_running_hub() -> Optional[Json]:
        (found,) = threads_of(target.pid).values()
        (hub,) = [task for name, task in by_name(found["tasks"]).items() if "Hub" in name]
        return found if hub["state"] == "running" and found["state"] == "S" else None

    thread = wait_for(thread_of_running_hub, "the hub does not wait in the event loop")
    tasks = by_name(thread["tasks"])
    (hub,) = [task for name, task in tasks.items() if "Hub" in name]
    check_waits(tasks)
    assert names(thread) == ("run",)
    (main,) = [task for name, task in tasks.items() if name.startswith("main ")]
    assert names(main)[-3:] == ("wait_for_all", "main", "<module>")
    assert hub["parent"] == main["name"]


def test_main_python_is_tested() -> None:
    """Debian's greenlet is installed, so at least one interpreter is not skipped."""
    assert has_module(SYSTEM, "greenlet") or main_python() != SYSTEM
