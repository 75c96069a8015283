# SPDX-License-Identifier: Apache-2.0
"""gsprof report: the document of a run, a session or a profile, and every output format."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from conftest import StartWriter
from measure import measure
from support import (
    EXIT_EMPTY,
    EXIT_FORMAT,
    EXIT_NOFILE,
    EXIT_NOPROC,
    EXIT_NOWRITE,
    EXIT_USAGE,
    GSPROF,
    gsprof,
)

Json = Dict[str, Any]

START_S = 1_700_000_000
START_NS = START_S * 1_000_000_000
# The SQL that creates each table of the run.
TABLES = {
    "process.metrics": "SELECT ({ns} + i * 200000000)::BIGINT AS ts_ns, 'box' AS host, 42::BIGINT"
    " AS pid, 'python3' AS name, CASE WHEN i = 3 THEN 'nan'::DOUBLE WHEN i = 4 THEN 'inf'::DOUBLE"
    " ELSE 80.0 END AS cpu_percent, (200000000 + i * 400000)::BIGINT AS rss_bytes, 'R' AS state"
    " FROM range(100) AS t(i)",
    "gpu.metrics": "SELECT ({ns} + i * 200000000)::BIGINT AS ts_ns, 'box' AS host, 0::BIGINT AS"
    " gpu, CASE WHEN i < 50 THEN 0.0 ELSE 90.0 END AS util_percent FROM range(100) AS t(i)",
    "python.torch_step": "SELECT ({ns} + (i + 1) * 100000000)::BIGINT AS ts_ns, 'box' AS host,"
    " 42::BIGINT AS pid, 0::BIGINT AS rank, i AS step, CASE WHEN i = 7 THEN 'inf'::DOUBLE WHEN"
    " i = 150 THEN 2.0 ELSE 0.1 END AS duration, true AS sampled FROM range(200) AS t(i)",
    "python.torch_trace": "SELECT ({ns} + i * 1000000)::BIGINT AS ts_ns, 'box' AS host, 42::BIGINT"
    " AS pid, 0::BIGINT AS rank, i // 10 AS step, 'layers.' || (i % 5) AS module, 'forward' AS"
    " stage, 'Linear' AS class, 0.001 * (1 + i % 5) AS duration FROM range(2000) AS t(i)",
    "python.span": "SELECT ({ns} + i * 1000000000 + 900000000)::BIGINT AS ts_ns, 'box' AS host,"
    " 42::BIGINT AS pid, i AS span_id, CASE WHEN i % 2 = 0 THEN 'load' ELSE '</script>' END AS"
    " name, ({ns} + i * 1000000000)::BIGINT AS start_ns, 900000000::BIGINT AS duration_ns,"
    " 42::BIGINT AS thread_id FROM range(20) AS t(i)",
}


def made_profile() -> Json:
    """Returns twenty seconds of a main thread at ten samples a second: first loading, then
    training."""
    samples = [
        {
            "thread_id": 42,
            "stack": ["main", "loader.load" if i < 100 else "model.forward"],
            "timestamp": START_S + i / 10,
        }
        for i in range(200)
    ]
    return {"process_name": "python3 train.py", "pid": 42, "rate": 10, "samples": samples}


@pytest.fixture(scope="module", name="run")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Creates the folder of a run that has every table."""
    folder = tmp_path_factory.mktemp("report")
    profile = folder / "profile.json"
    profile.write_text(json.dumps(made_profile()))
    run = folder / "run"
    gsprof("convert", "-i", profile, "-o", f"{run}/")
    for table, sql in TABLES.items():
        gsprof("query", profile, sql.format(ns=START_NS), "-o", run / f"{table}.parquet")
    return run


def made_session() -> Json:
    frames = [
        {
            "frame_id": i + 1,
            "time": f"2026-01-31T12:00:{i / 10:06.3f}+01:00",
            "gpu_id": ["box:0:A100"],
            "gpu_util": [50 + 50 * math.sin(i / 10)],
            "cpu": {"util_percent": i % 100},
            "processes": [
                {"pid": 42, "name": "python3", "cpu_percent": 99.0, "rss_bytes": 10**8}
            ],
        }
        for i in range(500)
    ]
    metadata = {"name": "epoch", "host": "box", "duration_s": 50, "format": 1, "stacks": []}
    return {"metadata": metadata, "frames": frames, "losses": {"frames_lost": 3, "gaps": 0}}


