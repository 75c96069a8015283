# SPDX-License-Identifier: Apache-2.0
"""What of a recording is kept, when it begins and ends, and what can be had in between."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from conftest import StartRunning, StartTarget
from support import EXIT_EMPTY, EXIT_USAGE, PATIENCE_S, Profile, Python, gsprof, main_python, record


def test_include_and_exclude(start: StartTarget, tmp_path: Path) -> None:
    target = start("shares.py")
    path = tmp_path / "p.json"
    profile = record(target.pid, path, "--include", "^(half|third)$")
    assert set(profile.names()) == {"half", "third"}
    assert all(len(sample.frames) == 1 for sample in profile.samples)
    profile = record(target.pid, path, "--exclude", "^half$")
    assert "half" not in profile.names() and "third" in profile.names()
    profile = record(target.pid, path, "--include", "work[.]py")
    assert "half" in profile.names()


def test_none_left_is_said(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    args = ["record", "-p", target.pid, "-d", "0.3", "-o", tmp_path / "p.json"]
    done = gsprof(*args, "--include", "nosuchthing", status=EXIT_EMPTY)
    assert "--include" in done.err
    done = gsprof(*args, "--thread", "nosuchthing", status=EXIT_EMPTY)
    assert "--thread" in done.err


@pytest.mark.parametrize("option", ["--include", "--exclude", "--thread"])
def test_no_expression(option: str) -> None:
    done = gsprof("record", option, "(", "--", main_python(), "-c", "1", status=EXIT_USAGE)
    assert "no regular expression" in done.err


def test_cpu_and_wall(start: StartTarget, tmp_path: Path) -> None:
    gsprof("record", "-p", "1", "--cpu", "--wall", status=EXIT_USAGE)
    target = start("idle.py")
    profile = record(target.pid, tmp_path / "p.json", "--wall", duration_s=0.3)
    assert profile.samples and not any(sample.on_cpu for sample in profile.samples)


def test_threads_by_name(start: StartTarget, tmp_path: Path) -> None:
    target = start("threads8.py")
    whole = record(target.pid, tmp_path / "p.json", "--idle", duration_s=0.8)
    names = {sample.thread_name for sample in whole.samples}
    assert len(names) > 1 and "MainThread" in names
    profile = record(target.pid, tmp_path / "p.json", "--idle", "--thread", "^Main", duration_s=0.5)
    assert {sample.thread_name for sample in profile.samples} == {"MainThread"}


def test_gil_shares(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    path = tmp_path / "p.gsp"
    done = gsprof("record", "-p", target.pid, "--gil", "-d", "0.5", "-o", path)
    found = re.search(r"([\d.]+) %  thread \S+ \((\d+)\) of process (\d+)", done.err)
    assert found, done
    assert float(found[1]) > 80 and int(found[3]) == target.pid


def test_imports_are_one_mark(tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text(
        "import time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass\n"
    )
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import slow_module"
    argv = ["--", main_python(), "-B", "-c", script]
    path = tmp_path / "p.json"
    gsprof("record", "-r", "200", "-o", path, *argv)
    slow = [s for s in Profile.load(path).samples if s.leaf.file.endswith("slow_module.py")]
    assert slow and all(s.names == ["<module>", "(import)", "<module>"] for s in slow)
    assert slow[0].frames[1].kind == "mark"
    gsprof("record", "-r", "200", "-o", path, "--force", "--import-frames", *argv)
    assert "_find_and_load" in Profile.load(path).names()


def test_interim_file(start: StartTarget, running: StartRunning, tmp_path: Path) -> None:
    """SIGUSR1: a file of what there is, and the recording goes on."""
    target = start("spin.py")
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-r", "200")
    one.sampling()
    counts = []
    for number in (1, 2):
        # Not a sample may have come yet; then it says so, and is asked again.
        deadline = time.monotonic() + PATIENCE_S
        line = "nothing is recorded yet"
        while "nothing is recorded yet" in line and time.monotonic() < deadline:
            one.signal(signal.SIGUSR1)
            line = one.lines.next() or ""
        interim = tmp_path / f"p.{number}.json"
        assert str(interim) in line, line
        profile = Profile.load(interim)
        assert not profile.raw["truncated"]
        counts.append(len(profile.samples))
    one.signal(signal.SIGINT)
    assert one.finish().status == 0
    counts.append(len(Profile.load(path).samples))
    assert 0 < counts[0] < counts[1] < counts[2]


def test_until_signal(start: StartTarget, running: StartRunning, tmp_path: Path) -> None:
    target = start("spin.py")
    path = tmp_path / "p.json"
    one = running("record", "-p", target.pid, "-o", path, "-r", "100", "--until-signal")
    one.lines.until("Waiting for SIGUSR2")
    one.signal(signal.SIGUSR2)
    one.sampling()
    line = "nothing is recorded yet"
    while "nothing is recorded yet" in line:
        one.signal(signal.SIGUSR1)
        line = one.lines.next() or ""
    one.signal(signal.SIGUSR2)
    done = one.finish()
    assert done.status == 0 and "second SIGUSR2" in done.err, done
    assert "spin" in " ".join(Profile.load(path).names())


def test_until_signal_that_never_comes(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    argv = ["record", "-o", path, "--until-signal", "--", main_python(), "-c", "pass"]
    done = gsprof(*argv, status=EXIT_EMPTY)
    assert "no SIGUSR2 came" in done.err


def test_collections_are_marked(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """The collector's time is marked as its own, and time that is not is not."""
    if python.version < (3, 9) or python.label.split("-")[0].endswith("t"):
        pytest.skip("needs 3.9 or later, with a GIL")
    target = start("collects.py", python=python)
    profile = record(target.pid, tmp_path / "p.json", duration_s=1.0, rate_hz=300)
    inside = [s for s in profile.samples if s.frames and s.leaf.name == "(garbage collection)"]
    assert inside and all("collects" in s.names for s in inside)
    assert not any("computes" in s.names for s in inside)
    alone = [s for s in profile.samples if s.frames and s.leaf.name == "computes"]
    assert alone
