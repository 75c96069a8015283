# SPDX-License-Identifier: Apache-2.0
"""Sessions: stopping a long one, its summary, many at once, and daemons that are killed."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from common import Bench, Row, median, need, run, shown
from serving import Daemon
from serving_http import cpu_s
from small import peak_kb
from support import GSPROF

TOOL = Path(GSPROF).parent.parent.parent / "tests" / "tools" / "session_load"
DAY_FRAMES = 24 * 3600 * 5
STOP_MAX_S = 2.0
EXTRA_MAX_MB = 30.0
MANY = 10000
MANY_FRAMES = 20000
CPU_MAX = 1.1
# Growth of memory per frame, in a process that does nothing else.
LEFT_MAX_BYTES = 1.0
# A shorter period than usual, for many frames in a short time.
SERVED_PERIOD = "10ms"
SERVED_WINDOWS = 5
SERVED_WINDOW_S = 3.0
STARTERS = 16
MEMORY_MAX = 1.2
KILLS = 100


def load(
    bench: Bench, *words: object, then: Optional[Callable[[Path], None]] = None
) -> Tuple[Dict[str, float], str]:
    """Runs session_load; then() gets its folder before it is removed."""
    folder = bench.fresh(".sessions")
    folder.mkdir()
    argv = [str(TOOL), str(words[0]), str(folder), *map(str, words[1:])]
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=900)
        if then:
            then(folder)
    finally:
        shutil.rmtree(folder)
    lines = done.stdout.decode().splitlines()
    for line in lines[:-1]:
        print(f"      {line}")
    command = " ".join(["session_load", str(words[0]), "FOLDER", *map(str, words[1:])])
    return json.loads(lines[-1]), command


def summary(bench: Bench, folder: Path, rows: List[Row]) -> None:
    """Runs gsprof stat on the stopped session."""
    (path,) = folder.rglob("day.json")
    what = "day" if not bench.quick else "third of a day"
    picture = folder / "day.svg"
    for words in (["stat", str(path)], ["stat", str(path), "--plot", str(picture)]):
        argv = [str(GSPROF), *words]
        cost = need(run(argv), argv)
        drawn = ", drawn" if "--plot" in words else ""
        picture.unlink(missing_ok=True)
        peak_mb = peak_kb(argv, quiet=True) / 1024
        rows.append(
            Row(
                "sessions",
                f"gsprof stat of that {what}{drawn}",
                cost.wall_s,
                "s",
                command=shown(argv),
                note=f"{cost.cpu_s:.2f} s of CPU, peak {peak_mb:.0f} MB, "
                f"a file of {path.stat().st_size / 1e6:.0f} MB",
            )
        )


def day(bench: Bench) -> None:
    frames = bench.rounds(DAY_FRAMES)
    rows: List[Row] = []
    got, command = load(bench, "day", frames, then=lambda folder: summary(bench, folder, rows))
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
    for row in rows:
        bench.add(row)


def many(bench: Bench) -> None:
    frames = bench.rounds(MANY_FRAMES)
    one, ten_thousand, memory = [], [], []
    command = ""
    for _ in range(3):  # in turns, so that other load affects both
        alone, _ = load(bench, "many", 1, frames)
        together, command = load(bench, "many", MANY, frames)
        one.append(alone["frame_cpu_us"])
        ten_thousand.append(together["frame_cpu_us"])
        memory.append(together["frame_rss_bytes"])
        note = (
            f"{min(one):.1f} and {min(ten_thousand):.1f} us of CPU per frame; "
            f"{(together['started_rss_mb'] - alone['started_rss_mb']) * 1e6 / MANY:.0f} bytes "
            f"per session"
        )
    ratio = min(ten_thousand) / min(one)
    bench.add(
        Row(
            "sessions",
            f"CPU per frame, {MANY:,} sessions / one",
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
            f"growth of memory per frame, {MANY:,} sessions",
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
            f"memory of the process, {MANY:,} sessions / one",
            together["rss_mb"] / alone["rss_mb"],
            "x",
            command=command,
            note=f"{alone['rss_mb']:.1f} and {together['rss_mb']:.1f} MB, "
            "with only the frame log and the sessions",
        )
    )


def start_some(daemon: Daemon, first: int, end: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    for i in range(first, end):
        body = json.dumps({"name": f"session_{i}"})
        connection.request("POST", "/profiling/start", body)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            break
    connection.close()


def start_sessions(daemon: Daemon, count: int) -> None:
    """Starts sessions by requests of several clients at once."""
    step = max(1, count // STARTERS)
    threads = [
        threading.Thread(target=start_some, args=(daemon, i, min(i + step, count)))
        for i in range(0, count, step)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    active = daemon.get("/status")["active_session_count"]
    if active != count:
        raise RuntimeError(f"{active} of {count} sessions are active")


class Meter:
    """The cost of a frame for a daemon. It reads /status only at the start and at the end, because
    an answer costs more than a frame."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.cpu: List[float] = []
        self.ticks = self.count()
        self.rss = self.resident()
        self.cpu_s = cpu_s(daemon.pid)

    def count(self) -> int:
        return int(self.daemon.get("/status")["ticks"])

    def resident(self) -> int:
        status = Path(f"/proc/{self.daemon.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found
        return int(found[1]) * 1024

    def window(self) -> None:
        now = cpu_s(self.daemon.pid)
        self.cpu.append(now - self.cpu_s)
        self.cpu_s = now

    def end(self) -> None:
        self.end_rss = self.resident()
        self.frames = self.count() - self.ticks
        self.frame_us = 1e6 * sum(self.cpu) / self.frames
        self.frame_bytes = (self.end_rss - self.rss) / self.frames


def served(bench: Bench) -> None:
    """Runs two daemons at the same time, so that other load affects both."""
    meters: List[Meter] = []
    daemons: List[Daemon] = []
    try:
        for count in (1, MANY):
            folder = bench.fresh(".serve")
            folder.mkdir()
            daemons.append(Daemon(folder, "--freq", SERVED_PERIOD))
            start_sessions(daemons[-1], count)
        for daemon in daemons:
            daemon.frames(50)  # includes all one-time work
            meters.append(Meter(daemon))
        for _ in range(SERVED_WINDOWS):
            time.sleep(bench.seconds(SERVED_WINDOW_S))
            for meter in meters:
                meter.window()
        for meter in meters:
            meter.end()
    finally:
        for daemon in daemons:
            daemon.end()
    one, all_of_them = meters
    # Both have the same frame rate, so the ratio of a window is that per frame.
    cpu = median([many / alone for alone, many in zip(one.cpu, all_of_them.cpu)])
    memory = all_of_them.frame_bytes / one.frame_bytes
    resident = all_of_them.end_rss / one.end_rss
    command = f"gsprof serve --freq {SERVED_PERIOD}, {MANY:,} x POST /profiling/start"
    bench.add(
        Row(
            "sessions",
            f"gsprof serve: CPU per frame, {MANY:,} sessions / one",
            cpu,
            "x",
            f"<= {CPU_MAX:g}",
            cpu <= CPU_MAX,
            command,
            f"{one.frame_us:.0f} and {all_of_them.frame_us:.0f} us per frame, over "
            f"{one.frames} and {all_of_them.frames}",
        )
    )
    bench.add(
        Row(
            "sessions",
            f"  growth of memory per frame, {MANY:,} sessions / one",
            memory,
            "x",
            f"<= {MEMORY_MAX:g}",
            memory <= MEMORY_MAX,
            command,
            f"resident memory grows by {one.frame_bytes:.0f} and "
            f"{all_of_them.frame_bytes:.0f} bytes per frame: mapped rings and frame log",
        )
    )
    bench.add(
        Row(
            "sessions",
            f"  resident memory, {MANY:,} sessions / one",
            resident,
            "x",
            command=command,
            note=f"{one.end_rss / 1e6:.1f} and {all_of_them.end_rss / 1e6:.1f} MB: "
            f"{(all_of_them.end_rss - one.end_rss) / MANY:.0f} bytes per session",
        )
    )


def kills(bench: Bench) -> None:
    got, command = load(bench, "kills", bench.rounds(KILLS))
    bench.add(
        Row(
            "sessions",
            f"acknowledged changes lost in {got['kills']:.0f} kills",
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
        raise RuntimeError(f"{TOOL} does not exist: build all targets")
    day(bench)
    many(bench)
    served(bench)
    kills(bench)
