# SPDX-License-Identifier: Apache-2.0
"""record: every interpreter, attached to and launched, and the effect of its options."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path
from typing import Dict, List, Set, Tuple

import pytest

from conftest import StartRunning, StartTarget
from support import (
    Frame,
    Profile,
    Python,
    Sample,
    apart,
    check_distribution,
    check_rare,
    check_shares,
    gsprof,
    has_any,
    has_samples,
    has_weight,
    illegal_pairs,
    moments,
    most_by_chance,
    observations,
    program,
    record_longer,
    record_until,
    wait_until_at_rest,
)


def lines_of(name: str) -> Dict[str, Tuple[int, int]]:
    """Returns the first and last line of each function of a program."""
    tree = ast.parse(Path(program(name)).read_text())
    return {
        node.name: (node.lineno, node.end_lineno or 0)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


WORK_LINES = lines_of("work.py")


def test_attach(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Shares, lines, threads and losses on every interpreter."""
    target = start("shares.py", python=python)
    profile = record_until(has_weight(300), target.pid, tmp_path / "p.json", "-t", duration_s=0.8)
    check_shares(profile, {"half": 0.5, "third": 0.3, "fifth": 0.2}, slack=0.04)
    for sample in profile.samples:
        assert sample.names[0] == "<module>", sample
        assert sample.pid == target.pid
        assert sample.stack and len(sample.stack) >= len(sample.frames)
        leaf = sample.leaf
        if leaf.name in WORK_LINES:
            first, last = WORK_LINES[leaf.name]
            assert first <= leaf.line <= last and leaf.first_line == first, leaf
            assert leaf.file.endswith("work.py")
    assert {sample.thread_id for sample in profile.samples} == {target.pid}
    assert all(sample.on_cpu for sample in profile.samples)  # idle threads are not requested
    failed = profile.losses["failed"]
    check_rare(range(failed), len(profile.samples) + failed, 0.01)


def test_json_keys(start: StartTarget, tmp_path: Path) -> None:
    """The .json has the keys that its readers rely on."""
    target = start("shares.py")
    raw = record_until(has_any, target.pid, tmp_path / "p.json").raw
    assert raw["process_name"].startswith("python")
    assert set(raw["losses"]) >= {"torn", "late", "failed", "gone", "skipped"}
    sample = raw["samples"][0]
    assert set(sample) >= {
        "thread_id",
        "stack",
        "timestamp",
        "pid",
        "thread_name",
        "on_cpu",
        "gil",
        "frames",
    }
    assert abs(sample["timestamp"] - time.time()) < 60
    assert set(raw["frames"][0]) >= {"name", "file", "line", "first_line", "kind"}
    functions = raw["functions"]
    for row in functions.values():
        assert set(row) >= {"samples", "time", "own_samples", "own_time"}
        assert 0 <= row["own_samples"] <= row["samples"] <= len(raw["samples"])
    assert functions["<module>"]["samples"] == len(raw["samples"])
    assert sum(row["own_samples"] for row in functions.values()) == len(raw["samples"])
    times = [row["timestamp"] for row in raw["samples"]]
    assert times == sorted(times)


