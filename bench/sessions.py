# SPDX-License-Identifier: Apache-2.0
"""What sessions cost: the stop of a long one, many at once, and kills of their daemon."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Dict, Tuple

from common import Bench, Row
from support import GSPROF

TOOL = Path(GSPROF).parent.parent.parent / "tests" / "tools" / "session_load"
DAY_FRAMES = 24 * 3600 * 5
STOP_MAX_S = 2.0
EXTRA_MAX_MB = 30.0
MANY = 10000
MANY_FRAMES = 20000
CPU_MAX = 1.1
# Of a process that does nothing else: what one frame may leave behind in memory.
LEFT_MAX_BYTES = 1.0
KILLS = 100


def load(bench: Bench, *words: object) -> Tuple[Dict[str, float], str]:
    folder = bench.fresh(".sessions")
    folder.mkdir()
    argv = [str(TOOL), str(words[0]), str(folder), *map(str, words[1:])]
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=900)
    finally:
        shutil.rmtree(folder)
    lines = done.stdout.decode().splitlines()
    for line in lines[:-1]:
        print(f"      {line}")
    command = " ".join(["session_load", str(words[0]), "FOLDER", *map(str, words[1:])])
    return json.loads(lines[-1]), command


def day(bench: Bench) -> None:
    frames = bench.rounds(DAY_FRAMES)
    got, command = load(bench, "day", frames)
    share = frames / DAY_FRAMES
    note = (
        f"{got['frames']:.0f} frames, a file of {got['file_mb']:.0f} MB, "
        f"{got['stop_cpu_s']:.2f} s of CPU; a frame took {got['frame_cpu_us']:.0f} us of CPU"
    )
    bench.add(
        Row(
            "sessions",
            "stop of a session of 24 h at 5 Hz" if share == 1 else "stop of a session of 8 h",
            got["stop_s"],
            "s",
            f"<= {STOP_MAX_S * share:.2g} s",
            got["stop_s"] <= STOP_MAX_S * share and got["frames"] == frames,
            command,
            note,
        )
    )
    bench.add(
        Row(
            "sessions",
            "  extra memory of the stop",
            got["extra_mb"],
            "MB",
            f"<= {EXTRA_MAX_MB:g} MB",
            got["extra_mb"] <= EXTRA_MAX_MB,
            command,
        )
    )


def many(bench: Bench) -> None:
    frames = bench.rounds(MANY_FRAMES)
    one, ten_thousand, memory = [], [], []
    command = ""
    for _ in range(3):  # side by side: the machine's other work hits both
        alone, _ = load(bench, "many", 1, frames)
        together, command = load(bench, "many", MANY, frames)
        one.append(alone["frame_cpu_us"])
        ten_thousand.append(together["frame_cpu_us"])
        memory.append(together["frame_rss_bytes"])
        note = (
            f"{min(one):.1f} and {min(ten_thousand):.1f} us of CPU a frame; "
            f"{(together['started_rss_mb'] - alone['started_rss_mb']) * 1e6 / MANY:.0f} bytes "
            f"a session"
        )
    ratio = min(ten_thousand) / min(one)
    bench.add(
        Row(
            "sessions",
            f"CPU of a frame with {MANY:,} sessions, of that with one",
            ratio,
            "x",
            f"<= {CPU_MAX:g}",
            ratio <= CPU_MAX,
            command,
            note,
        )
    )
    bench.add(
        Row(
            "sessions",
            f"memory that a frame leaves behind with {MANY:,} sessions",
            max(memory),
            "bytes",
            f"<= {LEFT_MAX_BYTES:g}",
            max(memory) <= LEFT_MAX_BYTES,
            command,
        )
    )
    bench.add(
        Row(
            "sessions",
            f"memory of the process with {MANY:,} sessions, of that with one",
            together["rss_mb"] / alone["rss_mb"],
            "x",
            command=command,
            note=f"{alone['rss_mb']:.1f} and {together['rss_mb']:.1f} MB, "
            "of a process that has the log and the sessions and nothing else",
        )
    )


def kills(bench: Bench) -> None:
    got, command = load(bench, "kills", bench.rounds(KILLS))
    bench.add(
        Row(
            "sessions",
            f"acknowledged and not so after {got['kills']:.0f} kills",
            got["wrong"],
            "",
            "0",
            got["wrong"] == 0,
            command,
            f"{got['frames']:.0f} frames, {got['started']:.0f} sessions started, "
            f"{got['stopped']:.0f} stopped, {got['restarts']:.0f} restarts marked",
        )
    )


def main(bench: Bench) -> None:
    if not TOOL.exists():
        raise RuntimeError(f"no {TOOL}: build all targets")
    day(bench)
    many(bench)
    kills(bench)
