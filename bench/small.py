# SPDX-License-Identifier: Apache-2.0
"""The latency of short commands, and the memory that an hour of samples takes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import List, Sequence

from common import FULL_SPEED_HZ, Bench, Row, gsprof_argv, median, need, report_of, run, shown
from support import GSPROF

HOUR_AT_1KHZ = 3600000


def walls_ms(argv: Sequence[object], rounds: int) -> List[float]:
    return [need(run(argv), argv).wall_s * 1000 for _ in range(rounds)]


def waiting(bench: Bench) -> None:
    argv: List[object] = [GSPROF, "--version"]
    start = median(walls_ms(["true"], 30))
    value = median(walls_ms(argv, 50))
    bench.add(
        Row(
            "small",
            "gsprof --version, wall",
            value,
            "ms",
            "<= 5 ms",
            value <= 5,
            shown(argv),
            f"starting `true` the same way takes {start:.2f} ms",
        )
    )
    target = bench.target("deep.py", 61)
    try:
        argv = [GSPROF, "dump", "-p", target.pid]
        walls_ms(argv, 3)
        value = median(walls_ms(argv, 25))
    finally:
        target.end()
    bench.add(
        Row(
            "small",
            "gsprof dump of a warm target, wall",
            value,
            "ms",
            "<= 30 ms",
            value <= 30,
            shown(argv),
        )
    )


def peak_kb(argv: Sequence[str], quiet: bool = False) -> int:
    """The peak resident memory of a run, by polling."""
    peak = 0
    out = subprocess.DEVNULL if quiet else None
    with subprocess.Popen(argv, stdout=out, stderr=subprocess.DEVNULL) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            found = re.search(r"VmHWM:\s+(\d+)", status.read_text())
            # Before exec the child is a copy of this process.
            if found and os.path.realpath(f"/proc/{process.pid}/exe") == str(GSPROF):
                peak = int(found[1])
            time.sleep(0.02)
    if process.returncode:
        raise RuntimeError(f"{shown(argv)} failed with {process.returncode}")
    return peak


def memory(bench: Bench) -> None:
    """Records as many samples as an hour at 1 kHz gives, at full speed."""
    target = bench.target("tiny.py")
    needed = HOUR_AT_1KHZ // (10 if bench.quick else 1)
    seconds = 2.0
    try:
        while True:
            path = bench.fresh(".gsp")
            argv = gsprof_argv(target.pid, FULL_SPEED_HZ, seconds, path)
            value = peak_kb(argv) / 1024
            samples = report_of(path)["samples"]
            size = path.stat().st_size
            path.unlink()
            if samples >= needed or seconds > 60:
                break
            seconds = min(90.0, 1.2 * seconds * needed / max(1, samples) + 1)
    finally:
        target.end()
    bench.add(
        Row(
            "small",
            f"resident memory after {samples} samples",
            value,
            "MB",
            "<= 15 MB",
            0 < value <= 15 and samples >= needed,
            shown(argv),
            "an hour at 1 kHz is 3,600,000 samples",
        )
    )
    bench.add(Row("small", ".gsp on disk", size / max(1, samples), "bytes/sample"))


def main(bench: Bench) -> None:
    waiting(bench)
    memory(bench)
