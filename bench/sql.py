# SPDX-License-Identifier: Apache-2.0
"""SQL over rings: GROUP BY compared with a loop in C, a table of DuckDB and SQLite; a time window;
the latency of a query; and the size of a row in a Parquet file."""

from __future__ import annotations

import json
import math
import sqlite3
import statistics
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Tuple

from common import ROOT, Bench, Row, run
from support import GSPROF, Json

ROWS = 10_000_000
LOOP_BAR = 5.0
SQLITE_BAR = 40.0
FIRST_ROW_BAR_MS = 80.0
FIRST_ROWS = 10_000
MODULES = 97
PARQUET_ROWS = 1_000_000
PARQUET_BAR_BYTES = 12.0

# A synthetic trace with the columns of python.torch_trace, with jitter of nanoseconds and no GPU.
TRACE = f"""
SELECT 1700000000000000000 + i * 50000 + hash(i) % 9000 AS ts_ns, 'host' AS host, 4242 AS pid,
    0 AS rank, i // {2 * MODULES} AS step, i % {2 * MODULES} AS seq,
    'layers.' || (i % {MODULES}) || '.attn' AS module,
    CASE WHEN i % {2 * MODULES} < {MODULES} THEN 'forward' ELSE 'backward' END AS stage,
    NULL::DOUBLE AS allocated, NULL::DOUBLE AS max_allocated, NULL::DOUBLE AS cached,
    (40000 + hash(i + 7) % 9000) / 1e9 AS duration, 4242 AS thread_id, 'cpu' AS device,
    'Linear' AS class, NULL::DOUBLE AS flops
FROM range({PARQUET_ROWS}) AS t(i)
"""

# The values of bench/sql.c. SQLite has no unsigned 32-bit arithmetic; 64 bits are enough.
FILL = f"""
CREATE TABLE bench (ts_ns INTEGER, step INTEGER, duration REAL, module TEXT);
WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i + 1 < {{rows}})
INSERT INTO bench SELECT i * 1000, i / 100, (i % 1000) / 1024.0,
    'layers.' || ((((i * 2654435761) & 4294967295) >> 16) % {MODULES}) || '.attn' FROM r;
"""
GROUP = "SELECT module, count(*), avg(duration), max(duration) FROM bench GROUP BY module"

Groups = Dict[str, Tuple[int, float, float]]


def library() -> Path:
    """The DuckDB library that belongs to the gsprof under test."""
    for folder in (GSPROF.resolve().parents[2] / "subprojects" / "duckdb", GSPROF.parent):
        path = Path(folder / "libduckdb.so")
        if path.exists():
            return path
    return Path("libduckdb.so")


def build(bench: Bench) -> Path:
    """Compiles the benchmark with the libraries of the build under test."""
    exe = bench.folder / "sql"
    top = GSPROF.resolve().parents[2]
    parts = [top / "src" / part / f"lib{part}.a" for part in ("store", "ring", "wire", "model")]
    archives = [*parts, top / "src" / "base" / "libbase.a"]
    archives += sorted((top / "subprojects" / "yyjson").glob("*.a"))
    flags = ["-std=c11", "-O2", "-D_GNU_SOURCE", "-pthread", f"-I{ROOT / 'src'}"]
    flags += ["-isystem", str(ROOT / "subprojects" / "duckdb")]
    source = ROOT / "bench" / "sql.c"
    subprocess.run(["cc", *flags, "-o", exe, source, *archives, "-lm", "-ldl"], check=True)
    return exe


def in_sqlite(rows: int) -> Tuple[float, Groups]:
    with sqlite3.connect(":memory:") as db:
        db.executescript(FILL.format(rows=rows))
        begin = time.monotonic()
        groups = {name: (n, mean, most) for name, n, mean, most in db.execute(GROUP)}
        return (time.monotonic() - begin) * 1e3, groups


def equal(a: Groups, b: Groups) -> bool:
    return a.keys() == b.keys() and all(
        a[name][0] == b[name][0]
        and a[name][2] == b[name][2]
        and math.isclose(a[name][1], b[name][1], rel_tol=1e-9)
        for name in a
    )