@pytest.fixture(scope="module", name="session_file")
def make_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("session") / "epoch.json"
    path.write_text(json.dumps(made_session()))
    return path


def document(*args: object) -> Json:
    """Returns the document, which must not contain NaN or Infinity."""

    def reject(word: str) -> None:
        raise AssertionError(f"{word} is not valid JSON")

    found: Json = json.loads(gsprof("report", *args, "-f", "json").out, parse_constant=reject)
    check(found)
    return found


# ------------------------------------------------------------------------------- the format


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_columns(part: Json, keys: str) -> int:
    """The arrays of one object have equal lengths."""
    lengths = {len(part[key]) for key in keys.split()}
    assert len(lengths) == 1, keys
    return int(lengths.pop())


def check_stacks(stacks: Json) -> None:
    frames, nodes, samples = stacks["frames"], stacks["nodes"], stacks["samples"]
    assert stacks["unit"] in ("s", "samples", "bytes")
    for frame in frames:
        assert isinstance(frame["func"], str) and isinstance(frame["file"], str)
        assert frame["line"] is None or frame["line"] > 0
        assert frame["type"] in ("Python", "Native", "Kernel", "Mark")
    check_columns(nodes, "parent frame")
    assert all(-1 <= parent < i for i, parent in enumerate(nodes["parent"]))
    assert all(0 <= frame < len(frames) for frame in nodes["frame"])
    count = check_columns(samples, "thread node weight")
    assert samples["seen"] >= count
    assert all(-1 <= node < len(nodes["parent"]) for node in samples["node"])
    assert all(0 <= thread < len(stacks["threads"]) for thread in samples["thread"])
    if "t" in samples:
        assert check_columns(samples, "t node") == count and samples["t"] == sorted(samples["t"])
    if "on_cpu" in samples:
        assert check_columns(samples, "on_cpu node") == count


def check_charts(charts: List[Json]) -> None:
    assert len({chart["id"] for chart in charts}) == len(charts)
    for chart in charts:
        assert chart["title"] and isinstance(chart["unit"], str) and chart["series"]
        for series in chart["series"]:
            assert check_columns(series, "t v") <= 20000 and series["name"]
            assert all(map(is_number, series["t"])) and series["t"] == sorted(series["t"])
            assert all(v is None or is_number(v) for v in series["v"])


def check_events(found: Json) -> None:
    for module in found.get("modules", []):
        assert module["module"] and module["stage"] and module["calls"] > 0
        assert module["p50_s"] <= module["p90_s"] <= module["p99_s"] <= module["max_s"]
    if "steps" in found:
        check_columns(found["steps"], "step t duration_s rank")
    if "spans" in found:
        spans = found["spans"]
        check_columns(spans, "name t duration_s thread depth")
        assert all(0 <= name < len(spans["names"]) for name in spans["name"])
        assert all(0 <= thread < len(spans["threads"]) for thread in spans["thread"])


def check(found: Json) -> None:
    """Checks a document against docs/formats/report.md, as far as a single document allows."""
    assert found["format"] == "gsprof-report" and found["version"] == 1
    assert found["kind"] in ("run", "session", "profile")
    assert isinstance(found["title"], str) and found["title"] and found["gsprof"]
    assert found["start_ns"] is None or int(found["start_ns"]) > 0
    assert found["duration_s"] is None or found["duration_s"] > 0
    for fact in found["facts"]:
        assert fact["name"] and isinstance(fact["value"], str)
    for card in found["cards"]:
        assert card["id"] and card["title"] and card["value"]
        assert card["tone"] in ("plain", "good", "warn", "bad")
    assert 1 <= len(found["verdict"]) <= 10 and all(found["verdict"])
    check_charts(found["charts"])
    if "stacks" in found:
        check_stacks(found["stacks"])
    check_events(found)
    for loss in found.get("losses", []):
        assert loss["what"] and loss["count"] > 0 and isinstance(loss["why"], str)


