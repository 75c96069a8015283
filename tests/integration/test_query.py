# SPDX-License-Identifier: Apache-2.0
"""gsprof query and gsprof tables: statements, output formats, limits and errors."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from conftest import StartRunning, StartTarget, StartWriter
from support import (
    EXIT_FORMAT,
    EXIT_NOFILE,
    EXIT_NOPROC,
    EXIT_NOWRITE,
    EXIT_PERM,
    EXIT_USAGE,
    Result,
    Running,
    gsprof,
    wait_for,
)
from test_arrow import read_npm

EXIT_INTR = 130
EXIT_TIMEOUT = 75

# Takes minutes on any machine.
ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = 7"

MODULES = """
    SELECT module, stage, count(*) AS calls, round(sum(duration), 6) AS total,
           max(flops) AS flops, sum(step) AS steps
    FROM python.torch_trace GROUP BY ALL ORDER BY module, stage
"""

Rows = List[Dict[str, Any]]


def test_csv_text_is_not_a_formula(runtime: Dict[str, str]) -> None:
    """Text that a spreadsheet would evaluate gets an apostrophe, except in csv-raw; numbers do
    not."""
    texts = ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "a=1", " -1"]
    values = ", ".join(f"'{text}'" for text in texts)
    sql = f'SELECT -1 AS i, -1.5 AS f, -1::HUGEINT AS h, unnest([{values}]) AS "=t"'
    here = str(os.getpid())
    for form, guarded in (("csv", True), ("csv-raw", False)):
        made = gsprof("query", here, sql, "-f", form, env=runtime).out
        head, *rows = csv.reader(io.StringIO(made, newline=""))
        prefixes = ["'" if guarded and text[0] in "=+-@\t\r\n" else "" for text in texts]
        assert head == ["i", "f", "h", "'=t" if guarded else "=t"]
        assert rows == [["-1", "-1.5", "-1", p + t] for p, t in zip(prefixes, texts)]


def test_csv_text_that_looks_like_a_formula_to_some(runtime: Dict[str, str]) -> None:
    bare = ["\uff1d1", "\uff0b1", "\uff0d1", "\uff201", "\ufeff=1", "\ufeff\ufeff\uff1d1"]
    fine = ["\uff1e1", "\ufeffx", "\ufeff"]
    values = ", ".join(f"'{text}'" for text in bare + fine)
    made = gsprof("query", os.getpid(), f"SELECT unnest([{values}]) AS t", "-f", "csv", env=runtime)
    rows = [row[0] for row in csv.reader(io.StringIO(made.out, newline=""))]
    assert rows == ["t", *("'" + text for text in bare), *fine]


def test_a_pivot_needs_its_values(runtime: Dict[str, str]) -> None:
    here, table = str(os.getpid()), "(SELECT 1 AS k, 2 AS v)"
    refused = gsprof("query", here, f"PIVOT {table} ON k USING sum(v)", env=runtime, status=None)
    assert refused.status != 0 and "ON column IN (value, ...)" in refused.err, refused
    made = gsprof(
        "query", here, f"PIVOT {table} ON k IN (1) USING sum(v)", "-f", "csv", env=runtime
    )
    assert made.out.splitlines()[-1] == "2"


def rows_of(env: Dict[str, str], endpoint: object, sql: str, *args: object) -> Rows:
    rows: Rows = json.loads(gsprof("query", endpoint, sql, "-f", "json", *args, env=env).out)
    return rows


def check_modules(rows: Rows) -> None:
    """Checks ten steps of the writer's four modules, which the head of ring_writer.c describes."""
    expected: List[Tuple[object, ...]] = []
    for i in range(4):
        expected.append((f"layer.{i}", "backward", 10, round(0.02 * (i + 1), 6), i * 1000.0))
        expected.append((f"layer.{i}", "forward", 10, round(0.01 * (i + 1), 6), i * 1000.0))
    expected.append(("optimizer", "step", 10, 0.005, None))
    found = [tuple(row[k] for k in ("module", "stage", "calls", "total", "flops")) for row in rows]
    assert found == expected
    assert all(row["steps"] == 45 for row in rows)