def test_deep(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Every stack is complete: 61 frames, none missing, none extra."""
    target = start("deep.py", 61, python=python)
    profile = record_until(has_samples(100), target.pid, tmp_path / "p.json", duration_s=0.4)
    for sample in profile.samples:
        assert sample.names[:59] == ["<module>"] + ["level"] * 58, sample.names
        assert len(sample.frames) <= 61
    seen = observations(profile.samples)
    # Samples between two functions, and in the lines of their loop.
    other = [s.names for s in seen if len(s.frames) < 61 or s.names[59] != "one_round"]
    check_rare(other, len(seen), 0.02)


def test_very_deep(start: StartTarget, tmp_path: Path) -> None:
    """The frames span several memory chunks."""
    target = start("deep.py", 900)
    profile = record_until(
        has_samples(50), target.pid, tmp_path / "p.json", duration_s=0.4, rate_hz=200
    )
    seen = observations(profile.samples)
    check_rare([len(s.frames) for s in seen if len(s.frames) < 898], len(seen), 0.01)


def test_torn(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """A call every few tens of nanoseconds, and no torn stack."""
    target = start("calls60ns.py", python=python)
    profile = record_until(
        has_samples(500), target.pid, tmp_path / "p.json", duration_s=1.2, rate_hz=1000
    )
    seen = Profile(profile.raw, observations(profile.samples))
    failed = profile.losses["torn"] + profile.losses["failed"]
    check_rare(illegal_pairs(seen, target.facts["pairs"]), len(seen.samples), 0.001)
    check_rare(range(failed), len(seen.samples) + failed, 0.001)


def test_blocking(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """--blocking: exact stacks, and the target continues afterwards."""
    target = start("calls60ns.py", python=python)
    profile = record_until(
        has_samples(40), target.pid, tmp_path / "p.json", "--blocking", duration_s=0.5, rate_hz=200
    )
    assert not illegal_pairs(profile, target.facts["pairs"])
    assert target.alive()


def test_reused_code(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Code objects are freed and created at the same addresses; names, files and lines match."""
    target = start("exec_loop.py", python=python)

    def made_in(profile: Profile) -> List[Frame]:
        leaves = [sample.leaf for sample in observations(profile.samples)]
        return [leaf for leaf in leaves if leaf.name.startswith("made_")]

    def is_enough(profile: Profile) -> bool:
        made = made_in(profile)
        return len(made) >= 200 and len({leaf.name for leaf in made}) >= 20

    profile = record_until(is_enough, target.pid, tmp_path / "p.json", rate_hz=1000)
    made = made_in(profile)
    wrong = []
    for leaf in made:
        number = int(leaf.name[5:])
        if (
            not leaf.file.endswith(f"made_{number}.py")
            or leaf.first_line != number
            or not number <= leaf.line <= number + 4
        ):
            wrong.append(leaf)
    check_rare(wrong, len(made), 0.001)


def test_tiny_functions(start: StartTarget, tmp_path: Path) -> None:
    target = start("tiny.py")
    profile = record_until(
        lambda so_far: len(moments(so_far.samples)) >= 1000,
        target.pid,
        tmp_path / "p.json",
        rate_hz=1000,
    )
    truth = target.facts["shares"]
    seen = moments(profile.samples)
    inside = [sample for sample in seen if sample.leaf.name in truth]
    # The loop that calls them uses a quarter of the time.
    outside = [sample for sample in seen if sample.leaf.name not in truth]
    check_rare(outside, len(seen), 0.4)
    check_distribution(Profile(profile.raw, inside), truth, slack=0.02)


def test_threads(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Of eight threads one runs: only that one is on a CPU."""
    target = start("threads8.py", python=python)
    profile = record_until(has_weight(300), target.pid, tmp_path / "p.json", "-t")
    seen = observations(profile.samples)
    check_rare([s.thread_name for s in seen if s.thread_name != "runner"], len(seen), 0.01)
    check_shares(profile, {"half": 0.5, "third": 0.3, "fifth": 0.2}, slack=0.04)


def test_idle_threads(start: StartTarget, tmp_path: Path) -> None:
    """--idle adds the waiting threads, each with its own name and stack."""
    target = start("threads8.py")
    threads = set(target.facts["threads"])
    wait_until_at_rest(target.pid, len(threads) - 1)

    def all_are_seen(profile: Profile) -> bool:
        return threads <= {sample.thread_name for sample in profile.samples}

    profile = record_until(all_are_seen, target.pid, tmp_path / "p.json", "-t", "-i")
    waiting: dict[str, set[str]] = {}
    for sample in profile.samples:
        waiting.setdefault(sample.thread_name, set()).update(sample.names)
    assert set(waiting) == threads
    for name in waiting:
        if name.startswith("wait_"):
            assert name in waiting[name], (name, waiting[name])
    idle = [sample for sample in profile.samples if sample.thread_name != "runner"]
    # Nothing wakes them.
    assert not [sample for sample in idle if sample.on_cpu or sample.gil]


def test_gil(start: StartTarget, tmp_path: Path) -> None:
    """A thread that computes without the GIL is on a CPU and does not hold it."""
    target = start("gilfree.py")

    def of_thread(profile: Profile) -> List[Sample]:
        return [sample for sample in profile.samples if sample.thread_name == "compressor"]

    # The thread holds the GIL for some microseconds between two calls of 0.1 s or more; if it has
    # to wait for a CPU there, it holds the GIL for a time slice of the other threads.
    profile = record_until(
        lambda so_far: len(apart(of_thread(so_far), 0.05)) >= 50,
        target.pid,
        tmp_path / "p.json",
        "-t",
        duration_s=2,
    )
    found = of_thread(profile)
    assert all(sample.on_cpu for sample in found)
    seen = apart(found, 0.05)
    check_rare([s.names for s in seen if s.gil], len(seen), 0.02)

    busy = start("shares.py")
    profile = record_until(has_samples(50), busy.pid, tmp_path / "q.json", "-g", duration_s=0.5)
    assert all(sample.gil for sample in profile.samples)


def test_by_function(start: StartTarget, tmp_path: Path) -> None:
    target = start("shares.py")

    def lines_of_leaf(profile: Profile, name: str) -> Set[int]:
        return {s.leaf.line for s in profile.samples if s.leaf.name == name}

    def all_are_seen(profile: Profile) -> bool:
        return {"half", "third", "fifth"} <= {s.leaf.name for s in profile.samples}

    path = tmp_path / "p.json"
    record_until(lambda so_far: len(lines_of_leaf(so_far, "half")) > 1, target.pid, path)
    for flag in ("--function", "--nolineno"):
        whole = record_until(all_are_seen, target.pid, path, flag, duration_s=0.5)
        for name in ("half", "third", "fifth"):
            assert len(lines_of_leaf(whole, name)) == 1, flag


def test_full_filenames(start: StartTarget, tmp_path: Path) -> None:
    target = start("shares.py")
    texts = {}
    for flags in ((), ("--full-filenames",)):
        path = tmp_path / f"p{len(flags)}.folded"
        record_longer(lambda so_far: "work.py" in so_far.read_text(), target.pid, path, *flags)
        texts[len(flags)] = path.read_text()
    assert "work.py" in texts[0] and program("work.py") not in texts[0]
    assert program("work.py") in texts[1]


def test_jitter(start: StartTarget, tmp_path: Path) -> None:
    """With --jitter the gaps vary; without it they equal the period."""
    target = start("spin.py")

    def gaps(profile: Profile) -> List[float]:
        times = [sample.timestamp for sample in profile.samples]
        return [after - before for before, after in zip(times, times[1:])]

    def exact(profile: Profile) -> List[float]:
        return [gap for gap in gaps(profile) if abs(gap - 0.01) < 0.0001]

    # With --jitter a tick comes anywhere in its slot: one gap in fifty is within a hundredth of the
    # period. Without it a busy machine delays many ticks, but far fewer.
    path = tmp_path / "p.json"
    record_until(
        lambda so_far: len(exact(so_far)) > most_by_chance(len(gaps(so_far)), 0.02),
        target.pid,
        path,
        rate_hz=100,
    )
    uneven = record_until(
        lambda so_far: len(so_far.samples) >= 200, target.pid, path, "--jitter", rate_hz=100
    )
    check_rare(exact(uneven), len(gaps(uneven)), 0.02)


def test_rate(start: StartTarget, tmp_path: Path) -> None:
    """No drift and no bursts: the number of ticks matches the rate, missed ones are counted."""
    target = start("spin.py")
    for rate in (50, 1000):
        # One recording, because its duration determines the number of ticks.
        path = tmp_path / f"{rate}.json"
        record_longer(
            lambda path: len(Profile.load(path).samples) >= 20,
            target.pid,
            path,
            duration_s=1.0,
            rate_hz=rate,
        )
        profile = Profile.load(path)
        losses = profile.losses
        counted = len(profile.samples) + losses["late"] + losses["torn"] + losses["failed"]
        # Ticks that are missed after the last sample are not counted.
        due = rate * (profile.samples[-1].timestamp - profile.raw["start_time"])
        assert counted <= due + 1, (rate, counted, due, losses)
        # The target is off the CPU briefly during a page fault.
        check_rare(range(int(due) - counted), int(due), 0.001)


@pytest.mark.parametrize("rate", ["0", "-5", "1e9", "nan", "fast", "1000000001"])
def test_invalid_rate(rate: str, start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    done = gsprof(
        "record",
        "-p",
        target.pid,
        "-o",
        tmp_path / "p.json",
        "-d",
        "0.2",
        f"--rate={rate}",
        status=64,
    )
    assert "rate" in done.err
    assert not (tmp_path / "p.json").exists()


def test_launch(python: Python, running: StartRunning, tmp_path: Path) -> None:
    """A launched program is sampled from its first line, and gsprof exits with its status."""
    path = tmp_path / "p.json"
    stop = tmp_path / "stop"
    command = (python.path, program("exits.py"), stop, "7")
    one = running("record", "-o", path, "-r", "500", "--", *command)
    one.wait_until_recording()
    one.wait_until_enough(lambda so_far: "busy" in so_far.names() and len(so_far.samples) >= 50)
    stop.touch()
    done = one.finish()
    assert done.status == 7, done
    assert json.loads(done.out.splitlines()[0])["ready"]
    profile = Profile.load(path)
    assert "busy" in profile.names() and len(profile.samples) >= 50


def test_subinterpreters(python: Python, start: StartTarget, tmp_path: Path) -> None:
    target = start("subinterp.py", python=python)
    if "skip" in target.facts:
        pytest.skip(target.facts["skip"])
    profile = record_until(has_samples(20), target.pid, tmp_path / "p.json", "-t", duration_s=0.5)
    seen = observations(profile.samples)
    check_rare([s.names for s in seen if "in_sub" not in s.names], len(seen), 0.05)
