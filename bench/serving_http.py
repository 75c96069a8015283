# SPDX-License-Identifier: Apache-2.0
"""The daemon: requests per second compared with a minimal handler of its HTTP library, late metric
frames under that load, and the cost of an idle daemon."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import List

from common import ROOT, Bench, Row
from serving import Daemon

RATE_BAR = 25_000.0
RATIO_BAR = 0.8
LATE_BAR_PCT = 0.1
IDLE_BAR_PCT = 0.2
CONNECTIONS = 64
LOADED_PERIOD_S = 0.02


def build(bench: Bench) -> Path:
    exe = bench.folder / "bare_http"
    source = ROOT / "bench" / "bare_http.c"
    command = ["cc", "-O2", "-std=c11", "-D_GNU_SOURCE", "-o", str(exe), str(source)]
    subprocess.run([*command, "-lmicrohttpd"], check=True)
    return exe


def load(url: str, seconds: int) -> float:
    """Requests per second, measured by wrk."""
    done = subprocess.run(
        ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", url],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found = re.search(r"Requests/sec:\s+([0-9.]+)", done.stdout)
    assert found and "Non-2xx" not in done.stdout, done.stdout
    return float(found[1])


def cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()
    total = float(words[0])
    for task in Path(f"/proc/{pid}/task").iterdir():
        if int(task.name) != pid:
            total += float((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total / 1e9


def throughput(bench: Bench, daemon: Daemon) -> None:
    length = len(daemon.raw("GET", "/status")[2])
    bare = subprocess.Popen(
        [str(build(bench)), str(length)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert bare.stdout is not None and bare.stdin is not None
    port = int(bare.stdout.readline())
    ours: List[float] = []
    theirs: List[float] = []
    # A higher rate than usual, to detect one late frame in a thousand.
    daemon.ask("PUT", "/config", {"sample_rate": LOADED_PERIOD_S})
    before = daemon.get("/status")
    for _ in range(bench.rounds(3)):
        theirs.append(load(f"http://127.0.0.1:{port}/status", 3))
        ours.append(load(f"{daemon.url}/status", 3))
    after = daemon.get("/status")
    bare.stdin.close()
    bare.wait()
    rate = statistics.median(ours)
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    command = f"wrk -t1 -c{CONNECTIONS} -d3s {daemon.url}/status"
    ok = rate >= RATE_BAR or ratio >= RATIO_BAR
    bar = f">= {RATE_BAR:,.0f}"
    bench.add(Row("http", "GET /status, 64 connections", rate, "1/s", bar, ok, command))
    bench.add(
        Row(
            "http",
            "GET /status / a minimal handler of libmicrohttpd",
            ratio,
            "x",
            f"or >= {RATIO_BAR:g}",
            ok,
            note=f"minimal {statistics.median(theirs):,.0f} requests/s, {length} bytes per answer",
        )
    )
    ticks = after["ticks"] - before["ticks"]
    late = after["losses"]["late_ticks"] - before["losses"]["late_ticks"]
    share = 100 * late / max(ticks + late, 1)
    bench.add(
        Row(
            "http",
            "frames omitted because they were late",
            share,
            "%",
            f"< {LATE_BAR_PCT:g}",
            share < LATE_BAR_PCT,
            note=f"{late} of {ticks + late}, at {1 / LOADED_PERIOD_S:g} Hz",
        )
    )


def idle(bench: Bench, daemon: Daemon) -> None:
    # The first frames include one-time work.
    daemon.frames(5)
    begin_s, begin = cpu_s(daemon.pid), time.monotonic()
    time.sleep(bench.rounds(20))
    share = 100 * (cpu_s(daemon.pid) - begin_s) / (time.monotonic() - begin)
    bar = f"<= {IDLE_BAR_PCT:g}"
    bench.add(Row("http", "the daemon at 5 Hz", share, "% of a core", bar, share <= IDLE_BAR_PCT))


def main(bench: Bench) -> None:
    folder = bench.folder / "serve"
    folder.mkdir()
    daemon = Daemon(folder, "--freq", "200ms")
    try:
        idle(bench, daemon)
        if shutil.which("wrk"):
            throughput(bench, daemon)
        else:
            row = Row("http", "GET /status, 64 connections", None, "1/s")
            row.note = "wrk is not installed"
            bench.add(row)
    finally:
        daemon.end()