# -------------------------------------------------------------------------------------- forms


def test_a_run_as_document(run: Path) -> None:
    found = document(run)
    charts = {chart["id"]: chart for chart in found["charts"]}
    verdict = "\n".join(found["verdict"])
    assert found["kind"] == "run" and found["title"] == "train.py"
    assert int(found["start_ns"]) == START_NS
    assert {"cpu", "rss", "gpu_util", "steps"} <= set(charts)
    # A value that is not finite is unknown.
    assert charts["cpu"]["series"][0]["v"][2:6] == [80, None, None, 80]
    assert len(found["steps"]["step"]) == 199 and 7 not in found["steps"]["step"]
    assert [module["module"] for module in found["modules"]] == [
        f"layers.{i}" for i in range(4, -1, -1)
    ]
    assert found["spans"]["names"] == ["load", "</script>"]
    assert found["memory"]["peak_rss_bytes"] == 200000000 + 99 * 400000
    assert 1.5e6 < found["memory"]["growth_bytes_per_s"] < 2.5e6
    assert sum(found["stacks"]["samples"]["weight"]) == pytest.approx(20, abs=0.5)
    # The GPU was idle while data was loaded.
    assert "meanwhile Python was in loader.load" in verdict or "in load " in verdict, verdict
    assert "slowest 2.00 s (step 150)" in verdict and "grew by" in verdict
    assert "Slowest module: layers.4 (Linear, forward)" in verdict


def test_the_page_contains_the_document(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    printed = gsprof("report", run, "-o", page).err
    text = page.read_text()
    inside = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.S)
    assert len(inside) == 1 and json.loads(inside[0]) == document(run)
    assert f"xdg-open {page}" in printed
    assert not re.search(r'(?:src|href)="https?:', text)


def test_text_and_markdown(run: Path, tmp_path: Path) -> None:
    text = gsprof("report", run).out
    lines = document(run)["verdict"]
    assert all(line in text for line in lines) and "layers.4" in text and "Step time" in text
    markdown = tmp_path / "report.md"
    gsprof("report", run, "-o", markdown)
    assert markdown.read_text().startswith("# train.py\n") and "## Modules" in markdown.read_text()


