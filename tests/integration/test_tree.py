# SPDX-License-Identifier: Apache-2.0
"""Process trees of jobs: ranks, pools, containers; and the names of their processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, Set

import pytest

from conftest import StartTarget
from support import (
    PROGRAMS,
    Profile,
    Target,
    find_pythons,
    gsprof,
    has_any,
    main_python,
    profile_of,
    program,
    record_longer,
    record_until,
    wait_for,
)


def names_of(profile: Profile) -> Dict[int, str]:
    return {row["pid"]: row["name"] for row in profile.raw["processes"]}


def pids_in(profile: Profile, name: str) -> Set[int]:
    return {sample.pid for sample in profile.samples if name in sample.names}


@pytest.mark.parametrize("between", ["", "shell"])
def test_ranks(between: str, start: StartTarget, tmp_path: Path) -> None:
    """Each rank has its number in its name and its own samples."""
    target = start("ranks.py", 3, between)
    path = tmp_path / "p.gsp"
    workers: List[int] = target.facts["workers"]

    def all_are_seen(path: Path) -> bool:
        return pids_in(profile_of(path), "rank_at_work") >= set(workers)

    record_longer(all_are_seen, target.pid, path, "-s", duration_s=1.5)
    profile = profile_of(path)
    assert pids_in(profile, "rank_at_work") == set(workers)
    named = sorted(names_of(profile)[pid] for pid in workers)
    python = re.escape(os.path.basename(main_python()))
    for rank, name in enumerate(named):
        assert re.match(rf"rank {rank}: {python}\S* \S*ranks.py work$", name), name
    # The flame graph has a process above its stacks; the table has the function once.
    gsprof("convert", "-i", path, "-o", tmp_path / "p.folded")
    folded = (tmp_path / "p.folded").read_text()
    for pid in workers:
        assert re.search(rf"^process {pid}: rank \d: ", folded, re.M), folded
    report = json.loads(gsprof("report", "--json", path).out)
    assert report["summary"]["processes"] >= 3
    assert [row["function"] for row in report["top"]].count("rank_at_work") == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools(method: str, start: StartTarget, tmp_path: Path) -> None:
    target = start("pool.py", method, tmp_path)
    path = tmp_path / "p.json"
    workers = set(target.facts["workers"])
    profile = record_until(
        lambda so_far: pids_in(so_far, "pool_at_work") >= workers,
        target.pid,
        path,
        "-s",
        duration_s=1.5,
        rate_hz=200,
    )
    assert pids_in(profile, "pool_at_work") == workers


FAMILY = {"rank_0", "rank_1", "by_other", "forked"}


def family_is_seen(path: Path) -> bool:
    return FAMILY <= set(profile_of(path).names())


@pytest.fixture(name="family")
def family_fixture(start: StartTarget, tmp_path: Path) -> Target:
    """Starts all kinds of children; one runs another Python version, if one is installed."""
    main = main_python()
    others = [python.path for python in find_pythons()[0] if python.path != main]
    return start("family.py", tmp_path, others[0] if others else main)


def test_family(family: Target, tmp_path: Path) -> None:
    """Each process has its own samples and name, even if another one is not Python."""
    path = tmp_path / "p.gsp"
    record_longer(family_is_seen, family.pid, path, "-s", duration_s=2.5, rate_hz=200)
    profile = profile_of(path)
    where = {name: pids_in(profile, name) for name in FAMILY}
    assert all(len(pids) == 1 for pids in where.values()), where
    assert len(set.union(*where.values())) == len(FAMILY)
    for rank in range(2):
        (pid,) = where[f"rank_{rank}"]
        assert names_of(profile)[pid].startswith(f"rank {rank}: ")
    assert profile.losses["skipped"] >= 1


def test_family_in_output_formats(family: Target, tmp_path: Path) -> None:
    """The output formats match docs/processes.md."""
    path = tmp_path / "p.gsp"
    record_longer(family_is_seen, family.pid, path, "-s", duration_s=2, rate_hz=200)
    for form in ("folded", "speedscope.json", "trace.json", "svg"):
        gsprof("convert", "-i", path, "-o", tmp_path / f"p.{form}")
    folded = (tmp_path / "p.folded").read_text()
    assert re.search(r"^process \d+: rank 1: .*;rank_1 ", folded, re.M), folded
    scopes = json.loads((tmp_path / "p.speedscope.json").read_text())["profiles"]
    assert len({scope["name"] for scope in scopes}) >= len(FAMILY)
    report = json.loads(gsprof("report", "--json", path).out)
    names = [row["function"] for row in report["top"]]
    assert all(names.count(name) == 1 for name in FAMILY)


def test_family_with_native_frames(family: Target, tmp_path: Path) -> None:
    path = tmp_path / "p.json"

    def kinds(profile: Profile, name: str) -> Set[str]:
        samples = [sample for sample in profile.samples if name in sample.names]
        return {frame.kind for sample in samples for frame in sample.frames}

    def all_are_seen(profile: Profile) -> bool:
        return all(len(kinds(profile, name)) > 1 for name in FAMILY)

    record_until(all_are_seen, family.pid, path, "-s", "-n", duration_s=3, rate_hz=100)


def test_family_in_top(family: Target) -> None:
    common = ("top", "-p", family.pid, "-s", "-n", "3", "--json", "--native")

    def all_are_shown() -> bool:
        tables = [json.loads(line) for line in gsprof(*common).out.splitlines()]
        names = {row["function"] for table in tables for row in table["rows"]}
        return FAMILY <= names and tables[-1]["processes"] >= len(FAMILY)

    wait_for(all_are_shown)


def test_local_rank_alone(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py", env={"LOCAL_RANK": "5"})
    profile = record_until(has_any, target.pid, tmp_path / "p.json", duration_s=0.3)
    assert profile.raw["process_name"].startswith("local rank 5: python")


def unshared(*more: str) -> List[str]:
    argv = ["unshare", "--pid", "--mount", "--user", "--fork", "--map-root-user", *more]
    if not shutil.which("unshare") or subprocess.run([*argv, "true"], check=False).returncode:
        pytest.skip("needs user, pid and mount namespaces")
    return argv


def inner_target(argv: List[str]) -> Target:
    """Starts a target in a pid namespace; its pid inside differs from the one outside."""
    target = Target(argv)
    inside = target.pid
    below = [target.process.pid]
    for pid in below:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        below += [int(word) for word in text.split()]
    for pid in below:
        status = Path(f"/proc/{pid}/status").read_text()
        if re.search(rf"^NSpid:.*\s{inside}$", status, re.M) and "python" in os.readlink(
            f"/proc/{pid}/exe"
        ):
            target.facts["pid"] = pid
            target.facts["inside"] = inside
            return target
    target.end()
    raise AssertionError(f"none of {below} has pid {inside} inside")


def check_both_pids(target: Target, tmp_path: Path) -> None:
    inside = target.facts["inside"]
    assert inside != target.pid
    path = tmp_path / "p.json"
    work = {"half", "third", "fifth"}
    done = record_longer(
        lambda path: work <= set(Profile.load(path).names()), target.pid, path, duration_s=0.5
    )
    assert f"(pid {target.pid}, {inside} in its container)" in done.err
    profile = Profile.load(path)
    assert profile.raw["processes"][0]["ns_pid"] == inside
    assert {sample.thread_id for sample in profile.samples} == {target.pid}
    assert f"Process {target.pid} ({inside} in its container): " in gsprof("dump", "-p", target.pid).out
    threads = json.loads(gsprof("dump", "-p", target.pid, "--json").out)
    assert threads[0]["process_info"]["ns_pid"] == inside


def test_other_namespaces(tmp_path: Path) -> None:
    target = inner_target([*unshared(), main_python(), program("shares.py")])
    try:
        check_both_pids(target, tmp_path)
    finally:
        target.end()


def test_container_with_its_own_root(tmp_path: Path) -> None:
    """chroot into bind mounts in new namespaces; also recorded as part of a tree."""
    inside = tmp_path / "inside"
    inside.mkdir()
    folders = [name for name in ("usr", "lib", "lib64", "bin") if os.path.isdir(f"/{name}")]
    mounts = "\n".join(f"mkdir -p {inside}/{n}; mount --rbind /{n} {inside}/{n}" for n in folders)
    script = f"""set -e
PATH=$PATH:/usr/sbin  # may be missing for users
mount -t tmpfs none {inside}
{mounts}
mkdir {inside}/programs {inside}/proc
mount --bind {PROGRAMS} {inside}/programs
mount -t proc none {inside}/proc
exec chroot {inside} /usr/bin/python3 /programs/shares.py"""
    if not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("needs the system's own python3")
    argv = [*unshared("--propagation", "private"), "sh", "-c", script]
    target = inner_target(argv)
    try:
        assert os.readlink(f"/proc/{target.pid}/root") != "/"
        check_both_pids(target, tmp_path)
        path = tmp_path / "tree.folded"
        record_longer(lambda path: "shares.py" in path.read_text(), target.process.pid, path, "-s")
    finally:
        target.end()
