# SPDX-License-Identifier: Apache-2.0
"""Each format, read by an independent reader, and conversions between formats."""

from __future__ import annotations

import gzip
import json
import os
import pstats
import shutil
import subprocess
import xml.etree.ElementTree
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from conftest import StartTarget
from support import (
    EXIT_FORMAT,
    EXIT_NOFILE,
    Profile,
    Target,
    gsprof,
    main_python,
    profile_of,
    program,
    record_longer,
)

FORMATS = {
    "json": "p.json",
    "svg": "p.svg",
    "pstats": "p.prof",
    "speedscope": "p.speedscope.json",
    "folded": "p.folded",
    "pprof": "p.pb.gz",
    "chrome": "p.trace.json",
    "gsp": "p.gsp",
}
READABLE = ["json", "pstats", "speedscope", "folded", "pprof", "gsp"]
WORK = ["half", "third", "fifth"]


def saw(*names: str) -> Callable[[Path], bool]:
    return lambda path: set(names) <= set(profile_of(path).names())


# The functions that a recording of each program must have.
SEEN = {
    "shares.py": saw(*WORK),
    "names.py": saw("größe", "函数"),
    "threads8.py": saw(*WORK, "wait_lock", "wait_select"),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of known work, of unusual names and of eight threads, each in every format."""
    folder = tmp_path_factory.mktemp("formats")
    for name in ("shares.py", "names.py", "threads8.py"):
        target = Target([main_python(), program(name)])
        try:
            (folder / name).mkdir()
            record_longer(
                SEEN[name],
                target.pid,
                folder / name / "p.gsp",
                *(["-i", "-t"] if name == "threads8.py" else []),
                duration_s=1,
                rate_hz=500,
            )
        finally:
            target.end()
        for file in FORMATS.values():
            if file != "p.gsp":
                gsprof("convert", "-i", folder / name / "p.gsp", "-o", folder / name / file)
    return folder


# ------------------------------------------------------- independent readers


def check_json(path: Path) -> List[str]:
    return Profile.load(path).names()


def check_svg(path: Path) -> List[str]:
    text = path.read_text(encoding="utf-8")
    root = xml.etree.ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not (name.endswith("href") and value.startswith("http")), value
    assert "<script>alert(1)</script>" not in text
    titles = [element.text or "" for element in root.iter() if element.tag.endswith("title")]
    return titles


def check_pstats(path: Path) -> List[str]:
    stats = pstats.Stats(str(path))
    table: Dict[Any, Any] = stats.stats  # type: ignore[attr-defined]
    assert table
    for calls, total_calls, own, total, callers in table.values():
        assert 0 <= calls <= total_calls
        assert 0 <= own <= total + 1e-9
        assert isinstance(callers, dict)
    return [name for _, _, name in table]


def check_speedscope(path: Path) -> List[str]:
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert raw["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = raw["shared"]["frames"]
    for profile in raw["profiles"]:
        assert profile["type"] == "sampled"
        assert profile["unit"] in ("nanoseconds", "microseconds", "milliseconds", "seconds", "none")
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["startValue"] <= profile["endValue"]
        assert all(0 <= index < len(frames) for stack in profile["samples"] for index in stack)
    assert len({profile["startValue"] for profile in raw["profiles"]}) == 1
    return [frame["name"] for frame in frames]


def check_folded(path: Path) -> List[str]:
    names = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        stack, count = line.rsplit(" ", 1)
        assert int(count) > 0
        names.update(stack.split(";"))
    return sorted(names)


def check_pprof(path: Path) -> List[str]:
    raw = gzip.decompress(path.read_bytes())
    assert raw
    if shutil.which("go") is None:
        return []
    done = subprocess.run(
        ["go", "tool", "pprof", "-top", "-nodecount=500", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
        env={**os.environ, "PPROF_NO_BROWSER": "1"},
    )
    assert done.returncode == 0, done.stderr.decode()
    return [line.split(None, 5)[-1] for line in done.stdout.decode().splitlines()[5:]]


def check_chrome(path: Path) -> List[str]:
    raw = json.loads(path.read_text(encoding="utf-8"))
    events = raw["traceEvents"] if isinstance(raw, dict) else raw
    last: Dict[Any, float] = {}
    depth: Dict[Any, int] = {}
    for event in events:
        key = (event["pid"], event.get("tid"))
        if event["ph"] in "BEX":
            assert event["ts"] >= last.get(key, float("-inf")), event
            last[key] = event["ts"]
        if event["ph"] in "BE":
            depth[key] = depth.get(key, 0) + (1 if event["ph"] == "B" else -1)
            assert depth[key] >= 0
    assert not any(depth.values())
    return [event["name"] for event in events if event["ph"] in "BX"]


def check_gsp(path: Path) -> List[str]:
    """The format has no other reader: uses gsprof report."""
    raw = json.loads(gsprof("report", "--json", path).out)
    return [row["function"] or "" for row in raw["top"]]


CHECKS = {
    "json": check_json,
    "svg": check_svg,
    "pstats": check_pstats,
    "speedscope": check_speedscope,
    "folded": check_folded,
    "pprof": check_pprof,
    "chrome": check_chrome,
    "gsp": check_gsp,
}


@pytest.mark.parametrize("name", FORMATS)
def test_independent_readers(name: str, recorded: Path) -> None:
    """An independent reader finds every function that did work."""
    found = CHECKS[name](recorded / "shares.py" / FORMATS[name])
    if name == "pprof" and not found:
        pytest.skip("needs go (golang-go) to read pprof files")
    for work in WORK:
        assert any(work in one for one in found), (work, found)


@pytest.mark.parametrize("name", FORMATS)
def test_unusual_names(name: str, recorded: Path) -> None:
    """Names with markup, separators, control characters, NUL, surrogates, 5,000 letters."""
    found = CHECKS[name](recorded / "names.py" / FORMATS[name])
    if name == "pprof" and not found:
        pytest.skip("needs go (golang-go) to read pprof files")
    assert any("größe" in one for one in found)
    if name != "pprof":  # its table shows only the top functions
        assert any("函数" in one for one in found)


@pytest.mark.parametrize("name", FORMATS)
def test_direct(name: str, start: StartTarget, tmp_path: Path) -> None:
    """Recording directly into a format, chosen by extension and by name."""
    target = start("shares.py")
    path = tmp_path / FORMATS[name]
    record_longer(Path.exists, target.pid, path, rate_hz=200)
    CHECKS[name](path)
    plain = tmp_path / "plain"
    record_longer(Path.exists, target.pid, plain, "-f", name)
    assert plain.stat().st_size > 0


def has_time(path: Path) -> bool:
    rows = json.loads(path.read_text(encoding="utf-8"))["functions"]
    return all(row["own_time"] is not None for row in rows.values())


def own_shares(path: Path, key: str) -> Dict[str, float]:
    """Returns the share of each function, without the module in its name."""
    rows = json.loads(path.read_text(encoding="utf-8"))["functions"]
    total = sum(row[key] for row in rows.values())
    shares: Dict[str, float] = {}
    for name, row in rows.items():
        short = name.rsplit(".", 1)[-1]
        shares[short] = shares.get(short, 0) + row[key] / total
    return shares


@pytest.mark.parametrize("name", READABLE)
def test_round_trip(name: str, recorded: Path, tmp_path: Path) -> None:
    """From each readable format back to .json: the functions and their shares are kept."""
    source = recorded / "shares.py" / FORMATS[name]
    gsprof("convert", "-i", source, "-o", tmp_path / "back.json")
    # Both have the same samples, so the result is deterministic. Folded stacks count samples, and
    # on a busy machine one sample may stand for more than a period.
    key = "own_time" if has_time(tmp_path / "back.json") else "own_samples"
    before = own_shares(recorded / "shares.py" / "p.json", key)
    after = own_shares(tmp_path / "back.json", key)
    for work in WORK:
        assert abs(after[work] - before[work]) < 0.03, (before, after)


def test_gsp_is_exact(recorded: Path, tmp_path: Path) -> None:
    """The conversion from .gsp to .json and back keeps all samples."""
    folder = recorded / "threads8.py"
    gsprof("convert", "-i", folder / "p.json", "-o", tmp_path / "again.gsp")
    gsprof("convert", "-i", tmp_path / "again.gsp", "-o", tmp_path / "again.json")
    first = Profile.load(folder / "p.json")
    second = Profile.load(tmp_path / "again.json")
    assert len(first.samples) == len(second.samples)
    for one, other in zip(first.samples, second.samples):
        assert one.names == other.names and one.thread_name == other.thread_name
        assert one.on_cpu == other.on_cpu and one.gil == other.gil
        assert abs(one.timestamp - other.timestamp) < 1e-5
    assert first.losses == second.losses


def test_threads_are_kept(recorded: Path) -> None:
    raw = json.loads((recorded / "threads8.py" / "p.speedscope.json").read_text())
    names = " ".join(profile["name"] for profile in raw["profiles"])
    for thread in ("MainThread", "runner", "wait_lock", "wait_select"):
        assert thread in names


def test_flamegraph(recorded: Path, tmp_path: Path) -> None:
    for name in READABLE:
        path = tmp_path / f"{name}.svg"
        gsprof("flamegraph", "--input", recorded / "shares.py" / FORMATS[name], "--output", path)
        assert any("half" in title for title in check_svg(path))


@pytest.mark.parametrize("name", READABLE)
def test_report(name: str, recorded: Path) -> None:
    out = gsprof("report", recorded / "shares.py" / FORMATS[name]).out
    for work in WORK:
        assert work in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100


def test_standard_streams(recorded: Path) -> None:
    """- is stdin or stdout."""
    raw = (recorded / "shares.py" / "p.pb.gz").read_bytes()
    out = gsprof("convert", "-i", "-", "-o", "-", "-f", "json", stdin=raw).out
    assert "half" in json.dumps(json.loads(out)["functions"])


# ------------------------------------------------------------------- hostile files

MALFORMED: Dict[str, bytes] = {
    "empty.json": b"",
    "brace.json": b"{",
    "list.json": b"[]",
    "deep.json": b"[" * 200000,
    "nosamples.json": b'{"process_name": "x"}',
    "types.json": b'{"process_name": 1, "samples": {"a": 1}, "functions": []}',
    "stack.json": b'{"samples": [{"thread_id": "x", "stack": [1, null], "timestamp": {}}]}',
    "index.json": b'{"frames": [], "samples": [{"thread_id": 1, "stack": ["a"], '
    b'"timestamp": 1e308, "frames": [99999999999]}]}',
    "negative.json": b'{"frames": [{"name": "a"}], "samples": [{"thread_id": -1, '
    b'"stack": ["a"], "timestamp": -1e308, "frames": [-1]}]}',
    "utf8.json": b'{"process_name": "\xff\xfe", "samples": [], "functions": {}}',
    "empty.folded": b"",
    "nocount.folded": b"a;b;c\n",
    "hugecount.folded": b"a;b 99999999999999999999999999\n",
    "binary.folded": bytes(range(256)) * 10,
    "wide.folded": b";" * 100000 + b" 1\n",
    "empty.prof": b"",
    "marshal.prof": b"{" * 100000,
    "pickle.prof": b"cos\nsystem\n(S'true'\ntR.",
    "hugelen.prof": b"{(\x03\x00\x00\x00s\xff\xff\xff\x7f",
    "empty.pb.gz": b"",
    "bomb.pb.gz": gzip.compress(b"\x00" * 50_000_000),
    "short.pb.gz": gzip.compress(b"\x0a\xff\xff\xff\xff\x0f"),
    "cut.pb.gz": gzip.compress(b"\x0a\x02\x08\x01" * 100)[:-8],
    "empty.gsp": b"",
    "text.gsp": b"this is not a profile at all, not even close to one\n" * 10,
    "empty.speedscope.json": b"{}",
    "schema.speedscope.json": b'{"$schema": "https://www.speedscope.app/file-format-schema.json",'
    b'"shared": {"frames": [{"name": "a"}]}, "profiles": [{"type": '
    b'"sampled", "samples": [[0, 5, -1]], "weights": [1e400]}]}',
    "evented.speedscope.json": b'{"$schema": "https://www.speedscope.app/file-format-schema.json",'
    b'"shared": {"frames": [{"name": "a"}]}, "profiles": [{"type": "evented", "unit": '
    b'"none", "name": "x", "startValue": 0, "endValue": 1, '
    b'"events": [{"type": "C", "at": 0, "frame": 0}]}]}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_hostile_file(name: str, tmp_path: Path) -> None:
    """An error message and no crash; no partial output; bounded memory."""
    path = tmp_path / name
    path.write_bytes(MALFORMED[name])
    limit = ["prlimit", "--as=1500000000"] if shutil.which("prlimit") else []
    done = gsprof("convert", "-i", path, "-o", tmp_path / "out.svg", status=None, before=limit)
    if done.status:
        assert done.status in (EXIT_FORMAT, 1), done
        assert done.err.startswith("gsprof: ")
        assert not (tmp_path / "out.svg").exists()
    assert not [entry for entry in tmp_path.iterdir() if entry.name not in (name, "out.svg")]
    assert gsprof("report", path, status=None).status in (0, 1, EXIT_FORMAT)


@pytest.mark.parametrize("name", READABLE)
def test_damaged_files(name: str, recorded: Path, tmp_path: Path) -> None:
    """Truncated and overwritten at many offsets: every result is accepted except a crash."""
    whole = (recorded / "shares.py" / FORMATS[name]).read_bytes()
    path = tmp_path / FORMATS[name]
    for i in range(24):
        at = len(whole) * i // 24
        damaged = whole[:at] if i % 2 else whole[:at] + b"\xff\x80\x00\x7f" + whole[at + 4 :]
        path.write_bytes(damaged)
        gsprof("report", path, status=None)


def test_cut_gsp_keeps_the_rest(recorded: Path, tmp_path: Path) -> None:
    """The file of a killed recorder: complete blocks are read."""
    whole = (recorded / "shares.py" / "p.gsp").read_bytes()
    path = tmp_path / "cut.gsp"
    path.write_bytes(whole[: len(whole) * 9 // 10])
    gsprof("convert", "-i", path, "-o", tmp_path / "cut.json")
    full = len(Profile.load(recorded / "shares.py" / "p.json").samples)
    cut = len(Profile.load(tmp_path / "cut.json").samples)
    assert 0.2 * full <= cut <= full


def test_no_such_file(tmp_path: Path) -> None:
    done = gsprof(
        "convert", "-i", tmp_path / "none.json", "-o", tmp_path / "o.svg", status=EXIT_NOFILE
    )
    assert "none.json" in done.err
    gsprof("report", tmp_path / "none.json", status=EXIT_NOFILE)
