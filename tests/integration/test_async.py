# SPDX-License-Identifier: Apache-2.0
"""dump: tasks of asyncio, their names, states and chains of awaits; entries from C."""

from __future__ import annotations

import json
from typing import Dict, List

import pytest

from conftest import StartTarget
from support import PROGRAMS, Json, Python, gsprof

# Innermost first, without asyncio's own frames.
CHAINS = {
    "chain": ("waiting", ["leaf", "middle"]),
    "waits for chain": ("waiting", ["waits_for"]),
    "async for": ("waiting", ["leaf", "steps", "over_steps"]),
    "turns": ("ready", ["turns"]),
    "own class": ("waiting", ["leaf"]),
    "in Python": ("waiting", ["leaf"]),
    "not begun": ("new", ["middle"]),
}


def threads_of(*args: object) -> Dict[str, Json]:
    threads: List[Json] = json.loads(gsprof("dump", "--json", *args).out)
    return {thread["thread_name"]: thread for thread in threads}


def own_frames(task: Json) -> List[str]:
    return [
        frame["name"].rsplit(".", 1)[-1]
        for frame in task["frames"]
        if frame["filename"].endswith("tasks.py") and "asyncio" not in frame["filename"]
    ]


def test_tasks(python: Python, start: StartTarget) -> None:
    target = start("tasks.py", python=python)
    threads = threads_of("-p", target.pid)
    tasks = {task["name"]: task for task in threads["MainThread"]["tasks"]}
    for name, (state, frames) in CHAINS.items():
        assert (tasks[name]["state"], own_frames(tasks[name])) == (state, frames), tasks[name]
    assert own_frames(tasks["by object"]) == ["__await__", "through_object"]
    assert tasks["by object"]["frames"][0]["name"].endswith("wait")
    assert "done" not in tasks
    assert tasks["waits for chain"]["waits_for"] == "chain"
    assert tasks["waits for chain"]["waits_for_task"]
    assert "Future" in tasks["chain"]["waits_for"]
    for name in target.facts["unnamed"]:
        assert own_frames(tasks[name]) == ["leaf"]
    running = [task for task in tasks.values() if task["state"] == "running"]
    assert [own_frames(task) for task in running] == [["main"]]
    assert len(tasks) == len(CHAINS) + 1 + len(target.facts["unnamed"]) + 1
    of_thread = threads["looper"]["tasks"]
    assert [task["name"] for task in of_thread] == ["of the thread"]
    lines = {frame["name"]: frame["line"] for frame in tasks["chain"]["frames"]}
    text = (PROGRAMS / "tasks.py").read_text(encoding="utf-8").splitlines()
    assert text[lines["leaf"] - 1].strip() == "await event.wait()"
    assert text[lines["middle"] - 1].strip() == "await leaf(event)"


def test_locals(python: Python, start: StartTarget) -> None:
    """The frames of a task have locals like those of a thread."""
    target = start("tasks.py", python=python)
    tasks = threads_of("-p", target.pid, "--locals")["MainThread"]["tasks"]
    chain = next(task for task in tasks if task["name"] == "chain")
    middle = chain["frames"][-1]
    assert middle["name"] == "middle"
    assert [(row["name"], row["arg"]) for row in middle["locals"]] == [("event", True)]
    assert "Event" in middle["locals"][0]["repr"]


def test_text(start: StartTarget) -> None:
    target = start("tasks.py")
    text = gsprof("dump", "-p", target.pid).out
    assert 'Task "waits for chain" (waiting for task "chain")' in text
    assert 'Task "not begun" (new)' in text
    assert "Task" not in gsprof("dump", "-p", target.pid, "--tasks", "never").out


def test_none_without_asyncio(start: StartTarget) -> None:
    target = start("threads8.py")
    for thread in threads_of("-p", target.pid).values():
        assert thread["tasks"] == []


@pytest.mark.parametrize("flags", [[], ["--blocking"]])
def test_while_it_runs(flags: List[str], start: StartTarget) -> None:
    """Tasks that come and go while they are read: what is shown makes sense, and nothing breaks."""
    target = start("tasks_busy.py")
    names = set()
    for _ in range(10):
        for thread in threads_of("-p", target.pid, *flags).values():
            for task in thread["tasks"]:
                assert task["state"] in ("unknown", "new", "ready", "waiting", "running"), task
                if task["name"].startswith("worker"):
                    assert set(own_names(task)) <= {"worker", "step", "sleep", "__sleep0"}, task
                    names.add(task["name"])
    assert len(names) >= 5
    assert target.alive()


def own_names(task: Json) -> List[str]:
    return [frame["name"] for frame in task["frames"]]


def test_entries(python: Python, start: StartTarget) -> None:
    """Where C code entered the interpreter again: at each turn of a recursion through map(),
    not at plain calls."""
    target = start("generators.py", python=python)
    while target.facts["case"] != "recursion through map":
        target.go()
    (thread,) = threads_of("-p", target.pid).values()
    frames = thread["frames"]
    marks = {frame["name"]: frame["is_entry"] for frame in frames}
    if python.version < (3, 11):
        assert set(marks.values()) == {None}
        return
    turns = [frame["is_entry"] for frame in frames if frame["name"] == "through_map"]
    assert turns == [True, True, True, False]
    assert marks["main"] is False and marks["<module>"] is True
