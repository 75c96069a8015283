# SPDX-License-Identifier: Apache-2.0
"""Options of record that select samples, start and stop the recording, or write interim files."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Callable, List, Set

import pytest

from conftest import StartRunning, StartTarget
from support import (
    GC_MARK,
    EXIT_EMPTY,
    EXIT_USAGE,
    Profile,
    Python,
    Sample,
    gsprof,
    has_any,
    main_python,
    record_until,
    wait_for,
    wait_until_sleeping,
)


def test_include_and_exclude(start: StartTarget, tmp_path: Path) -> None:
    target = start("shares.py")
    path = tmp_path / "p.json"

    def saw(*names: str) -> Callable[[Profile], bool]:
        return lambda profile: set(names) <= set(profile.names())

    profile = record_until(saw("half", "third"), target.pid, path, "--include", "^(half|third)$")
    assert set(profile.names()) == {"half", "third"}
    assert all(len(sample.frames) == 1 for sample in profile.samples)
    profile = record_until(saw("third", "fifth"), target.pid, path, "--exclude", "^half$")
    assert "half" not in profile.names()
    record_until(saw("half"), target.pid, path, "--include", "work[.]py")


def test_filters_that_match_nothing_are_reported(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    args = ["record", "-p", target.pid, "-d", "0.3", "-o", tmp_path / "p.json"]
    for option in ("--include", "--thread"):
        # If no sample was captured at all, no filter is to blame.
        wait_for(
            lambda option=option: option  # type: ignore[misc]
            in gsprof(*args, option, "nosuchthing", status=EXIT_EMPTY).err
        )


@pytest.mark.parametrize("option", ["--include", "--exclude", "--thread"])
def test_invalid_expressions(option: str) -> None:
    done = gsprof("record", option, "(", "--", main_python(), "-c", "1", status=EXIT_USAGE)
    assert "not a regular expression" in done.err


def test_cpu_and_wall(start: StartTarget, tmp_path: Path) -> None:
    gsprof("record", "-p", "1", "--cpu", "--wall", status=EXIT_USAGE)
    target = start("idle.py")
    wait_until_sleeping(target.pid)
    profile = record_until(has_any, target.pid, tmp_path / "p.json", "--wall", duration_s=0.3)
    assert not any(sample.on_cpu for sample in profile.samples)


def test_threads_by_name(start: StartTarget, tmp_path: Path) -> None:
    target = start("threads8.py")
    path = tmp_path / "p.json"

    def names(profile: Profile) -> Set[str]:
        return {sample.thread_name for sample in profile.samples}

    record_until(
        lambda so_far: len(names(so_far)) > 1 and "MainThread" in names(so_far),
        target.pid,
        path,
        "--idle",
    )
    profile = record_until(has_any, target.pid, path, "--idle", "--thread", "^Main")
    assert names(profile) == {"MainThread"}


def test_gil_shares(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    duration_s = 0.5

    def share_pct() -> float:
        nonlocal duration_s
        path = tmp_path / f"{duration_s}.gsp"
        done = gsprof("record", "-p", target.pid, "--gil", "-d", duration_s, "-o", path)
        found = re.search(r"([\d.]+) %  thread \S+ \((\d+)\) of process (\d+)", done.err)
        assert found, done
        assert int(found[3]) == target.pid and float(found[1]) <= 100
        duration_s *= 2
        return float(found[1])

    # The thread never releases the GIL. The time after the last sample belongs to no thread. On a
    # busy machine it can be long, but its share falls as the recording gets longer.
    wait_for(lambda: share_pct() > 90)


def test_import_frames_become_one_mark(running: StartRunning, tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text("while True: pass\n")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import slow_module"
    argv = ["--", main_python(), "-B", "-c", script]

    def in_module(profile: Profile) -> List[Sample]:
        return [s for s in profile.samples if s.leaf.file.endswith("slow_module.py")]

    def recorded(name: str, *options: str) -> Profile:
        one = running("record", "-r", "200", "-o", tmp_path / name, *options, *argv)
        one.wait_until_recording()
        one.wait_until_enough(lambda so_far: len(in_module(so_far)) >= 10)
        one.signal(signal.SIGINT)
        one.finish()
        return Profile.load(tmp_path / name)

    slow = in_module(recorded("marks.json"))
    assert slow and all(s.names == ["<module>", "(import)", "<module>"] for s in slow)
    assert slow[0].frames[1].kind == "mark"
    assert "_find_and_load" in recorded("frames.json", "--import-frames").names()


def test_interim_file(start: StartTarget, running: StartRunning, tmp_path: Path) -> None:
    """SIGUSR1 writes a file of the samples so far; the recording continues."""
    target = start("spin.py")
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-r", "200")
    one.wait_until_recording()
    first: Profile = wait_for(one.interim_profile)  # there may be no sample yet
    assert first.samples and not first.raw["truncated"]
    one.wait_for_samples(len(first.samples) + 1)
    files = sorted(tmp_path.iterdir())
    assert tmp_path / "p.1.json" in files and tmp_path / "p.2.json" in files
    second = Profile.load(tmp_path / f"p.{len(list(tmp_path.glob('p.*.json')))}.json")
    assert not second.raw["truncated"]
    one.signal(signal.SIGINT)
    assert one.finish().status == 0
    assert len(Profile.load(path).samples) >= len(second.samples) > len(first.samples)


def test_until_signal(start: StartTarget, running: StartRunning, tmp_path: Path) -> None:
    target = start("spin.py")
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-r", "100", "--until-signal")
    one.lines.until("Waiting for SIGUSR2")
    one.signal(signal.SIGUSR2)
    one.wait_until_recording()
    one.wait_for_samples(1)
    one.signal(signal.SIGUSR2)
    done = one.finish()
    assert done.status == 0 and "received SIGUSR2" in done.err, done
    assert "spin" in " ".join(Profile.load(path).names())


def test_until_signal_that_never_comes(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    argv = ["record", "-o", path, "--until-signal", "--", main_python(), "-c", "pass"]
    done = gsprof(*argv, status=EXIT_EMPTY)
    assert "no SIGUSR2 was received" in done.err


def test_collections_are_marked(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Only samples captured during a garbage collection have its mark."""
    if python.version < (3, 9) or python.label.split("-")[0].endswith("t"):
        pytest.skip("needs 3.9 or later, with a GIL")
    target = start("collects.py", python=python)

    def in_leaf(profile: Profile, name: str) -> List[Sample]:
        return [s for s in profile.samples if s.frames and s.leaf.name == name]

    profile = record_until(
        lambda so_far: in_leaf(so_far, GC_MARK) and in_leaf(so_far, "computes"),
        target.pid,
        tmp_path / "p.json",
        duration_s=1.0,
        rate_hz=300,
    )
    inside = in_leaf(profile, GC_MARK)
    assert all("collects" in s.names and "computes" not in s.names for s in inside)