def group(bench: Bench, exe: Path) -> None:
    rounds = bench.rounds(21)
    command = [str(exe), "group", str(ROWS), str(rounds), str(library())]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result: Json = json.loads(done.stdout)
    # The minimum of interleaved rounds, because other load can only add time.
    least: Dict[str, float] = {
        name: min(values) for name, values in result.items() if name.endswith("_ms")
    }
    shown = f"sql group {ROWS} {rounds}"
    ring = least["ring_ms"]
    sqlite_ms, sqlite_groups = in_sqlite(ROWS)
    groups: Groups = {name: (row[0], row[1], row[2]) for name, row in result["groups"].items()}
    what = "GROUP BY over 10 M rows"
    bench.add(Row("sql", f"{what}, loop in C", least["loop_ms"], "ms", command=shown))
    middle = statistics.median(result["ring_ms"])
    note = f"{least['ring_cpu_ms']:.0f} ms CPU; median {middle:.0f} ms"
    bench.add(Row("sql", f"{what} of a ring", ring, "ms", command=shown, note=note))
    ratio = ring / least["loop_ms"]
    bar = f"<= {LOOP_BAR:g}"
    bench.add(Row("sql", f"{what}, ring / loop", ratio, "x", bar, ratio <= LOOP_BAR))
    own = least["own_ms"]
    faster = own / ring
    note = f"{own:.0f} ms in a DuckDB table"
    bench.add(Row("sql", f"{what}, DuckDB table / ring", faster, "x", "> 1", faster > 1, note=note))
    faster = sqlite_ms / ring
    note = f"{sqlite_ms:.0f} ms in SQLite {sqlite3.sqlite_version}"
    bar = f">= {SQLITE_BAR:g}"
    ok = faster >= SQLITE_BAR
    bench.add(Row("sql", f"{what}, SQLite / ring", faster, "x", bar, ok, note=note))
    same = bool(result["same"]) and equal(groups, sqlite_groups)
    bench.add(Row("sql", f"{what}, all results equal", float(same), "", "1", same))
    window = "window of 1,000 of 10 M rows"
    note = f"{least['where_ms']:.1f} ms by WHERE"
    bench.add(Row("sql", f"{window}, by ts_from and ts_to", least["window_ms"], "ms", note=note))


def parquet(bench: Bench, pid: int) -> None:
    path = bench.folder / "trace.parquet"
    cost = run([GSPROF, "query", pid, TRACE, "-o", path, "--force"])
    if cost.status:
        raise RuntimeError(f"gsprof query: {cost.out}")
    value = path.stat().st_size / PARQUET_ROWS
    bar = f"<= {PARQUET_BAR_BYTES:g}"
    note = "a synthetic trace of 1 M rows"
    ok = value <= PARQUET_BAR_BYTES
    bench.add(Row("sql", "a row of a trace in Parquet", value, "bytes", bar, ok, note=note))


def first_row(bench: Bench, exe: Path) -> None:
    """A whole run of gsprof query over 10,000 rows, which is an upper bound for its first row."""
    sql = "SELECT module, count(*) FROM python.bench GROUP BY module"
    with subprocess.Popen(
        [exe, "hold", str(FIRST_ROWS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin and holder.stdout
        pid = json.loads(holder.stdout.readline())["pid"]
        times: List[float] = []
        cpu: List[float] = []
        for _ in range(bench.rounds(21)):
            cost = run([GSPROF, "query", pid, sql, "-f", "csv"])
            if cost.status or len(cost.out.splitlines()) != MODULES + 1:
                raise RuntimeError(f"gsprof query: {cost.out}")
            times.append(cost.wall_s * 1e3)
            cpu.append(cost.cpu_s * 1e3)
        parquet(bench, pid)
        holder.stdin.close()
    value = statistics.median(times)
    ok = value <= FIRST_ROW_BAR_MS
    bar = f"<= {FIRST_ROW_BAR_MS:g}"
    shown = "gsprof query PID SQL -f csv"
    note = f"the whole run; least {min(times):.0f} ms, {min(cpu):.0f} ms CPU"
    bench.add(Row("sql", "cold start, 10,000 rows", value, "ms", bar, ok, shown, note))


def main(bench: Bench) -> None:
    exe = build(bench)
    group(bench, exe)
    first_row(bench, exe)
