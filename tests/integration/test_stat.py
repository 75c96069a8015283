# SPDX-License-Identifier: Apache-2.0
"""gsprof stat: the summary and the charts of a session file."""

from __future__ import annotations

import json
import struct
import xml.etree.ElementTree as ET
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from measure import measure
from support import EXIT_EMPTY, EXIT_FORMAT, EXIT_NOFILE, EXIT_NOWRITE, EXIT_USAGE, GSPROF
from support import Json, gsprof

ZONE = timezone(timedelta(hours=1))
START = datetime(2026, 1, 31, 23, 50, tzinfo=ZONE)
SVG = "{http://www.w3.org/2000/svg}"


def frame(number: int, step_s: float) -> Dict[str, Any]:
    time = START + timedelta(seconds=number * step_s)
    return {
        "frame_id": number + 1,
        "time": time.isoformat(timespec="milliseconds"),
        "gpu_id": ["box:0:STAND-IN", "box:1:STAND-IN"],
        "gpu_util": [number % 100, 50],
        "gpu_memory": [10, None],
        "cpu": {"util_percent": 40.5, "cores": [10, 90]},
        "memory": {"used_percent": 30},
        "disk": {"sda": {"read_bytes_per_s": 1e6, "write_bytes_per_s": 0}},
        "processes": [{"pid": 42, "cpu_percent": 100, "rss_bytes": 1000000}],
    }


