# SPDX-License-Identifier: Apache-2.0
"""--native: threads without Python, stacks captured without a stop, and stacks of PyTorch."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest

from conftest import StartTarget
from support import PROGRAMS, Profile, check_rare, gsprof, main_python, record_until, wait_for

DEBIAN = "/usr/bin/python3"
# Created by bench/native.py; PyTorch 2.13.
BENCH = str(Path.home() / ".cache" / "gsprof" / "bench-torch" / "bin" / "python")
WORKERS = ("pool-0", "pool-1", "pool-2", "late-0")
# Share of stacks that did not reach the thread's entry or did not merge; measured: 0 of 2,300 under
# load.
ODD_SHARE = 0.005
# Share of ticks that took longer than their period; measured: 2 of 1,760 at 100 Hz, under load.
LONG_SHARE = 0.01


def need_events() -> None:
    works = json.loads(gsprof("doctor", "--json", status=None).out)["works"]
    if not works["native_without_stops"]["works"]:
        pytest.skip(works["native_without_stops"]["reason"])


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("pools") / "libpools.so"
    flags = ["-O2", "-fno-optimize-sibling-calls", "-pthread", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", path, PROGRAMS / "pools.c"], check=True)
    return path


def by_thread(profile: Profile) -> Dict[str, List[List[str]]]:
    stacks: Dict[str, List[List[str]]] = {}
    for sample in profile.samples:
        stacks.setdefault(sample.thread_name, []).append(sample.names)
    return stacks


def test_workers_are_sampled(start: StartTarget, pools: Path, tmp_path: Path) -> None:
    """Both workers that already run and workers that start during the recording are sampled."""
    target = start("pools.py", pools, "wait")
    profile = record_until(
        lambda so_far: all(len(by_thread(so_far).get(name, ())) >= 5 for name in WORKERS),
        *(target.pid, tmp_path / "p.json", "--native"),
    )
    stacks = by_thread(profile)
    # About 80 KB: more than one copy of the stack memory holds.
    deep = [stack for stack in stacks["pool-1"] if "pools_spin" in stack]
    check_rare([s for s in deep if s.count("pools_deep") != 41 or "work" not in s], len(deep), 0)
    # Code without unwind rules is called by work(), too.
    bare = [stack for stack in stacks["pool-2"] if "pools_bare" in stack]
    assert bare
    check_rare([s for s in bare if s[s.index("pools_bare") - 1] != "work"], len(bare), 0)


def test_dump_shows_workers(start: StartTarget, pools: Path) -> None:
    target = start("pools.py", pools, "wait")

    def workers() -> Dict[str, List[str]]:
        threads = json.loads(gsprof("dump", "-p", target.pid, "--native", "--json").out)
        found = {t["thread_name"]: [f["name"] for f in t["frames"]] for t in threads}
        return found if set(WORKERS) <= set(found) else {}

    found = wait_for(workers, "not all workers are in the dump")
    assert "work" in found["pool-0"] and found["pool-1"].count("pools_deep") == 41


def test_cpu_time_of_workers_is_reported_by_name(
    start: StartTarget, pools: Path, tmp_path: Path
) -> None:
    target = start("pools.py", pools, "wait")

    def summary() -> str:
        flags = ["--idle", "-d", "1", "-o", tmp_path / "p.json", "--force"]
        done = gsprof("record", "-p", target.pid, *flags)
        found = re.search(r"Threads without Python used .* of CPU: .*", done.err)
        return found.group() if found and "pool-0" in found.group() else ""

    assert "--native" in wait_for(summary, "the summary does not name the workers")


def test_a_recording_without_samples_names_the_workers(
    start: StartTarget, pools: Path, tmp_path: Path
) -> None:
    """The only thread with Python waits, but the process has other threads that work."""
    target = start("pools.py", pools, "wait")

    def printed() -> str:
        flags = ["-d", "1", "-o", tmp_path / "p.json", "--force"]
        done = gsprof("record", "-p", target.pid, *flags, status=None)
        return done.err if done.status and "pool-0" in done.err else ""

    text = wait_for(printed, "the message does not name the workers")
    assert "all Python threads were waiting" in text, text
    assert f"gsprof record --native --pid {target.pid}" in text, text
    assert "Threads without Python used" in text, text


def test_run_reports_threads_without_python(pools: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program = [main_python(), PROGRAMS / "pools.py", pools, "wait", "2.5"]
    done = gsprof("run", "-o", run, "--", *program, timeout_s=120)
    assert "Threads without Python used" in done.err and "pool-" in done.err
    sql = "SELECT DISTINCT thread_name AS n FROM process.thread WHERE cpu_s > 0"
    names = {row["n"] for row in json.loads(gsprof("query", run, sql, "-f", "json").out)}
    assert set(WORKERS) <= names


def test_native_frames_are_below_their_own_caller(
    start: StartTarget, pools: Path, tmp_path: Path
) -> None:
    """The thread continues while its Python frames are read; both parts must be of one call."""
    need_events()
    target = start("pools.py", pools, "turns")

    def called(profile: Profile) -> List[List[str]]:
        return [s.names for s in profile.samples if {"pools_alpha", "pools_beta"} & set(s.names)]

    profile = record_until(
        lambda so_far: len(called(so_far)) >= 300,
        *(target.pid, tmp_path / "p.json", "--native", "-r", "1000"),
    )
    stacks = called(profile)
    crossed = [s for s in stacks if ("pools_alpha" in s) != ("alpha" in s)]
    assert not crossed, crossed[0]
    assert all("pools_beta" in s for s in stacks if "pools_alpha" not in s)
    # Samples of neither caller are lost.
    share = len([s for s in stacks if "pools_alpha" in s]) / len(stacks)
    assert 0.1 < share < 0.9


def test_builtins_that_work_in_a_library_are_merged(
    start: StartTarget, pools: Path, tmp_path: Path
) -> None:
    """Python 3.11 calls them with an instruction that has skipped the one before it."""
    need_events()
    target = start("pools.py", pools, "sums")

    def summed(profile: Profile) -> List[List[str]]:
        return [s.names for s in profile.samples if "checksum" in s.names]

    # The interpreter specialises the instruction after some calls.
    profile = record_until(
        lambda so_far: len(summed(so_far)) >= 120,
        *(target.pid, tmp_path / "p.json", "--native"),
    )
    stacks = summed(profile)
    check_rare(range(profile.losses["unmerged"]), len(stacks), ODD_SHARE)
    check_rare([s for s in stacks if s[-1] == "checksum"], len(stacks), ODD_SHARE)


def need_torch(exe: str) -> None:
    has_torch = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    probe = [exe, "-c", has_torch]
    if not Path(exe).exists() or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip(f"{exe} has no PyTorch")


class Counts:
    """Adds up how the stacks of several recordings were captured."""

    def __init__(self) -> None:
        self.stacks = self.whole = self.stops = self.odd = self.ticks = self.long_ticks = 0

    def add(self, printed: str, path: Path) -> None:
        found = re.search(r"Native: ([0-9.]+) %.* (\d+) by perf events, (\d+) by stops", printed)
        work = re.search(r"of CPU; (\d+) of (\d+) more than their period", printed)
        if not found:
            return
        assert work, printed
        captured = int(found.group(2)) + int(found.group(3))
        self.stacks += captured
        self.whole += round(captured * float(found.group(1)) / 100)
        self.stops += int(found.group(3))
        self.odd += Profile.load(path).losses.get("unmerged", 0)
        self.long_ticks += int(work.group(1))
        self.ticks += int(work.group(2))

    def check(self) -> None:
        assert self.stops == 0
        check_rare(range(self.stacks - self.whole), self.stacks, ODD_SHARE)
        check_rare(range(self.odd), self.stacks, ODD_SHARE)
        # Measured in gsprof's own CPU time: a busy machine also delays ticks.
        check_rare(range(self.long_ticks), self.ticks, LONG_SHARE)


@pytest.mark.parametrize("exe", [DEBIAN, BENCH], ids=["debian", "newest"])
def test_pytorch(exe: str, start: StartTarget, tmp_path: Path) -> None:
    need_events()
    need_torch(exe)
    target = start("torch_small.py", exe=exe)
    counts = Counts()

    def enough() -> bool:
        path = tmp_path / "p.json"
        flags = ["-v", "--native", "-r", "300", "-d", "1", "-o", path, "--force"]
        counts.add(gsprof("record", "-p", target.pid, *flags).err, path)
        return counts.stacks >= 120

    wait_for(enough, "too few native stacks")
    counts.check()


@pytest.mark.parametrize("exe", [DEBIAN, BENCH], ids=["debian", "newest"])
def test_pytorch_while_it_is_imported(exe: str, tmp_path: Path) -> None:
    """Libraries are mapped and modules loaded during the recording."""
    need_events()
    need_torch(exe)
    counts = Counts()

    def enough() -> bool:
        path = tmp_path / "p.json"
        flags = ["-v", "--native", "-o", path, "--force"]
        counts.add(gsprof("record", *flags, "--", exe, "-c", "import torch").err, path)
        return counts.stacks >= 240

    wait_for(enough, "too few native stacks")
    counts.check()