def test_live_then_killed(runtime: Dict[str, str], writer: StartWriter) -> None:
    target = writer("--rank", 3)
    check_modules(rows_of(runtime, target.pid, MODULES))
    assert rows_of(runtime, target.pid, "SELECT DISTINCT pid, rank FROM python.torch_trace") == [
        {"pid": target.pid, "rank": 3}
    ]
    target.end()
    result = gsprof("query", target.pid, MODULES, "-f", "json", env=runtime)
    check_modules(json.loads(result.out))
    assert "has exited" in result.err


def test_endpoint_before_or_after_the_command(runtime: Dict[str, str], writer: StartWriter) -> None:
    target = writer()
    sql = "SELECT * FROM python.torch_trace WHERE step > 7"
    first = gsprof("query", target.pid, sql, env=runtime)
    second = gsprof(target.pid, "query", sql, env=runtime)
    assert first.out == second.out and "(18 rows)" in first.out
    assert gsprof(target.pid, "tables", env=runtime).out
    # A command without an endpoint argument is not moved.
    gsprof(target.pid, "doctor", env=runtime, status=EXIT_USAGE)


def test_every_format_has_the_same_rows(
    runtime: Dict[str, str], writer: StartWriter, tmp_path: Path
) -> None:
    target = writer()
    rows = rows_of(runtime, target.pid, MODULES)
    text = gsprof("query", target.pid, MODULES, "-f", "csv", env=runtime).out
    found = list(csv.DictReader(io.StringIO(text)))
    assert [row["module"] for row in found] == [row["module"] for row in rows]
    assert [float(row["total"]) for row in found] == [row["total"] for row in rows]
    assert found[-1]["flops"] == ""
    path = tmp_path / "rows.parquet"
    gsprof("query", target.pid, MODULES, "-o", path, env=runtime)
    assert rows_of(runtime, path, "SELECT * FROM rows") == rows
    table = gsprof("query", target.pid, MODULES, env=runtime).out
    assert "optimizer" in table and "NULL" in table and "(9 rows)" in table


def test_arrow_of_a_query(runtime: Dict[str, str], writer: StartWriter, tmp_path: Path) -> None:
    target = writer()
    path = tmp_path / "rows.arrows"
    gsprof("query", target.pid, MODULES, "-o", path, env=runtime)
    rows = rows_of(runtime, target.pid, MODULES)
    found = read_npm(path)
    names = [column["name"] for column in found["columns"]]
    assert names == list(rows[0])
    module, total, steps = (names.index(name) for name in ("module", "total", "steps"))
    assert [row[module] for row in found["rows"]] == [row["module"] for row in rows]
    assert [row[total] for row in found["rows"]] == [row["total"] for row in rows]
    # The sum of integers is a 128-bit decimal.
    assert found["columns"][steps]["type"] == "Decimal[38e0]"
    assert [int(row[steps]) for row in found["rows"]] == [45] * 9
    empty = tmp_path / "empty.arrows"
    gsprof("query", target.pid, f"FROM ({MODULES}) WHERE calls < 0", "-o", empty, env=runtime)
    found = read_npm(empty)
    assert found["rows"] == [] and [c["name"] for c in found["columns"]] == names


def test_arrow_of_many_batches(
    runtime: Dict[str, str], writer: StartWriter, tmp_path: Path
) -> None:
    path = tmp_path / "many.arrows"
    sql = "SELECT range AS i, if(i % 3 = 0, NULL, 'é' || i) AS t FROM range(150000)"
    gsprof("query", writer().pid, sql, "-o", path, env=runtime)
    found = read_npm(path)
    assert len(found["batches"]) == 3 and sum(found["batches"]) == 150000
    assert found["rows"] == [[str(i), None if i % 3 == 0 else f"é{i}"] for i in range(150000)]


def test_statement_from_stdin_or_a_file(
    runtime: Dict[str, str], writer: StartWriter, tmp_path: Path
) -> None:
    pid = writer().pid
    cases: List[List[object]] = [[pid], [pid, "-"]]
    for words in cases:
        result = gsprof("query", *words, "-f", "csv", env=runtime, stdin=b"SELECT 7 AS x;")
        assert result.out == "x\n7\n"
    path = tmp_path / "q.sql"
    path.write_text("-- a comment\nSELECT 8 AS x\n", encoding="utf-8")
    assert gsprof("query", pid, "--file", path, "-f", "csv", env=runtime).out == "x\n8\n"
    gsprof("query", pid, "SELECT 1", "--file", path, env=runtime, status=EXIT_USAGE)
    gsprof("query", pid, "--file", tmp_path / "none", env=runtime, status=EXIT_NOFILE)


