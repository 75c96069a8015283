# SPDX-License-Identifier: Apache-2.0
"""--native: the order of C and Python frames in merged stacks."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Iterator, List

import pytest

from conftest import StartTarget
from support import (
    PROGRAMS,
    Json,
    Profile,
    Python,
    Sample,
    Target,
    check_rare,
    gsprof,
    main_python,
    record_until,
    wait_for,
)

# Share of stacks with an incomplete chain; measured: 0 of 3,091, on ten interpreters under load.
ODD_SHARE = 0.001
# Share of stacks whose eval loops and Python frames do not match; measured: 13 of 10,088 under
# load, 9 of 2,827 on 3.14.
UNMATCHED_SHARE = 0.01
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


def is_native(sample: Sample) -> bool:
    return any(frame.kind == "native" for frame in sample.frames)


def stacks_of(profile: Profile) -> List[List[str]]:
    """Returns the stacks with native frames. A thread that gets no CPU cannot be stopped: its
    sample has only Python frames and counts as not merged. The other samples are independent,
    because the thread ran between them."""
    return [names(sample.names) for sample in profile.samples if is_native(sample)]


def with_name(profile: Profile, name: str) -> List[List[str]]:
    return [stack for stack in stacks_of(profile) if name in stack]


def without_glue(stack: List[str]) -> List[str]:
    """Returns the stack without the frames of libffi and ctypes."""
    known = set(CHAIN) | {"called_back", "main", "<module>"}
    return [name for name in stack if name in known]


def check_chain(target: Target, tmp_path: Path, *flags: str) -> None:
    profile = record_until(
        lambda so_far: len(with_name(so_far, "chain_spin")) >= 50
        and len(with_name(so_far, "called_back")) >= 20,
        target.pid,
        tmp_path / "p.json",
        "--native",
        *flags,
    )
    spinning = with_name(profile, "chain_spin")
    check_rare([s for s in spinning if not holds(without_glue(s), CHAIN)], len(spinning), ODD_SHARE)
    back = with_name(profile, "called_back")
    part = CHAIN[:4] + ["called_back"]
    check_rare([s for s in back if not holds(without_glue(s), part)], len(back), ODD_SHARE)
    stacks = stacks_of(profile)
    unmatched = profile.losses.get("unmerged", 0) - (len(profile.samples) - len(stacks))
    check_rare(range(unmatched), len(stacks), UNMATCHED_SHARE)


def test_order(python: Python, start: StartTarget, library: Path, tmp_path: Path) -> None:
    target = start("native.py", library, python=python)
    check_chain(target, tmp_path)


def test_dump(start: StartTarget, library: Path) -> None:
    target = start("native.py", library)

    def frames_in_spin() -> List[str]:
        threads = json.loads(gsprof("dump", "-p", target.pid, "--native", "--json").out)
        frames = [frame["name"] for frame in reversed(threads[0]["frames"])]
        return frames if "chain_spin" in frames else []

    frames = wait_for(frames_in_spin, "no stack with chain_spin")
    assert holds(without_glue(frames), CHAIN), frames


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
        profile = record_until(
            lambda so_far: len(so_far.samples) >= 50, process.pid, tmp_path / "p.json", "--native"
        )
    finally:
        process.kill()
        process.wait()
    stacks = stacks_of(profile)
    odd = [stack for stack in stacks if not holds(stack, ["main", "busy_leaf"])]
    check_rare(odd, len(stacks), ODD_SHARE)


@pytest.fixture(scope="module")
def chain_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("native") / "libchain.so"
    subprocess.run(["cc", "-O2", "-g", "-shared", "-fPIC", "-o", path, PROGRAMS / "chain.c"])
    return path


def test_below_a_shell(chain_library: Path, tmp_path: Path) -> None:
    """--subprocesses: the shell is not a Python process, its child is."""
    command = f"{main_python()} {PROGRAMS / 'native.py'} {chain_library}; true"
    target = Target(["sh", "-c", command])

    def chains(profile: Profile) -> List[Sample]:
        return [s for s in profile.samples if holds(without_glue(names(s.names)), CHAIN)]

    try:
        profile = record_until(
            lambda so_far: len(chains(so_far)) >= 10,
            *(target.process.pid, tmp_path / "p.json", "-s", "--native"),
        )
    finally:
        target.end()
    whole = chains(profile)
    assert {sample.pid for sample in whole} == {target.pid}


def test_chosen_frames(start: StartTarget, chain_library: Path, tmp_path: Path) -> None:
    """--include and --exclude also apply to native frames."""
    target = start("native.py", chain_library)

    def recorded(name: str, *flags: str) -> List[List[str]]:
        def is_seen(profile: Profile) -> bool:
            return bool(with_name(profile, name))

        return stacks_of(record_until(is_seen, target.pid, tmp_path / "p.json", "--native", *flags))

    kept = recorded("chain_spin", "--include", "^chain_")
    assert all(name.startswith("chain_") for stack in kept for name in stack)
    rest = recorded("go_down", "--exclude", "^chain_")
    assert not any(name.startswith("chain_") for stack in rest for name in stack)


def test_only_threads_that_hold_the_gil(
    start: StartTarget, chain_library: Path, tmp_path: Path
) -> None:
    """ctypes releases the GIL while the library spins; the Python callback holds it."""
    target = start("native.py", chain_library)
    profile = record_until(
        lambda so_far: len(with_name(so_far, "called_back")) >= 20,
        *(target.pid, tmp_path / "p.json", "--native", "--gil"),
    )
    back = with_name(profile, "called_back")
    part = CHAIN[:4] + ["called_back"]
    check_rare([s for s in back if not holds(without_glue(s), part)], len(back), ODD_SHARE)


def test_sleeping_threads_are_not_stopped(start: StartTarget, tmp_path: Path) -> None:
    """A stop would interrupt some of their system calls."""
    target = start("idle.py")
    flags = ["--idle", "--native", "--native-capture", "perf"]
    done = gsprof("record", "-p", target.pid, *flags, "-d", "0.5", "-o", tmp_path / "p.json")
    assert "0 by stopping" in done.err
    profile = record_until(
        lambda so_far: len(so_far.samples) >= 50, target.pid, tmp_path / "q.json", *flags
    )
    # The thread never wakes, so its stack never changes.
    assert all(is_native(sample) for sample in profile.samples)


def test_running_threads_without_a_stop(
    start: StartTarget, chain_library: Path, tmp_path: Path
) -> None:
    works = json.loads(gsprof("doctor", "--json", status=None).out)["works"]
    if not works["native_without_stops"]["works"]:
        pytest.skip(works["native_without_stops"]["reason"])
    target = start("native.py", chain_library)
    profile = record_until(
        lambda so_far: len(with_name(so_far, "chain_spin")) >= 20,
        *(target.pid, tmp_path / "p.json", "--native", "--native-capture", "perf"),
    )
    spinning = with_name(profile, "chain_spin")
    check_rare([s for s in spinning if not holds(without_glue(s), CHAIN)], len(spinning), ODD_SHARE)


# A function without unwind information, like the kernels of BLAS.
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
        pytest.skip("needs x86-64: the function is in x86-64 assembly")
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
    """The mark survives conversion to other formats and back."""
    gsp = tmp_path / "p.gsp"

    def is_seen() -> bool:
        gsprof("record", "-p", leaf_target, "--native", "-d", "0.8", "-o", gsp, "--force")
        gsprof("convert", "-i", gsp, "-o", tmp_path / "direct.json", "--force")
        return "asm_leaf" in Profile.load(tmp_path / "direct.json").names()

    wait_for(is_seen, "no stack with asm_leaf")
    gsprof("convert", "-i", gsp, "-o", tmp_path / "p.pb.gz")
    gsprof("convert", "-i", tmp_path / "p.pb.gz", "-o", tmp_path / "back.json")
    for name in ("direct.json", "back.json"):
        raw = json.loads((tmp_path / name).read_text())
        marked = {frame["name"] for frame in raw["frames"] if frame.get("bridged")}
        assert marked == {"asm_leaf"}, name
        kinds = {frame["kind"] for frame in raw["frames"] if frame["name"] == "asm_leaf"}
        assert kinds == {"native"}


def test_dump_marks_bridged_frames(leaf_target: int) -> None:
    def frames_in_leaf() -> List[Json]:
        threads = json.loads(gsprof("dump", "-p", leaf_target, "--native", "--json").out)
        frames: List[Json] = threads[0]["frames"]
        return frames if frames[0]["name"] == "asm_leaf" else []

    def text_of_leaf() -> str:
        text = gsprof("dump", "-p", leaf_target, "--native").out
        return text if "asm_leaf" in text else ""

    frames = wait_for(frames_in_leaf, "no stack with asm_leaf")
    assert frames[0]["bridged"] and not frames[1]["bridged"]
    assert frames[1]["name"] == "call_leaf"
    assert "[bridged]" in wait_for(text_of_leaf, "no stack with asm_leaf")