def session(path: Path, frames: int = 600, step_s: float = 1, **more: Any) -> Path:
    """Writes a session file like gsprof serve."""
    row: Json = {"metric": "gpu.metrics.util_percent", "device": "box:0:STAND-IN", "unit": "%"}
    numbers: Json = {"count": frames, "mean": 49.5, "std": 28.9, "min": 0, "max": 99}
    document = {
        "metadata": {
            "name": "epoch <1>",
            "host": "box",
            "start_time": START.isoformat(),
            "end_time": (START + timedelta(seconds=frames * step_s)).isoformat(),
            "duration_s": frames * step_s,
            "frequency_ms": step_s * 1000,
            "format": 1,
            "labels": {"k": "v"},
        },
        "frames": [frame(i, step_s) for i in range(frames)],
        "summary_by_device": {"box:0:STAND-IN": {"avg_gpu_util": 49.5}},
        "summary_by_client": {"box": {"avg_cpu_util": 40.5}},
        "summary": [{**row, **numbers, "p50": 49, "p95": 95, "p99": 98}],
        "losses": {"frames_lost": 0},
        "gaps": [],
        **more,
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def read_png(data: bytes) -> Tuple[int, int, List[bytes]]:
    """Returns width, height and rows of a picture; checks all checksums."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height = 8, b"", 0, 0
    kinds = []
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert zlib.crc32(kind + body) == check
        kinds.append(kind)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    assert kinds == [b"IHDR", b"IDAT", b"IEND"]
    raw = zlib.decompress(packed)
    stride = width * 3 + 1
    assert len(raw) == stride * height
    return width, height, [raw[i * stride : (i + 1) * stride] for i in range(height)]


def test_table(tmp_path: Path) -> None:
    result = gsprof("stat", session(tmp_path / "s.json"))
    assert "epoch <1> on box" in result.out and "600 frames" in result.out
    assert "gpu.metrics.util_percent" in result.out and "49.5" in result.out


def test_json(tmp_path: Path) -> None:
    document = json.loads(gsprof("stat", session(tmp_path / "s.json"), "--json").out)
    assert document["frames"] == 600 and document["metadata"]["labels"] == {"k": "v"}
    assert document["summary"][0]["p95"] == 95 and document["losses"] == {"frames_lost": 0}
    assert document["summary_by_client"]["box"]["avg_cpu_util"] == 40.5


def test_a_missing_summary_is_computed_from_the_frames(tmp_path: Path) -> None:
    path = session(tmp_path / "s.json", summary=[])
    document = json.loads(gsprof("stat", path, "--json").out)
    rows = {(row["metric"], row["device"]): row for row in document["summary"]}
    util = rows["gpu_util", "box:0:STAND-IN"]
    assert (util["min"], util["max"], util["count"]) == (0, 99, 600)
    assert util["mean"] == pytest.approx(49.5)
    assert util["p95"] is None  # unknown, not invented
    assert rows["gpu_memory", "box:0:STAND-IN"]["std"] == 0
    assert ("gpu_memory", "box:1:STAND-IN") not in rows
    assert rows["processes.rss_bytes", "42"]["mean"] == 1000000
    only = json.loads(gsprof("stat", path, "--json", "--metrics", "disk,rss").out)["summary"]
    assert {row["metric"].split(".")[0] for row in only} == {"disk", "processes"}


def test_from_a_pipe(tmp_path: Path) -> None:
    data = session(tmp_path / "s.json").read_bytes()
    assert json.loads(gsprof("stat", "-", "--json", stdin=data).out)["frames"] == 600


def test_svg_has_time_and_gpus(tmp_path: Path) -> None:
    picture = tmp_path / "s.svg"
    gsprof("stat", session(tmp_path / "s.json"), "--plot", picture)
    root = ET.parse(picture).getroot()
    words = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert "epoch <1>" in words and "box:0:STAND-IN" in words
    assert "23:50" in words and "23:58" in words  # the time zone of the file
    titles = [path.findtext(f"{SVG}title") for path in root.iter(f"{SVG}path")]
    assert "box:1:STAND-IN" in titles
    heat = [rect for rect in root.iter(f"{SVG}rect") if (rect.get("fill") or "").startswith("#")]
    assert len(heat) > 100
    assert "nan" not in picture.read_text(encoding="utf-8")


def test_gaps_interrupt_the_lines(tmp_path: Path) -> None:
    frames = [frame(i, 1) for i in range(600) if not 200 <= i < 300]
    picture = tmp_path / "s.svg"
    gsprof("stat", write(tmp_path, frames), "--plot", picture)
    root = ET.parse(picture).getroot()
    lines = [path for path in root.iter(f"{SVG}path") if path.get("class") == "line"]
    memory = [path for path in lines if path.findtext(f"{SVG}title") == "Memory"]
    assert len(memory) == 2


def write(folder: Path, frames: List[Dict[str, Any]]) -> Path:
    path = folder / "frames.json"
    path.write_text(json.dumps({"frames": frames}), encoding="utf-8")
    return path


def test_png_is_complete(tmp_path: Path) -> None:
    picture = tmp_path / "s.png"
    gsprof("stat", session(tmp_path / "s.json"), "--plot", picture)
    width, height, rows = read_png(picture.read_bytes())
    assert width == 2400 and height > 500
    # The picture is not empty: many rows differ from the row above.
    assert sum(any(row[1:]) for row in rows) > 200


def test_html_is_self_contained(tmp_path: Path) -> None:
    page = tmp_path / "s.html"
    gsprof("stat", session(tmp_path / "s.json"), "--plot", page)
    text = page.read_text(encoding="utf-8")
    assert "src=" not in text and "href=" not in text and "Content-Security-Policy" in text
    data = text.split('type="application/json">', 1)[1].split("</script>", 1)[0]
    panels = json.loads(data)["panels"]
    assert panels[0]["unit"] == "%" and len(panels[0]["lines"]) == 2
    assert len(panels[0]["lines"][0]["columns"]) > 500


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"frames": [',
        '{"frames": [1]}',
        "\x00",
        '{"frames": []}garbage',
        "[" * 5000,
    ],
)
def test_invalid_session_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text, encoding="utf-8")
    result = gsprof("stat", path, status=EXIT_FORMAT)
    assert result.out == "" and "gsprof:" in result.err


def test_invalid_use(tmp_path: Path) -> None:
    path = session(tmp_path / "s.json", frames=5)
    gsprof("stat", tmp_path / "none.json", status=EXIT_NOFILE)
    result = gsprof("stat", path, "--plot", "x.pdf", status=EXIT_USAGE)
    assert ".svg" in result.err
    picture = tmp_path / "s.svg"
    gsprof("stat", path, "--plot", picture)
    assert "--force" in gsprof("stat", path, "--plot", picture, status=EXIT_NOWRITE).err
    gsprof("stat", path, "--plot", picture, "--force")
    empty = tmp_path / "t.svg"
    gsprof("stat", path, "--plot", empty, "--metrics", "nosuch", status=EXIT_EMPTY)
    assert not empty.exists()


def test_names_cannot_harm_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07"
    row = {"metric": evil, "device": evil, "unit": evil, "count": 1, "mean": 1}
    path = session(
        tmp_path / "s.json",
        frames=2,
        summary=[row],
        losses={evil: 1},
        metadata={"name": evil, "host": evil, "start_time": evil},
    )
    assert "\x1b" not in gsprof("stat", path).out


def test_memory_is_flat(tmp_path: Path) -> None:
    """Fifty times the frames need hardly more memory."""

    def peak_mb(path: Path) -> float:
        picture = tmp_path / "p.svg"
        done = measure(GSPROF, "stat", path, "--plot", picture, "--force", "-q")
        assert done.status == 0, done
        return done.peak_mb

    small = peak_mb(session(tmp_path / "small.json", frames=1000))
    big = peak_mb(session(tmp_path / "big.json", frames=50000))
    assert big < small + 8, (small, big)