def test_errors_show_their_position(runtime: Dict[str, str], writer: StartWriter) -> None:
    pid = writer().pid
    sql = "SELECT module,\n       stpe\nFROM python.torch_trace"
    result = gsprof("query", pid, sql, env=runtime, status=EXIT_USAGE)
    lines = result.err.splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip() == "^")
    assert lines[at - 1].strip() == "stpe" and lines[at].index("^") == lines[at - 1].index("stpe")
    assert "did you mean step?" in result.err
    assert result.out == ""
    result = gsprof("query", pid, "FROM python.torch_trce", env=runtime, status=EXIT_USAGE)
    assert "torch_trace" in result.err
    gsprof("query", pid, "SELEC 1", env=runtime, status=EXIT_USAGE)
    gsprof("query", pid, "", env=runtime, status=EXIT_USAGE)


@pytest.mark.parametrize(
    "sql",
    [
        "DROP VIEW python.torch_trace",
        "CREATE TABLE t(x INT)",
        "SELECT 1; DROP VIEW python.torch_trace",
        "PRAGMA show_tables",
        "SET threads=1",
    ],
)
def test_only_select_is_allowed(runtime: Dict[str, str], writer: StartWriter, sql: str) -> None:
    result = gsprof("query", writer().pid, sql, env=runtime, status=EXIT_PERM)
    assert "gsprof tables" in result.err


# Comments and several statements, like in the documentation.
SEVERAL = """-- List available tables
SELECT table_name FROM information_schema.tables;

-- Query torch traces
SELECT * FROM python.torch_trace WHERE step > 100;

-- Query backtraces; with a semicolon
SELECT func FROM python.backtrace;
"""


