# SPDX-License-Identifier: Apache-2.0
"""The cost of a sample for the profiler: gsprof and the peers in turns, on the same target."""

from __future__ import annotations

from typing import Dict, List, Tuple

from common import FULL_SPEED_HZ, Bench, Row, Tool, floor, median, run, shown, tools
from support import Target

TARGETS: List[Tuple[str, str, List[object]]] = [
    ("4 deep", "spin.py", [4]),
    ("60 deep", "spin.py", [60]),
    ("8 threads, 1 running", "threads8.py", []),
]


def wakeup_floor(bench: Bench) -> None:
    """The cost of a timer wake-up alone."""
    figures, command = floor(bench, "sleep", 1000)
    bench.add(
        Row(
            "cost",
            "timer wake-up alone, 1 kHz (the floor)",
            figures["cpu_ms_per_1000"],
            "ms/1000",
            command=command,
        )
    )


def in_turns(
    bench: Bench, target: Target, rate_hz: int, seconds: float, rounds: int
) -> Dict[str, Tuple[float, float, str]]:
    """Medians of CPU ms per 1,000 samples and of samples per second; the tools take turns."""
    cpu: Dict[str, List[float]] = {}
    speed: Dict[str, List[float]] = {}
    command: Dict[str, str] = {}
    for _ in range(rounds):
        for tool in tools(bench):
            one_turn(bench, tool, target, rate_hz, seconds, cpu, speed, command)
    return {name: (median(cpu[name]), median(speed[name]), command[name]) for name in cpu}


def one_turn(
    bench: Bench,
    tool: Tool,
    target: Target,
    rate_hz: int,
    seconds: float,
    cpu: Dict[str, List[float]],
    speed: Dict[str, List[float]],
    command: Dict[str, str],
) -> None:
    path = bench.fresh(tool.suffix)
    argv = tool.argv(target.pid, rate_hz, seconds, path)
    spent = run(argv, seconds if tool.interrupt else None)
    samples = tool.samples(spent, path)[0] if spent.status == 0 else 0
    path.unlink(missing_ok=True)
    if not samples:
        if tool.name == "gsprof":
            raise RuntimeError(f"{shown(argv)}: no samples\n{spent.out}")
        return
    cpu.setdefault(tool.name, []).append(spent.cpu_s * 1e6 / samples)
    speed.setdefault(tool.name, []).append(samples / spent.wall_s)
    command[tool.name] = shown(argv)


def at_1khz(bench: Bench, label: str, target: Target) -> None:
    figures = in_turns(bench, target, 1000, bench.seconds(3), bench.rounds(3))
    ours = figures["gsprof"][0]
    for name, (ms, _, command) in figures.items():
        bar, ok = "", None
        if name == "gsprof" and label.startswith("8 threads"):
            bar, ok = "<= 60 ms", ours <= 60
        bench.add(Row("cost", f"{label}, 1 kHz: {name}", ms, "ms/1000", bar, ok, command))
    for peer, limit in (("austin", 0.7), ("py-spy", 0.25)):
        if peer in figures:
            ratio = ours / figures[peer][0]
            bench.add(
                Row(
                    "cost",
                    f"{label}, 1 kHz: gsprof / {peer}",
                    ratio,
                    "x",
                    f"<= {limit} x",
                    ratio <= limit,
                )
            )
        else:
            bench.add(
                Row(
                    "cost",
                    f"{label}, 1 kHz: gsprof / {peer}",
                    None,
                    "x",
                    note=bench.missing.get(peer, "gave no samples"),
                )
            )


def at_full_speed(bench: Bench, label: str, target: Target) -> None:
    """Also measures a bare read of the target: the cost of the system call alone."""
    read, read_command = floor(bench, "read", target.pid)
    bench.add(
        Row(
            "cost",
            f"{label}, full speed: a bare read (the floor)",
            read["cpu_ms_per_1000"],
            "ms/1000",
            command=read_command,
        )
    )
    figures = in_turns(bench, target, FULL_SPEED_HZ, bench.seconds(2), bench.rounds(3))
    for name, (ms, speed, command) in figures.items():
        ours = name == "gsprof"
        bench.add(
            Row(
                "cost",
                f"{label}, full speed: {name}",
                ms,
                "ms/1000",
                "<= 4 ms" if ours else "",
                ms <= 4 if ours else None,
                command,
            )
        )
        bench.add(
            Row(
                "cost",
                f"{label}, full speed: {name}",
                speed,
                "samples/s",
                "> 200000/s" if ours else "",
                speed > 200000 if ours else None,
                command,
            )
        )


def main(bench: Bench) -> None:
    wakeup_floor(bench)
    for label, name, args in TARGETS:
        target = bench.target(name, *args)
        try:
            at_1khz(bench, label, target)
            if name == "spin.py":
                at_full_speed(bench, label, target)
        finally:
            target.end()
