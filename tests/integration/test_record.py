# SPDX-License-Identifier: Apache-2.0
"""record: every interpreter, attached to and launched, and what its flags change."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path
from typing import Dict, Tuple

import pytest

from conftest import StartTarget
from support import Profile, Python, check_shares, gsprof, illegal_pairs, program, record


def lines_of(name: str) -> Dict[str, Tuple[int, int]]:
    """First and last line of each function of a program."""
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
    profile = record(target.pid, tmp_path / "p.json", "-t", duration_s=0.8)
    assert len(profile.samples) >= 200, profile.raw["losses"]
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
    assert sum(sample.on_cpu for sample in profile.samples) >= 0.9 * len(profile.samples)
    assert profile.losses["failed"] <= 0.01 * len(profile.samples) + 2, profile.losses


def test_shape(start: StartTarget, tmp_path: Path) -> None:
    """The keys that readers of the .json rely on."""
    target = start("shares.py")
    raw = record(target.pid, tmp_path / "p.json").raw
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
    """Every stack is whole: 61 frames, none missing, none too many."""
    target = start("deep.py", 61, python=python)
    profile = record(target.pid, tmp_path / "p.json", duration_s=0.4)
    assert len(profile.samples) >= 100
    whole = 0
    for sample in profile.samples:
        assert sample.names[:59] == ["<module>"] + ["level"] * 58, sample.names
        assert len(sample.frames) <= 61
        whole += len(sample.frames) == 61 and sample.names[59] == "one_round"
    assert whole >= 0.9 * len(profile.samples)


def test_very_deep(start: StartTarget, tmp_path: Path) -> None:
    """Several chunks of frames: the end of one and the start of the next."""
    target = start("deep.py", 900)
    profile = record(target.pid, tmp_path / "p.json", duration_s=0.4, rate_hz=200)
    assert len(profile.samples) >= 30
    full = sum(len(sample.frames) >= 898 for sample in profile.samples)
    assert full >= 0.95 * len(profile.samples)


def test_torn(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """A call every few tens of nanoseconds, and no stack of two moments."""
    target = start("calls60ns.py", python=python)
    profile = record(target.pid, tmp_path / "p.json", duration_s=1.2, rate_hz=1000)
    asked = len(profile.samples) + profile.losses["torn"] + profile.losses["failed"]
    assert asked >= 500, profile.losses
    # 0.1 % and three standard deviations of a count that small.
    allowed = 0.001 * asked + 3 * (0.001 * asked) ** 0.5
    illegal = illegal_pairs(profile, target.facts["pairs"])
    assert len(illegal) <= allowed, (len(illegal), asked, illegal[:10])
    assert profile.losses["torn"] + profile.losses["failed"] <= allowed, profile.losses


def test_blocking(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """--blocking: exact stacks, and the target runs on afterwards."""
    target = start("calls60ns.py", python=python)
    profile = record(target.pid, tmp_path / "p.json", "--blocking", duration_s=0.5, rate_hz=200)
    assert len(profile.samples) >= 40
    assert not illegal_pairs(profile, target.facts["pairs"])
    assert target.alive()


def test_reused_code(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Code objects come and go at the same addresses; names, files and lines agree."""
    target = start("exec_loop.py", python=python)
    profile = record(target.pid, tmp_path / "p.json", duration_s=1.0, rate_hz=1000)
    made = [sample.leaf for sample in profile.samples if sample.leaf.name.startswith("made_")]
    assert len(made) >= 200 and len({leaf.name for leaf in made}) >= 20
    wrong = []
    for leaf in made:
        number = int(leaf.name[5:])
        if (
            not leaf.file.endswith(f"made_{number}.py")
            or leaf.first_line != number
            or not number <= leaf.line <= number + 4
        ):
            wrong.append(leaf)
    assert len(wrong) <= 0.001 * len(made) + 1, wrong[:5]


def test_tiny_functions(start: StartTarget, tmp_path: Path) -> None:
    target = start("tiny.py")
    profile = record(target.pid, tmp_path / "p.json", duration_s=2.0, rate_hz=1000)
    truth = target.facts["shares"]
    found, total = profile.shares(list(truth))
    assert total >= 0.6 * len(profile.samples) >= 600
    distance = sum(abs(found[name] - truth[name]) for name in truth) / 2
    # Mean of the distance of n draws from their own distribution, and half as much again.
    expected = sum((share * (1 - share) / total) ** 0.5 for share in truth.values()) * 0.4
    assert distance <= 1.5 * expected + 0.02, (distance, expected, found)


