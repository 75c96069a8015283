# SPDX-License-Identifier: Apache-2.0
"""dump: asyncio tasks with names, states and await chains; frames called from C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, List, Tuple

import pytest

from conftest import StartTarget
from support import (
    PROGRAMS,
    Json,
    Profile,
    Python,
    check_rare,
    gsprof,
    observations,
    record_until,
)

# The largest accepted share of torn samples of running generators.
GENERATORS_TORN = 0.005
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


# Sleeps within three coroutines.
AWAITS = """
import asyncio, time
async def inner():
    print("{}", flush=True)
    time.sleep(600)
async def middle():
    await inner()
async def outer():
    await middle()
asyncio.run(outer())
"""


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


# Innermost first, only the program's own frames.
MORE = {
    "gathers": ["gathers"],
    "waits for a while": ["waits_for_a_while"],
    "async generators": ["leaf", "middle", "inner_steps", "outer_steps", "over_outer_steps"],
    "sends": ["leaf", "middle", "inner_steps", "outer_steps", "sends"],
    "in a context": ["leaf", "in_context"],
    "groups": ["groups"],
    "eager": ["leaf", "middle"],
}


def test_later_kinds_of_tasks(python: Python, start: StartTarget) -> None:
    """Gathered, grouped and eager tasks, and async generators, as the interpreter reports them."""
    target = start("tasks_more.py", python=python)
    (thread,) = threads_of("-p", target.pid).values()
    tasks = {task["name"]: task for task in thread["tasks"]}
    for name, truth in target.facts["chains"].items():
        if name == "eager and running":
            continue
        task = tasks[name]
        assert task["state"] == "waiting" and task["waits_for"], task
        own = [f["name"] for f in task["frames"] if f["filename"].endswith("tasks_more.py")]
        if name == "waits for a while":
            own = own[-1:]  # up to 3.11 wait_for() creates another task
        assert own == MORE[name]
        seen = [[frame["name"], frame["line"]] for frame in reversed(task["frames"])]
        assert seen[: len(truth)] == truth, name
    if target.facts["groups"]:
        group = tasks["in the group"]["frames"]
        assert [frame["name"] for frame in group][-2:] == ["leaf", "middle"]
    running = {name for name, task in tasks.items() if task["state"] == "running"}
    assert len(running) == (2 if target.facts["eager"] else 1)
    assert target.facts["running"] in running
    # Tasks that gather() creates have default names.
    gathered = sorted(own_names(task)[-1] for name, task in tasks.items() if "Task-" in name)
    assert {"leaf", "middle", "main"} <= set(gathered)


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
def test_busy_event_loop(flags: List[str], start: StartTarget) -> None:
    """Tasks start and end during the read: the output is plausible and the target survives."""
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
    """Frames that C code called: each level of a recursion through map(), not plain calls."""
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


def test_entries_of_c_callers(python: Python, start: StartTarget) -> None:
    """sorted(), reduce() and a callback of a C library, in JSON and in text."""
    if python.version < (3, 11):
        pytest.skip("before 3.11 every call enters from C, and the caller is not recorded")
    target = start("generators.py", python=python)
    wanted = {"key of sorted": "by_key", "reduce": "reduce_step", "C library": "by_library"}
    seen = set()
    while "case" in target.facts:
        if target.facts["case"] in wanted:
            name = wanted[target.facts["case"]]
            seen.add(name)
            (thread,) = threads_of("-p", target.pid).values()
            marks = {frame["name"]: frame["is_entry"] for frame in thread["frames"]}
            assert marks[name] is True and marks["main"] is False, marks
            text = gsprof("dump", "-p", target.pid).out
            (line,) = [line for line in text.splitlines() if line.startswith(f"    {name} ")]
            assert line.endswith(") [called by C]")
            assert "[called by C]" not in text.split("    main ")[1]
        target.go()
    assert len(seen) == len(wanted)


def test_coroutines_are_not_marked(start: StartTarget, tmp_path: Path) -> None:
    """C resumes every coroutine: a mark on each of them would be noise."""
    script = tmp_path / "awaits.py"
    script.write_text(AWAITS)
    target = start(str(script))
    text = gsprof("dump", target.pid).out
    lines = {line.split()[0]: line for line in text.splitlines() if "awaits.py" in line}
    assert {"inner", "middle", "outer"} <= set(lines), text
    assert not any("called by C" in lines[name] for name in ("inner", "middle", "outer")), text


@pytest.mark.parametrize("flags", [[], ["--blocking"]], ids=["plain", "stops"])
def test_recorded_generators(
    python: Python, flags: List[str], start: StartTarget, tmp_path: Path
) -> None:
    """Nested generators, coroutines, async generators: every recorded stack is one that the
    interpreter itself reports."""
    target = start("generators_busy.py", python=python)
    legal = {tuple(stack) for stack in target.facts["stacks"]}
    makes = {tuple(pair) for pair in target.facts["makes"]}

    def stacks_of(profile: Profile) -> List[Tuple[str, ...]]:
        stacks = [tuple(sample.names) for sample in observations(profile.samples)]
        return [stack[2:] for stack in stacks if len(stack) > 2 and stack[2] != "ready"]

    def is_enough(profile: Profile) -> bool:
        seen = stacks_of(profile)
        depth = 7 if flags else 3
        return len(seen) >= (100 if flags else 400) and max(map(len, seen)) >= depth

    profile = record_until(is_enough, target.pid, tmp_path / "out.json", *flags, rate_hz=1000)
    seen = stacks_of(profile)
    illegal = [
        stack
        for stack in seen
        if stack not in legal and not (stack[:-1] in legal and stack[-2:] in makes)
    ]
    if flags:
        assert not illegal, illegal
    # Without --blocking the target keeps running: generators that live for microseconds are
    # sometimes read while they start or end. Deep ones are sampled less often than they run.
    check_rare(illegal, len(seen), GENERATORS_TORN)
