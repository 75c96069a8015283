# SPDX-License-Identifier: Apache-2.0
"""--native: C frames and Python frames in the order in which they called each other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import List

import pytest

from conftest import StartTarget
from support import PROGRAMS, Profile, Python, Target, gsprof, record

CHAIN = ["go_down", "chain_outer", "chain_middle", "chain_inner", "chain_spin"]


@pytest.fixture(scope="module", params=["frame pointers", "none"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("native") / "libchain.so"
    flag = (
        "-fno-omit-frame-pointer" if request.param == "frame pointers" else "-fomit-frame-pointer"
    )
    subprocess.run(
        ["cc", "-O2", "-g", flag, "-shared", "-fPIC", "-o", path, PROGRAMS / "chain.c"], check=True
    )
    return path


def names(stack: List[str]) -> List[str]:
    return [name.rsplit(".", 1)[-1] for name in stack]


def holds(stack: List[str], part: List[str]) -> bool:
    return any(stack[i : i + len(part)] == part for i in range(len(stack)))


def stacks_of(profile: Profile) -> List[List[str]]:
    return [names(sample.names) for sample in profile.samples]


def without_glue(stack: List[str]) -> List[str]:
    """What libffi and ctypes put between Python and the library."""
    known = set(CHAIN) | {"called_back", "main", "<module>"}
    return [name for name in stack if name in known]


def check_chain(target: Target, tmp_path: Path, *flags: str) -> None:
    profile = record(target.pid, tmp_path / "p.json", "--native", *flags, duration_s=0.8)
    stacks = stacks_of(profile)
    assert len(stacks) >= 40
    spinning = [stack for stack in stacks if "chain_spin" in stack]
    back = [stack for stack in stacks if "called_back" in stack]
    assert len(spinning) >= 20 and len(back) >= 3
    whole = [stack for stack in spinning if holds(without_glue(stack), CHAIN)]
    assert len(whole) >= 0.98 * len(spinning), [s for s in spinning if s not in whole][:3]
    fitting = [s for s in back if holds(without_glue(s), CHAIN[:4] + ["called_back"])]
    assert len(fitting) >= 0.98 * len(back), [s for s in back if s not in fitting][:3]
    assert profile.losses.get("unmerged", 0) <= 0.02 * len(stacks)


def test_order(python: Python, start: StartTarget, library: Path, tmp_path: Path) -> None:
    target = start("native.py", library, python=python)
    check_chain(target, tmp_path)


def test_dump(start: StartTarget, library: Path) -> None:
    target = start("native.py", library)
    for _ in range(50):
        threads = json.loads(gsprof("dump", "-p", target.pid, "--native", "--json").out)
        frames = [frame["name"] for frame in reversed(threads[0]["frames"])]
        if "chain_spin" in frames:
            assert holds(without_glue(frames), CHAIN), frames
            return
    pytest.fail("never seen in chain_spin")


def test_no_interpreter(start: StartTarget, tmp_path: Path) -> None:
    """A process without Python can be recorded by its native frames."""
    source = tmp_path / "busy.c"
    source.write_text(
        "__attribute__((noinline)) void busy_leaf(void) { for (volatile int i = 0; i < 100000;"
        " i++) { } }\nint main(void) { for (;;) busy_leaf(); }\n"
    )
    exe = tmp_path / "busy"
    subprocess.run(["cc", "-O2", "-o", exe, source], check=True)
    process = subprocess.Popen([str(exe)])
    try:
        profile = record(process.pid, tmp_path / "p.json", "--native", duration_s=1)
    finally:
        process.kill()
        process.wait()
    stacks = stacks_of(profile)
    assert len(stacks) >= 10
    assert sum(holds(stack, ["main", "busy_leaf"]) for stack in stacks) >= 0.98 * len(stacks)
