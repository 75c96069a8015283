# SPDX-License-Identifier: Apache-2.0
"""Shared-memory rings: the cost of an append; no torn rows; no published rows lost by a killed
writer; no slowdown of the writer by a reader."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, List, Tuple

from common import ROOT, Bench, Row
from support import GSPROF, Json

APPEND_BAR_NS = 12.0
# A call of the agent also copies the row and marks the thread as active in the rings.
AGENT_BAR_NS = 20.0
FLAT_BAR = 1.3
SCAN_BAR_PCT = 1.0
TORN_ROWS = 100_000_000
KILLS = 500
THREADS = (1, 2, 8)
KINDS = ("floor", "lane", "agent", "mutex")


def build(bench: Bench) -> Path:
    """Compiles the benchmark with the sources of ring/, at the optimization of a release."""
    exe = bench.folder / "ring"
    sources = [ROOT / "bench" / "ring.c"]
    for folder in ("agent", "ring", "wire", "base"):
        sources += sorted((ROOT / "src" / folder).glob("*.c"))
    flags = ["-std=c11", "-O2", "-D_GNU_SOURCE", '-DGSP_VERSION="bench"', "-pthread"]
    files = [str(path) for path in sources]
    command = ["cc", *flags, f"-I{ROOT / 'src'}", "-o", str(exe), *files, "-lm"]
    subprocess.run(command, check=True)
    return exe


def measure(exe: Path, *args: object) -> Json:
    """Runs the benchmark; the agent's rings are in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="gsprof-bench-", dir="/dev/shm") as folder:
        env = {**os.environ, "XDG_RUNTIME_DIR": folder}
        command = [str(exe), *map(str, args)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=env)
    result: Json = json.loads(done.stdout)
    return result


def appends(bench: Bench, exe: Path) -> None:
    """The minimum of several interleaved rounds, because other load can only add time; for the
    mutex the median, because waiting is part of its cost."""
    times: Dict[Tuple[str, int, int], List[float]] = {}
    for _ in range(bench.rounds(9)):
        for kind in KINDS:
            for threads in THREADS:
                for clock in (0, 1):
                    rows = 2_000_000 if kind == "mutex" or clock else 10_000_000
                    ns = measure(exe, "append", kind, threads, rows, clock)["ns"]
                    times.setdefault((kind, threads, clock), []).append(ns)
    best = {
        key: statistics.median(ns) if key[0] == "mutex" else min(ns) for key, ns in times.items()
    }
    for kind in KINDS:
        for threads in THREADS:
            ns = best[kind, threads, 0]
            with_clock = best[kind, threads, 1]
            # The floor gives the cost of reading the clocks.
            clock_ns = best["floor", threads, 1] - best["floor", threads, 0]
            bar = {"lane": APPEND_BAR_NS, "agent": AGENT_BAR_NS}.get(kind)
            bench.add(
                Row(
                    "ring",
                    f"append, {kind}, {threads} threads",
                    ns,
                    "ns CPU",
                    f"<= {bar:g}" if bar else "",
                    ns <= bar if bar else None,
                    f"ring append {kind} {threads} 10000000 0",
                )
            )
            bench.add(
                Row(
                    "ring",
                    f"append, {kind}, {threads} threads, reading two clocks",
                    with_clock,
                    "ns CPU",
                    f"<= {bar + clock_ns:.0f}" if bar else "",
                    with_clock <= bar + clock_ns if bar else None,
                    f"ring append {kind} {threads} 2000000 1",
                )
            )
    ratio = best["lane", 8, 0] / best["lane", 1, 0]
    bench.add(
        Row(
            "ring",
            "append, 8 threads / 1 thread",
            ratio,
            "x",
            f"<= {FLAT_BAR:g}",
            ratio <= FLAT_BAR,
        )
    )


def stress(test: str, name: str, value: int) -> str:
    """Runs one test of test_ring_stress with more rounds than `make test`."""
    exe = GSPROF.parents[2] / "tests" / "unit" / "test_ring_stress"
    done = subprocess.run(
        [exe, test],
        env={**os.environ, name: str(value)},
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{test}: {done.stdout}")
    return done.stdout


def torn(bench: Bench) -> None:
    rows = TORN_ROWS // 10 if bench.quick else TORN_ROWS
    output = stress("another_process_sees_no_torn_row", "GSPROF_TEST_ROWS", rows)
    match = re.search(r"(\d+) rows valid, (\d+) torn, (\d+) overwritten", output)
    assert match, output
    note = f"{rows:,} appends by 8 threads; {int(match[1]):,} valid rows read meanwhile"
    count = int(match[2])
    bench.add(Row("ring", "torn rows read", float(count), "rows", "0", count == 0, note=note))


def kills(bench: Bench) -> None:
    count = bench.rounds(KILLS)
    stress("published_rows_survive_a_killed_writer", "GSPROF_TEST_KILLS", count)
    note = f"{count} writers killed at random moments"
    bench.add(Row("ring", "published rows lost or invented", 0.0, "rows", "0", True, note=note))


def scans(bench: Bench, exe: Path) -> None:
    result = measure(exe, "scan", bench.rounds(60), 20_000)
    pairs = list(zip(result["alone"], result["scanned"]))
    ratio = statistics.median(scanned / alone for alone, scanned in pairs)
    slower = 100 * (ratio - 1)
    bench.add(
        Row(
            "ring",
            "a writer of 100,000 rows/s during scans at 10 Hz",
            slower,
            "% slower",
            f"<= {SCAN_BAR_PCT:g}",
            slower <= SCAN_BAR_PCT,
            "ring scan 60 20000",
            note=f"median of {len(pairs)} interleaved pairs; alone "
            f"{statistics.median(result['alone']) / 1e3:.2f} us per row with its work",
        )
    )


def main(bench: Bench) -> None:
    exe = build(bench)
    appends(bench, exe)
    torn(bench)
    kills(bench)
    scans(bench, exe)