def test_several_statements(runtime: Dict[str, str], start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py", env=runtime)
    (tmp_path / "pasted.sql").write_text(SEVERAL)
    answers = [
        gsprof("query", target.pid, SEVERAL, env=runtime).out,
        gsprof(target.pid, "query", SEVERAL, env=runtime).out,
        gsprof("query", target.pid, "--file", tmp_path / "pasted.sql", env=runtime).out,
        gsprof("query", target.pid, "-", env=runtime, stdin=SEVERAL.encode()).out,
    ]
    for answer in answers:
        tables, traces, stacks = answer.split("\n\n")
        assert "torch_trace" in tables and "max_allocated" in traces.splitlines()[0]
        assert traces.endswith("(0 rows)") and "spin" in stacks
    text = gsprof("query", target.pid, "--c\nSELECT 1 AS a;SELECT $$;$$ AS b", "-f", "json").out
    decoder = json.JSONDecoder()
    first, end = decoder.raw_decode(text)
    assert [first, json.loads(text[end:])] == [[{"a": 1}], [{"b": ";"}]]


def test_formats_and_options_for_one_statement(
    runtime: Dict[str, str], writer: StartWriter, tmp_path: Path
) -> None:
    pid = writer().pid
    options: List[List[object]] = [["-f", "arrow"], ["-o", tmp_path / "x.csv"], ["--param", 1]]
    for more in options:
        result = gsprof("query", pid, "SELECT 1; SELECT 2", *more, env=runtime, status=EXIT_USAGE)
        assert "accepts only one statement" in result.err
    # An error ends the query; the message shows its place in the whole text.
    result = gsprof(
        "query",
        pid,
        "SELECT 41;\n SELECT stpe FROM python.torch_step; SELECT 43",
        env=runtime,
        status=EXIT_USAGE,
    )
    assert "41" in result.out and "43" not in result.out
    assert " SELECT stpe" in result.err and "did you mean step" in result.err
    gsprof("query", pid, "-- nothing", env=runtime, status=EXIT_USAGE)
    result = gsprof("query", pid, "--nothing", env=runtime, status=EXIT_USAGE)
    assert "unknown option" in result.err


def test_show_tables(runtime: Dict[str, str], writer: StartWriter) -> None:
    pid = writer().pid
    shown = [row["name"] for row in rows_of(runtime, pid, "show tables;")]
    listed = rows_of(
        runtime, pid, "SELECT table_schema AS s, table_name AS t" " FROM information_schema.tables"
    )
    assert shown == sorted(f"{row['s']}.{row['t']}" for row in listed)
    assert "python.torch_trace" in shown
    columns = [row["column_name"] for row in rows_of(runtime, pid, "DESCRIBE python.torch_step")]
    assert "samples_per_sec" in columns


def test_empty_results_have_columns(
    runtime: Dict[str, str], writer: StartWriter, tmp_path: Path
) -> None:
    pid = writer().pid
    sql = "SELECT step, module FROM python.torch_trace WHERE step < 0"
    head = gsprof("query", pid, sql, env=runtime).out.splitlines()[0]
    assert head.split() == ["step", "module"]
    assert gsprof("query", pid, sql, "-f", "csv", env=runtime).out == "step,module\n"
    result = gsprof("query", pid, sql, "-f", "json", env=runtime)
    assert result.out == "[]\n" and "step, module" in result.err
    gsprof("query", pid, sql, "-o", tmp_path / "x.parquet", env=runtime)
    described = rows_of(runtime, tmp_path / "x.parquet", "DESCRIBE FROM x")
    assert [row["column_name"] for row in described] == ["step", "module"]


def test_locals_on_request(runtime: Dict[str, str], start: StartTarget) -> None:
    target = start("locals.py", env=runtime)
    sql = "SELECT func, locals FROM python.backtrace"
    assert {row["locals"] for row in rows_of(runtime, target.pid, sql)} == {None}
    rows = rows_of(runtime, target.pid, sql, "--locals")
    assert all(isinstance(json.loads(row["locals"]), dict) for row in rows)
    assert any(json.loads(row["locals"]) for row in rows), rows
    result = gsprof("query", "--locals", "localhost:1", "SELECT 1", status=EXIT_USAGE)
    assert "--locals" in result.err


def test_overwritten_rows_are_reported(runtime: Dict[str, str], writer: StartWriter) -> None:
    """With a writer at full speed, a result reports all rows missing between its first and last."""
    target = writer("--rate", 10**9, "--capacity", 300000)
    sql = "WITH rows AS (SELECT step * 9 + seq AS n FROM python.torch_trace)"
    sql += " SELECT max(n) - min(n) + 1 - count(*) AS missing FROM rows"

    def misses_rows() -> bool:
        result = gsprof("query", target.pid, sql, "-f", "csv", env=runtime)
        missing = int(result.out.split()[1] if len(result.out.split()) > 1 else 0)
        warning = re.search(r"warning: (\d+) rows of python.torch_trace", result.err)
        assert int(warning[1] if warning else 0) >= missing, str(result)
        return missing > 0

    wait_for(misses_rows, "no result lacked rows")


def test_invalid_endpoints(runtime: Dict[str, str], tmp_path: Path) -> None:
    result = gsprof("query", 2147483647, "SELECT 1", env=runtime, status=EXIT_NOPROC)
    assert "gsprof list" in result.err
    result = gsprof("query", "localhost:1", "SELECT 1", env=runtime, status=EXIT_NOPROC)
    assert "gsprof serve" in result.err
    gsprof("query", tmp_path / "none.gsp", "SELECT 1", env=runtime, status=EXIT_NOFILE)
    for name in ("bad.parquet", "bad.gsp", "bad.json"):
        path = tmp_path / name
        path.write_bytes(b"PAR1 not a valid file")
        gsprof("query", path, "SELECT 1", env=runtime, status=EXIT_FORMAT)
    gsprof("query", env=runtime, status=EXIT_USAGE)


def test_output_is_not_overwritten(
    runtime: Dict[str, str], writer: StartWriter, tmp_path: Path
) -> None:
    pid = writer().pid
    for name in ("a.csv", "a.parquet"):
        path = tmp_path / name
        path.write_text("mine", encoding="utf-8")
        result = gsprof("query", pid, "SELECT 1", "-o", path, env=runtime, status=EXIT_NOWRITE)
        assert "--force" in result.err and path.read_text(encoding="utf-8") == "mine"
        # A failing statement leaves the file unchanged and creates no other file.
        gsprof("query", pid, "SELECT x", "-o", path, "--force", env=runtime, status=EXIT_USAGE)
        assert path.read_text(encoding="utf-8") == "mine"
        gsprof("query", pid, "SELECT 1 AS x", "-o", path, "--force", env=runtime)
        assert path.read_bytes() != b"mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.parquet", "runtime"]
    gsprof("query", pid, "SELECT 1", "-o", tmp_path / "a.xyz", env=runtime, status=EXIT_USAGE)
    gsprof("query", pid, "SELECT 1", "-f", "parquet", env=runtime, status=EXIT_USAGE)
    missing = tmp_path / "none" / "a.csv"
    gsprof("query", pid, "SELECT 1", "-o", missing, env=runtime, status=EXIT_NOWRITE)