def test_threads(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Eight threads of which one runs: only that one is on a CPU."""
    target = start("threads8.py", python=python)
    profile = record(target.pid, tmp_path / "p.json", "-t", duration_s=0.6)
    assert len(profile.samples) >= 100
    by_name: dict[str, int] = {}
    for sample in profile.samples:
        by_name[sample.thread_name] = by_name.get(sample.thread_name, 0) + 1
    assert by_name.get("runner", 0) >= 0.95 * len(profile.samples), by_name
    check_shares(profile, {"half": 0.5, "third": 0.3, "fifth": 0.2}, slack=0.04)


def test_idle_threads(start: StartTarget, tmp_path: Path) -> None:
    """--idle brings the waiting ones, each with its own name and stack."""
    target = start("threads8.py")
    profile = record(target.pid, tmp_path / "p.json", "-t", "-i", duration_s=0.5)
    waiting: dict[str, set[str]] = {}
    for sample in profile.samples:
        waiting.setdefault(sample.thread_name, set()).update(sample.names)
    assert set(waiting) == set(target.facts["threads"])
    for name in waiting:
        if name.startswith("wait_"):
            assert name in waiting[name], (name, waiting[name])
    idle = [sample for sample in profile.samples if sample.thread_name != "runner"]
    assert sum(sample.on_cpu for sample in idle) <= 0.02 * len(idle) + 1
    assert not [sample for sample in idle if sample.gil]


def test_gil(start: StartTarget, tmp_path: Path) -> None:
    """A thread that computes without the GIL is on a CPU and does not hold it."""
    target = start("gilfree.py")
    profile = record(target.pid, tmp_path / "p.json", "-t", duration_s=0.6)
    found = [sample for sample in profile.samples if sample.thread_name == "compressor"]
    assert len(found) >= 50
    assert sum(sample.on_cpu for sample in found) >= 0.8 * len(found)
    assert sum(sample.gil for sample in found) <= 0.1 * len(found)

    busy = start("shares.py")
    profile = record(busy.pid, tmp_path / "q.json", "-g", duration_s=0.5)
    assert len(profile.samples) >= 50
    assert all(sample.gil for sample in profile.samples)


def test_by_function(start: StartTarget, tmp_path: Path) -> None:
    target = start("shares.py")
    lines = record(target.pid, tmp_path / "l.json", duration_s=0.5)
    assert len({(f.leaf.name, f.leaf.line) for f in lines.samples if f.leaf.name == "half"}) > 1
    for flag in ("--function", "--nolineno"):
        whole = record(target.pid, tmp_path / "f.json", flag, duration_s=0.5)
        for name in ("half", "third", "fifth"):
            seen = {(s.leaf.name, s.leaf.line) for s in whole.samples if s.leaf.name == name}
            assert len(seen) == 1, (flag, seen)


def test_full_filenames(start: StartTarget, tmp_path: Path) -> None:
    target = start("shares.py")
    texts = {}
    for flags in ((), ("--full-filenames",)):
        path = tmp_path / f"p{len(flags)}.folded"
        gsprof("record", "-p", target.pid, "-o", path, "-d", "0.4", *flags)
        texts[len(flags)] = path.read_text()
    assert "work.py" in texts[0] and program("work.py") not in texts[0]
    assert program("work.py") in texts[1]


def test_jitter(start: StartTarget, tmp_path: Path) -> None:
    """With --jitter the gaps differ; without, they are the period."""
    target = start("spin.py")

    def gaps(*flags: str) -> list[float]:
        profile = record(target.pid, tmp_path / "p.json", *flags, duration_s=0.8, rate_hz=100)
        times = [sample.timestamp for sample in profile.samples]
        return sorted(b - a for a, b in zip(times, times[1:]))

    steady = gaps()
    assert abs(steady[len(steady) // 2] - 0.01) < 0.001
    uneven = gaps("--jitter")
    spread = uneven[len(uneven) * 9 // 10] - uneven[len(uneven) // 10]
    assert spread > 0.002, uneven
    assert abs(sum(uneven) / len(uneven) - 0.01) < 0.002


def test_rate(start: StartTarget, tmp_path: Path) -> None:
    """No drift, no burst: as many ticks as the rate says, the missed ones counted."""
    target = start("spin.py")
    for rate in (50, 1000):
        profile = record(target.pid, tmp_path / "p.json", duration_s=1.0, rate_hz=rate)
        losses = profile.losses
        told = len(profile.samples) + losses["late"] + losses["torn"] + losses["failed"]
        assert 0.9 * rate <= told <= 1.02 * rate + 1, (rate, told, losses)


@pytest.mark.parametrize("rate", ["0", "-5", "1e9", "nan", "fast", "1000000001"])
def test_senseless_rate(rate: str, start: StartTarget, tmp_path: Path) -> None:
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


def test_launch(python: Python, tmp_path: Path) -> None:
    """Started by us: sampled from its first line, its status passed on."""
    path = tmp_path / "p.json"
    done = gsprof(
        "record",
        "-o",
        path,
        "-r",
        "500",
        "--",
        python.path,
        program("exits.py"),
        "0.4",
        "7",
        status=7,
    )
    assert json.loads(done.out.splitlines()[0])["ready"]
    profile = Profile.load(path)
    assert "busy" in profile.names()
    assert len(profile.samples) >= 50


def test_subinterpreters(python: Python, start: StartTarget, tmp_path: Path) -> None:
    target = start("subinterp.py", python=python)
    if "skip" in target.facts:
        pytest.skip(target.facts["skip"])
    profile = record(target.pid, tmp_path / "p.json", "-t", duration_s=0.5)
    spinning = [sample for sample in profile.samples if "in_sub" in sample.names]
    assert len(spinning) >= 50
    assert len(spinning) >= 0.9 * len(profile.samples)