@pytest.mark.parametrize(
    "table, count, column",
    [
        ("functions", 3, "function"),
        ("modules", 5, "p99_s"),
        ("steps", 199, "duration_s"),
        ("spans", 20, "depth"),
        ("metrics", 100, "value"),
    ],
)
def test_tables(table: str, count: int, column: str, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    gsprof("report", run, "-o", out, "--table", table)
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert len(rows) >= count and all(column in row for row in rows)


def test_a_session(session_file: Path) -> None:
    found = document(session_file)
    charts = {chart["id"]: chart["series"] for chart in found["charts"]}
    assert found["kind"] == "session" and found["title"] == "epoch" and found["duration_s"] == 50
    assert [len(charts[key]) for key in ("cpu", "rss", "gpu_util", "machine_cpu")] == [1, 1, 1, 1]
    assert charts["machine_cpu"][0]["v"][:3] == [0, 1, 2]
    assert {"what": "frames lost", "count": 3, "why": ""} in found["losses"]
    assert "epoch" in gsprof("report", session_file).out


def test_stacks_of_a_session_are_in_files_beside_it(run: Path, tmp_path: Path) -> None:
    session = made_session()
    session["metadata"]["stacks"] = [{"pid": 42, "file": "epoch_42.gsp"}]
    (tmp_path / "epoch.json").write_text(json.dumps(session))
    found = document(tmp_path / "epoch.json")
    assert "stacks" not in found and any("epoch_42" in loss["why"] for loss in found["losses"])
    (tmp_path / "epoch_42.gsp").write_bytes((run / "profile.gsp").read_bytes())
    assert document(tmp_path / "epoch.json")["stacks"]["samples"]["seen"] == 200


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_files_of_a_hostile_folder(run: Path, tmp_path: Path, kind: str) -> None:
    """A pipe would let the command wait for ever, and a link could lead to a device without end."""
    folder = tmp_path / "run"
    span = "python.span.parquet"
    assert {"profile.gsp", span} < {path.name for path in run.iterdir()}
    for name in ("profile.gsp", span, "manifest.json", "meta.json", "profile.json"):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(run, folder)
        file = folder / name
        file.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(file)
        else:
            file.symlink_to("/dev/zero")
        out = tmp_path / "out.svg"
        for command in (
            ("query", folder, "SELECT count(*) FROM python.stack_sample"),
            ("report", folder),
            ("flamegraph", "--input", folder, "--output", out, "--force"),
        ):
            found = measure(GSPROF, *command)
            assert found.status < 128 and found.peak_mb < 512, (name, command, found)


def test_long_files(tmp_path: Path) -> None:
    session = made_session()
    session["metadata"]["stacks"] = [{"pid": 42, "file": "stacks.gsp"}]
    (tmp_path / "epoch.json").write_text(json.dumps(session))
    os.mkfifo(tmp_path / "stacks.gsp")
    found = document(tmp_path / "epoch.json")
    assert any("not a regular file" in loss["why"] for loss in found["losses"])
    for name, size, words in (
        ("big.gsp", 20 << 30, "has more than"),
        ("sparse.gsp", 1 << 30, "read as gsp"),
        ("what.bin", 1 << 30, "unknown profile format"),
    ):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
        refused = measure(GSPROF, "report", tmp_path / name)
        assert refused.status == EXIT_FORMAT and words in refused.err, refused
        assert refused.peak_mb < 100, refused
    device = measure(GSPROF, "report", "/dev/zero")
    assert device.status == EXIT_FORMAT and "is a device" in device.err


def test_a_profile_from_a_pipe(run: Path) -> None:
    given = (run / "profile.gsp").read_bytes()
    assert gsprof("report", "-", stdin=given).out == gsprof("report", run / "profile.gsp").out


def test_a_profile_and_its_own_options(run: Path, tmp_path: Path) -> None:
    profile = run / "profile.gsp"
    found = document(profile)
    assert found["kind"] == "profile" and found["charts"] == []
    raw = json.loads(gsprof("report", profile, "--json").out)
    assert set(raw) == {"summary", "top", "tree"}
    assert gsprof("report", profile, "-f", "csv").out == gsprof("report", profile, "--csv").out
    assert gsprof("report", profile, "-f", "md").out == gsprof("report", profile, "--markdown").out
    assert set(json.loads(gsprof("report", run, "--json").out)) == {"summary", "top", "tree"}
    out = tmp_path / "x.json"
    gsprof("report", profile, "-o", out)
    assert json.loads(out.read_text()) == found
    assert len(document(profile, "--lines")["stacks"]["frames"]) >= 3
    gsprof("report", profile, "--lines", "-o", tmp_path / "x.html")
    assert "gsprof-report" in (tmp_path / "x.html").read_text()
    lines = gsprof("report", run, "--lines", "-f", "csv").out
    assert lines == gsprof("report", profile, "--lines", "--csv").out


def test_two_inputs_are_compared(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "both.json"
    gsprof("report", run, run / "profile.gsp", "-o", out, status=None)
    assert json.loads(out.read_text())["kind"] == "compare"


def test_a_process(writer: StartWriter, runtime: Dict[str, str], tmp_path: Path) -> None:
    target = writer("--rank", 3)
    found = json.loads(gsprof("report", target.pid, "-f", "json", env=runtime).out)
    check(found)
    assert str(target.pid) in json.dumps(found["verdict"])
    page = tmp_path / "process.html"
    gsprof("report", target.pid, "-o", page, env=runtime)
    assert "gsprof-report" in page.read_text()


# ------------------------------------------------------------------------------ invalid input


def test_thousands_of_names_and_invalid_utf8(tmp_path: Path) -> None:
    folded = tmp_path / "many.folded"
    lines = [b"main;f%d </script> 1" % i for i in range(5000)]
    folded.write_bytes(
        b"\n".join([*lines, b"main;\xff\xfe\x80 7", "main;наука🙂 3".encode()]) + b"\n"
    )
    found = document(folded)
    assert len(found["stacks"]["frames"]) == 5003 and "t" not in found["stacks"]["samples"]
    assert any("\ufffd" in frame["func"] for frame in found["stacks"]["frames"])
    page = tmp_path / "many.html"
    gsprof("report", folded, "-o", page)
    assert page.read_text().count("f77 </script>") == 0


def make_broken(run: Path, folder: Path, how: str) -> Path:
    """Creates input from which a report cannot be made, or only in part."""
    path = folder / how.replace(" ", "-")
    if how == "no such file":
        return path.with_suffix(".gsp")
    if how == "session without end":
        path = path.with_suffix(".json")
        path.write_text(json.dumps(made_session())[:3000])
    elif how == "profile without end":
        path = path.with_suffix(".json")
        path.write_text(json.dumps(made_profile())[:3000])
    else:
        path.mkdir()
    if how == "run without tables":
        (path / "meta.json").write_bytes((run / "meta.json").read_bytes())
    if how == "run with bad files":
        for source in run.iterdir():
            (path / source.name).write_bytes(source.read_bytes()[:20])
    return path


@pytest.mark.parametrize(
    "how, status, words",
    [
        ("no such file", EXIT_NOFILE, "does not exist"),
        ("empty folder", EXIT_NOFILE, "no recording in"),
        ("run without tables", EXIT_EMPTY, "nothing was recorded in"),
        ("run with bad files", EXIT_FORMAT, "profile."),
        ("session without end", EXIT_FORMAT, "not JSON"),
        ("profile without end", EXIT_FORMAT, ""),
    ],
)
def test_unreadable_input(how: str, status: int, words: str, run: Path, tmp_path: Path) -> None:
    for form in ("html", "text"):
        result = gsprof("report", make_broken(run, tmp_path / form, how), "-f", form, status=status)
        assert words in result.err and "try " in result.err and not result.out


@pytest.fixture(autouse=True)
def folders_of_forms(tmp_path: Path) -> None:
    for form in ("html", "text"):
        (tmp_path / form).mkdir()


def test_an_unfinished_run(run: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    half.mkdir()
    whole = (run / "profile.gsp").read_bytes()
    (half / "profile.gsp").write_bytes(whole[: len(whole) * 2 // 3])
    metrics = (run / "process.metrics.parquet").read_bytes()
    (half / "process.metrics.parquet").write_bytes(metrics)
    (half / "gpu.metrics.parquet").write_bytes(metrics[:100])
    found = document(half)
    assert found["charts"]
    assert any("gpu.metrics.parquet" in loss["why"] for loss in found["losses"])
    assert "Missing: " in "\n".join(found["verdict"])
    # The tables have the samples that the truncated stream lacks.
    for name in ("python.stack.parquet", "python.stack_sample.parquet"):
        (half / name).write_bytes((run / name).read_bytes())
    assert document(half)["stacks"]["samples"]["seen"] == 200


INVALID_USE: List[Tuple[List[str], int, str]] = [
    (["-f", "csv", "--table", "steps"], EXIT_EMPTY, "has no steps"),
    (["-f", "html", "--json"], EXIT_USAGE, "excludes"),
    (["-f", "pdf"], EXIT_USAGE, "pdf"),
    (["--table", "cats", "-f", "csv"], EXIT_USAGE, "cats"),
    (["-o", "no/such/folder/x.html"], EXIT_NOWRITE, "cannot write"),
    (["-o", "there.html"], EXIT_NOWRITE, "already exists"),
]


@pytest.mark.parametrize("args, status, words", INVALID_USE)
def test_invalid_use(args: List[str], status: int, words: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text("mine")
    result = gsprof("report", run / "profile.gsp", *args, status=status, cwd=tmp_path)
    assert words in result.err and "gsprof" in result.err
    assert (tmp_path / "there.html").read_text() == "mine"


def test_a_process_that_does_not_exist(tmp_path: Path) -> None:
    gsprof("report", 2**22 + 7, "-f", "json", status=EXIT_NOPROC, cwd=tmp_path)
