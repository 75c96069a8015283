# SPDX-License-Identifier: Apache-2.0
"""Accuracy: profiles of programs with known shares, at 1 kHz and at full speed, and late ticks at
10 kHz."""

from __future__ import annotations

import math
from typing import Dict, List, Mapping, Tuple

from common import FULL_SPEED_HZ, Bench, Row, floor, gsprof_argv, need, report_of, run, shown
from support import Profile, Target

LIMIT = 0.02
RATES_HZ = {"": 1000, ", full speed": FULL_SPEED_HZ}
PROGRAMS: Dict[str, Tuple[str, List[int]]] = {
    "50/30/20": ("shares.py", []),
    "50/30/20 below 61 frames": ("deep.py", [61]),
    "twenty tiny functions": ("tiny.py", []),
    "8 threads, 1 running": ("threads8.py", []),
}


def expected_distance(truth: Mapping[str, float], samples: int) -> float:
    """The mean total variation distance of a number of draws from their own distribution."""
    return sum(math.sqrt(2 * p * (1 - p) / (math.pi * samples)) for p in truth.values()) / 2


def truth_of(target: Target) -> Dict[str, float]:
    shares: Dict[str, float] = target.facts.get("shares") or target.term()["truth"]
    return shares


def distance(bench: Bench, label: str, rate_hz: int, name: str, args: List[int]) -> None:
    target = bench.target(name, *args)
    try:
        path = bench.fresh(".json")
        argv = gsprof_argv(target.pid, rate_hz, bench.seconds(6), path)
        need(run(argv), argv)
        truth = truth_of(target)
    finally:
        target.end()
    profile = Profile.load(path)
    found, total = profile.shares(list(truth))
    path.unlink()
    beyond = sum(abs(found[key] - truth[key]) for key in truth) / 2 - expected_distance(
        truth, max(1, total)
    )
    bench.add(
        Row(
            "accuracy",
            f"{label}: distance beyond chance",
            max(0.0, beyond),
            "",
            f"<= {LIMIT}",
            beyond <= LIMIT and total > 0,
            shown(argv),
            f"{total} samples, chance alone gives "
            f"{expected_distance(truth, max(1, total)):.4f}",
        )
    )


def ticks(bench: Bench) -> Tuple[float, float, str]:
    target = bench.target("spin.py", 4)
    try:
        path = bench.fresh(".gsp")
        seconds = bench.seconds(6)
        argv = gsprof_argv(target.pid, 10000, seconds, path)
        need(run(argv), argv)
    finally:
        target.end()
    raw = report_of(path)
    late = raw["losses"]["late"]
    path.unlink()
    return 1000.0 * late / (late + raw["samples"]), raw["samples"] / seconds, shown(argv)


def main(bench: Bench) -> None:
    for label, (name, args) in PROGRAMS.items():
        for rate, rate_hz in RATES_HZ.items():
            distance(bench, label + rate, rate_hz, name, args)
    target = bench.target("spin.py", 4)
    try:
        bare, bare_command = floor(bench, "awake", 10000)
    finally:
        target.end()
    alone = 1000.0 * bare["late"] / max(1, bare["count"] + bare["late"])
    late, speed, command = ticks(bench)
    bench.add(
        Row(
            "accuracy",
            "10 kHz: ticks lost by the machine (the floor)",
            alone,
            "per 1000",
            command=bare_command,
        )
    )
    # If the machine takes the CPU away for milliseconds, every sampler loses ticks.
    bench.add(
        Row(
            "accuracy",
            "10 kHz: late ticks",
            late,
            "per 1000",
            "< 1 beyond floor",
            late < 1 + 2 * alone,
            command,
        )
    )
    bench.add(
        Row(
            "accuracy", "10 kHz: samples per second", speed, "/s", ">= 9900", speed >= 9900, command
        )
    )