def test_limits_are_reported(runtime: Dict[str, str], writer: StartWriter) -> None:
    pid = writer().pid
    sql = "FROM range(20000)"
    assert "(10000 rows; the limit cut the result)" in gsprof("query", pid, sql, env=runtime).out
    assert "(20000 rows)" in gsprof("query", pid, sql, "--limit", 0, env=runtime).out
    result = gsprof("query", pid, sql, "-f", "csv", "--limit", 5, env=runtime)
    assert len(result.out.splitlines()) == 6 and "--limit" in result.err
    result = gsprof("query", pid, sql, "-f", "csv", env=runtime)
    assert len(result.out.splitlines()) == 20001 and result.err == ""


def test_time_is_limited(runtime: Dict[str, str], writer: StartWriter) -> None:
    result = gsprof(
        "query", writer().pid, ENDLESS, "--timeout", "200ms", env=runtime, status=EXIT_TIMEOUT
    )
    assert "--timeout" in result.err


def wait_for_handler(running: Running) -> None:
    """Waits until gsprof handles SIGINT."""

    def is_handled() -> bool:
        status = Path(f"/proc/{running.process.pid}/status").read_text(encoding="utf-8")
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
        return bool(int(caught.split()[1], 16) & (1 << (signal.SIGINT - 1)))

    wait_for(is_handled, "gsprof does not handle SIGINT")


def test_interrupt(runtime: Dict[str, str], writer: StartWriter, running: StartRunning) -> None:
    one = running("query", writer().pid, ENDLESS, env=runtime)
    wait_for_handler(one)
    one.signal(signal.SIGINT)
    result: Result = one.finish()
    assert result.status == EXIT_INTR, str(result)
    assert "interrupted" in result.err


def test_stacks_of_a_live_process(runtime: Dict[str, str], start: StartTarget) -> None:
    target = start("deep.py", 5)
    sql = "SELECT func, depth, frame_type FROM python.backtrace ORDER BY depth"
    result = gsprof("query", target.pid, sql, "-f", "json", env=runtime)
    rows = json.loads(result.out)
    assert len(rows) >= 5 and {row["frame_type"] for row in rows} == {"Python"}
    assert "no tables" in result.err


def test_a_profile_is_tables(runtime: Dict[str, str], start: StartTarget, tmp_path: Path) -> None:
    target = start("deep.py", 5)
    for name in ("p.gsp", "p.json"):
        path = tmp_path / name
        gsprof("record", "-p", target.pid, "-o", path, "-d", 0.3, "-r", 200, "--idle")
        rows = rows_of(runtime, path, "SELECT count(*) AS n FROM python.stack_sample")
        assert rows[0]["n"] > 10
        assert rows_of(runtime, path, "FROM gsprof.hot_functions()")


def test_tables(runtime: Dict[str, str], writer: StartWriter) -> None:
    target = writer()
    rows = {
        row["table"]: row
        for row in json.loads(gsprof("tables", target.pid, "--json", env=runtime).out)
    }
    assert rows["python.torch_trace"]["rows"] == 90
    assert rows["python.torch_step"]["rows"] == 10
    assert rows["system.cpu"]["rows"] == 0 and rows["system.cpu"]["description"]
    columns = json.loads(gsprof("tables", target.pid, "--columns", "--json", env=runtime).out)
    duration = next(
        row
        for row in columns
        if row["table"] == "python.torch_trace" and row["column"] == "duration"
    )
    assert duration["type"] == "DOUBLE" and duration["unit"] == "s" and duration["meaning"]
    module = next(
        row for row in columns if row["table"] == "python.torch_trace" and row["column"] == "module"
    )
    assert module["type"] == "VARCHAR"
    assert "python.torch_trace" in gsprof("tables", target.pid, env=runtime).out


def test_hostile_text_does_not_reach_the_terminal(
    runtime: Dict[str, str], writer: StartWriter
) -> None:
    sql = "SELECT chr(27) || '[31m' || chr(10) || 'x' AS \"a\x1b[0m\""
    result = gsprof("query", writer().pid, sql, env=runtime)
    assert "\x1b" not in result.out and "\\x1b" in result.out
