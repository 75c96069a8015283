# SPDX-License-Identifier: Apache-2.0
"""--native: C frames and Python frames in the order in which they called each other."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Iterator, List

import pytest

from conftest import StartTarget
from support import PROGRAMS, Profile, Python, Target, gsprof, main_python, record

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
    # A busy machine gives fewer samples in the same time: the second look is a long one.
    for duration_s in (0.8, 5):
        out = tmp_path / f"{duration_s}.json"
        profile = record(target.pid, out, "--native", *flags, duration_s=duration_s)
        stacks = stacks_of(profile)
        spinning = [stack for stack in stacks if "chain_spin" in stack]
        back = [stack for stack in stacks if "called_back" in stack]
        if len(spinning) >= 20 and len(back) >= 3:
            break
    assert len(stacks) >= 40
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


@pytest.fixture(scope="module")
def chain_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("native") / "libchain.so"
    subprocess.run(["cc", "-O2", "-g", "-shared", "-fPIC", "-o", path, PROGRAMS / "chain.c"])
    return path


def test_below_a_shell(chain_library: Path, tmp_path: Path) -> None:
    """--subprocesses: the shell is no Python, its child is."""
    command = f"{main_python()} {PROGRAMS / 'native.py'} {chain_library}; true"
    target = Target(["sh", "-c", command])
    try:
        profile = record(target.process.pid, tmp_path / "p.json", "-s", "--native", duration_s=1)
    finally:
        target.end()
    whole = [s for s in profile.samples if holds(without_glue(names(s.names)), CHAIN)]
    assert len(whole) >= 10
    assert {sample.pid for sample in whole} == {target.pid}


def test_chosen_frames(start: StartTarget, chain_library: Path, tmp_path: Path) -> None:
    """--include and --exclude choose among native frames too."""
    target = start("native.py", chain_library)
    kept = stacks_of(record(target.pid, tmp_path / "p.json", "--native", "--include", "^chain_"))
    assert kept and all(name.startswith("chain_") for stack in kept for name in stack)
    rest = stacks_of(record(target.pid, tmp_path / "p.json", "--native", "--exclude", "^chain_"))
    assert any("go_down" in stack for stack in rest)
    assert not any(name.startswith("chain_") for stack in rest for name in stack)


def test_only_who_holds_the_gil(start: StartTarget, chain_library: Path, tmp_path: Path) -> None:
    """ctypes lets go of it while the library spins; the Python function needs it."""
    target = start("native.py", chain_library)
    profile = record(target.pid, tmp_path / "p.json", "--native", "--gil", duration_s=1)
    back = [stack for stack in stacks_of(profile) if "called_back" in stack]
    assert back
    fitting = [s for s in back if holds(without_glue(s), CHAIN[:4] + ["called_back"])]
    assert len(fitting) >= 0.9 * len(back), [s for s in back if s not in fitting][:3]


def test_sleeping_threads_are_not_stopped(start: StartTarget, tmp_path: Path) -> None:
    """A stop would end some of their system calls early."""
    target = start("idle.py")
    flags = ["--idle", "--native", "--native-capture", "perf"]
    done = gsprof("record", "-p", target.pid, *flags, "-d", "0.5", "-o", tmp_path / "p.json")
    assert "0 by stops" in done.err
    profile = Profile.load(tmp_path / "p.json")
    native = [s for s in profile.samples if any(f.kind == "native" for f in s.frames)]
    assert len(native) >= 5
    assert len(native) >= 0.9 * len(profile.samples)


def test_running_threads_without_a_stop(
    start: StartTarget, chain_library: Path, tmp_path: Path
) -> None:
    works = json.loads(gsprof("doctor", "--json", status=None).out)["works"]
    if not works["native_without_stops"]["works"]:
        pytest.skip(works["native_without_stops"]["reason"])
    target = start("native.py", chain_library)
    profile = record(
        target.pid, tmp_path / "p.json", "--native", "--native-capture", "perf", duration_s=1
    )
    spinning = [stack for stack in stacks_of(profile) if "chain_spin" in stack]
    whole = [stack for stack in spinning if holds(without_glue(stack), CHAIN)]
    assert len(spinning) >= 10
    assert len(whole) >= 0.98 * len(spinning), [s for s in spinning if s not in whole][:3]


# A function without unwind information, as kernels of BLAS are.
LEAF = r"""
void asm_leaf(long rounds);
__asm__(".text\n.globl asm_leaf\n.type asm_leaf, @function\nasm_leaf:\n"
        "  push %rbx\n  sub $40, %rsp\n"
        "1: pause\n  dec %rdi\n  jnz 1b\n"
        "  add $40, %rsp\n  pop %rbx\n  ret\n"
        ".size asm_leaf, . - asm_leaf\n");
__attribute__((noinline)) void call_leaf(long rounds)
{
    asm_leaf(rounds);
    __asm__ volatile("" ::: "memory");
}
"""
CALLS_LEAF = """
import ctypes, json, os, sys
call = ctypes.CDLL(sys.argv[1]).call_leaf
call.argtypes = [ctypes.c_long]
print(json.dumps({"pid": os.getpid()}), flush=True)
while True:
    call(2000000)
"""


@pytest.fixture
def leaf_target(tmp_path: Path) -> Iterator[int]:
    if platform.machine() != "x86_64":
        pytest.skip("needs x86-64: the function is in its assembly")
    source = tmp_path / "leaf.c"
    source.write_text(LEAF)
    library = tmp_path / "libleaf.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    argv = [sys.executable, "-c", CALLS_LEAF, str(library)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    yield process.pid
    process.kill()
    process.communicate()


def test_bridged_frames_are_marked(leaf_target: int, tmp_path: Path) -> None:
    """Also after the file has been through other formats."""
    gsp = tmp_path / "p.gsp"
    gsprof("record", "-p", leaf_target, "--native", "-d", "0.8", "-o", gsp)
    for path in (tmp_path / "direct.json", tmp_path / "p.pb.gz"):
        gsprof("convert", "-i", gsp, "-o", path)
    gsprof("convert", "-i", tmp_path / "p.pb.gz", "-o", tmp_path / "back.json")
    for name in ("direct.json", "back.json"):
        raw = json.loads((tmp_path / name).read_text())
        marked = {frame["name"] for frame in raw["frames"] if frame.get("bridged")}
        assert marked == {"asm_leaf"}, name
        kinds = {frame["kind"] for frame in raw["frames"] if frame["name"] == "asm_leaf"}
        assert kinds == {"native"}


def test_dump_marks_bridged_frames(leaf_target: int) -> None:
    for _ in range(50):
        threads = json.loads(gsprof("dump", "-p", leaf_target, "--native", "--json").out)
        frames = threads[0]["frames"]
        if frames[0]["name"] == "asm_leaf":
            assert frames[0]["bridged"] and not frames[1]["bridged"]
            assert frames[1]["name"] == "call_leaf"
            break
    else:
        pytest.fail("never seen in asm_leaf")
    texts = [gsprof("dump", "-p", leaf_target, "--native").out for _ in range(20)]
    assert any("asm_leaf" in text and "[bridged]" in text for text in texts)
