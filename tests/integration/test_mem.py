# SPDX-License-Identifier: Apache-2.0
"""gsprof mem record, mem report, top --mem and python.allocation: the memory of a program, read
from outside."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set

import pytest
from conftest import NEEDS_EXTENSION
from support import (
    EXIT_EMPTY,
    EXIT_FORMAT,
    EXIT_NOFILE,
    EXIT_NOWRITE,
    EXIT_USAGE,
    PATIENCE_S,
    Running,
    gsprof,
    main_python,
    wait_for,
)
from test_report_schema import check as check_document

MIB = 1 << 20

pytestmark = NEEDS_EXTENSION

# Leaks 1 MiB per step, fills a cache in the first steps, and allocates temporary memory.
LEAKS = """
import sys, time
kept, cache = [], {}
def step():
    kept.append(bytearray(1 << 20))
def warm(i):
    if i < 8:
        cache[i] = bytearray(1 << 21)
def churn():
    for _ in range(8):
        bytearray(1 << 18)
def main(steps):
    for i in range(steps):
        step()
        warm(i)
        churn()
        time.sleep(float(sys.argv[2]))  # the pace of steps: a trend needs time
main(int(sys.argv[1]))
"""
LEAK = "step (leaks.py:5)"
CACHE = "warm (leaks.py:8)"
CHURN = "churn (leaks.py:11)"
SNAPSHOTS_MIN = 24

WAITS = """
import sys, time
kept = []
def step():
    kept.append(bytearray(1 << 18))
print("ready", flush=True)
while True:
    step()
    time.sleep(0.01)  # the pace of steps
"""


@pytest.fixture(scope="module")
def leaks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exact recording of the program."""
    folder = tmp_path_factory.mktemp("mem")
    (folder / "leaks.py").write_text(LEAKS)
    output = folder / "leaks.gspm"
    args = ["--exact", "--interval", "50ms", "-o", output, "--", main_python()]
    # A trend needs enough snapshots. A busy machine takes fewer, so there the steps are slower.
    for pace_s in (0.05, 0.2, 0.8):
        done = gsprof("mem", "record", "--force", *args, folder / "leaks.py", 40, pace_s)
        assert f"gsprof mem report {output}" in done.err
        if len(report(output)["timeline"]) >= SNAPSHOTS_MIN:
            return output
    raise AssertionError(f"fewer than {SNAPSHOTS_MIN} snapshots in 30 s")


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    with subprocess.Popen([main_python(), str(script)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def report(path: Path, *args: object) -> Dict[str, Any]:
    text = gsprof("mem", "report", path, "-f", "json", *args).out
    document: Dict[str, Any] = json.loads(text)
    return document


def row(document: Dict[str, Any], name: str) -> Dict[str, Any]:
    found: List[Dict[str, Any]] = [one for one in document["rows"] if one["name"] == name]
    return found[0] if found else {"bytes": 0, "blocks": 0}


# Keeps allocating until gsprof has read the statistics of a fake torch.cuda.
DEVICE = """
import sys, time, types
asked = []
def memory_stats(device):
    asked.append(device)
    return {"allocated_bytes.all.current": 7 << 20, "reserved_bytes.all.current": 9 << 20}
sys.modules["torch.cuda"] = types.SimpleNamespace(
    is_initialized=lambda: True, device_count=lambda: 1, memory_stats=memory_stats
)
end_s = time.monotonic() + float(sys.argv[1])
while not asked and time.monotonic() < end_s:
    bytearray(1 << 20)
"""


def test_memory_of_the_device_is_in_the_timeline(tmp_path: Path) -> None:
    script, output = tmp_path / "device.py", tmp_path / "device.gspm"
    script.write_text(DEVICE)
    gsprof("mem", "record", "-o", output, "--", main_python(), script, PATIENCE_S)
    last = report(output)["timeline"][-1]
    assert (last["device_bytes"], last["device_reserved_bytes"]) == (7 * MIB, 9 * MIB), last


# Prints the number of its bytes in huge pages, and waits.
HUGE = """
import mmap, time
block = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block.madvise(mmap.MADV_HUGEPAGE)
for place in range(0, len(block), mmap.PAGESIZE):
    block[place] = 1
rows = [line.split() for line in open("/proc/self/smaps_rollup")]
print(sum(1024 * int(row[1]) for row in rows if row[0] == "AnonHugePages:"), flush=True)
time.sleep(600)
"""


def test_huge_pages_are_reported(tmp_path: Path) -> None:
    output = tmp_path / "huge.gspm"
    with subprocess.Popen([main_python(), "-c", HUGE], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            if int(process.stdout.readline() or 0) == 0:
                pytest.skip("needs transparent huge pages")
            gsprof("mem", "record", "-p", process.pid, "-d", "100ms", "-o", output)
        finally:
            process.kill()
    document = report(output)
    assert 2 * MIB <= document["peak_huge_bytes"] <= document["peak_rss_bytes"]
    assert document["transparent_hugepage"] in ("always", "madvise")
    assert "in huge pages (transparent_hugepage: " in gsprof("mem", "report", output).out


# ------------------------------------------------------------------------------- views


def test_peak_is_exact_by_line(leaks: Path) -> None:
    document = report(leaks)
    assert document["exact"] and not document["truncated"]
    # The bytes of each block and of the object header.
    assert 40 * MIB <= row(document, LEAK)["bytes"] < 40 * MIB + 8192
    assert 16 * MIB <= row(document, CACHE)["bytes"] < 16 * MIB + 4096
    assert document["peak_bytes"] == document["total"]["bytes"]
    stack = [frame["function"] for frame in row(document, LEAK)["stack"]]
    assert stack == ["step", "main", "<module>"]
    assert document["peak_rss_bytes"] > 50 * MIB
    times = [one["time_s"] for one in document["timeline"]]
    assert times == sorted(times) and len(times) >= 10


def test_the_leak_is_named_and_the_cache_is_not(leaks: Path) -> None:
    document = report(leaks, "--leaks")
    assert [one["name"] for one in document["leaks"]] == [LEAK]
    assert document["leaks"][0]["bytes_per_s"] > MIB
    text = gsprof("mem", "report", leaks, "--leaks").out
    assert LEAK in text and CACHE not in text


def test_temporary_memory(leaks: Path) -> None:
    document = report(leaks, "--temporary")
    assert document["rows"][0]["name"] == CHURN
    assert row(document, CHURN)["bytes"] > 30 * 8 * (1 << 18)
    assert row(document, LEAK)["bytes"] < MIB


def test_times_and_differences(leaks: Path) -> None:
    at_end = report(leaks, "--at", "end")
    assert row(at_end, LEAK)["bytes"] > 30 * MIB
    half = at_end["duration_s"] / 2
    grown = row(report(leaks, "--diff", f"{half},end"), LEAK)["bytes"]
    held = row(report(leaks, "--at", f"{half}"), LEAK)["bytes"]
    assert grown + held == row(at_end, LEAK)["bytes"]
    same = gsprof("mem", "report", leaks, leaks, "-f", "csv").out.splitlines()
    assert same[0].startswith("name,change_bytes")
    assert all(line.split(",")[-4] == "0" for line in same[1:])


@pytest.mark.parametrize("by", ["function", "module", "thread", "process", "allocator"])
def test_rows_by(leaks: Path, by: str) -> None:
    document = report(leaks, "--by", by)
    assert sum(one["bytes"] for one in document["rows"]) == document["total"]["bytes"]
    first = {
        "function": "step (leaks.py)",
        "module": "leaks.py",
        "thread": "(main)",
        "process": "leaks.py",
        "allocator": "pyobject",
    }
    assert first[by] in document["rows"][0]["name"]


def test_output_formats(leaks: Path, tmp_path: Path) -> None:
    for name in ("peak.svg", "peak.html", "peak.pb.gz", "peak.folded", "peak.csv"):
        gsprof("mem", "report", leaks, "-o", tmp_path / name)
    assert ET.parse(tmp_path / "peak.svg").getroot().tag.endswith("svg")
    packed = gzip.decompress((tmp_path / "peak.pb.gz").read_bytes())
    assert all(word in packed for word in (b"step", b"alloc_space", b"inuse_space"))
    weights = dict(line.rsplit(" ", 1) for line in open(tmp_path / "peak.folded"))
    assert any(stack.endswith(LEAK) for stack in weights)
    timeline = gsprof("mem", "report", leaks, "--timeline", "-f", "csv").out.splitlines()
    assert timeline[0].split(",")[:4] == ["time_ns", "pid", "rss_bytes", "live_bytes"]
    again = gsprof("mem", "report", leaks, "-o", tmp_path / "peak.csv", status=EXIT_NOWRITE)
    assert "--force" in again.err


def test_the_page_is_a_report(leaks: Path, tmp_path: Path) -> None:
    page = tmp_path / "peak.html"
    gsprof("mem", "report", leaks, "-o", page)
    found = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.read_text())
    document = json.loads(found[0])
    check_document(document)
    assert document["kind"] == "memory" and document["title"] == "leaks.py"
    assert {"rss", "live"} <= {chart["id"] for chart in document["charts"]}
    site = document["memory"]["sites"][0]
    assert site["bytes"] >= 40 * MIB and [one["func"] for one in site["stack"]][-1] == "step"
    verdict = "\n".join(document["verdict"])
    assert "Peak of a process: " in verdict and f"Keeps growing: {LEAK} by " in verdict
    markdown = gsprof("mem", "report", leaks, "-f", "md").out
    assert "## Allocation sites" in markdown and "## Metrics" in markdown
    # gsprof report reads the same file.
    assert "\nAllocation sites\n" in gsprof("report", leaks).out
    assert json.loads(gsprof("report", leaks, "-f", "json").out)["kind"] == "memory"


def test_query_of_a_recording(leaks: Path) -> None:
    sql = (
        "SELECT s.func, sum(a.bytes) AS bytes FROM python.allocation a "
        "JOIN python.stack s USING (stack_id) WHERE s.depth = 0 AND a.kind = 'alloc' "
        "GROUP BY ALL ORDER BY bytes DESC LIMIT 1"
    )
    rows = json.loads(gsprof("query", leaks, sql, "-f", "json").out)
    assert rows[0]["func"] == "churn" and rows[0]["bytes"] >= 40 * 8 * (1 << 18)
    rss = json.loads(
        gsprof("query", leaks, "SELECT max(rss_bytes) m FROM process.metrics", "-f", "json").out
    )
    assert rss[0]["m"] > 50 * MIB


# ------------------------------------------------------------------------------ faults


def test_truncated_file(leaks: Path, tmp_path: Path) -> None:
    whole = leaks.read_bytes()
    cut = tmp_path / "cut.gspm"
    # Snapshots are small compared with the stacks, which come with the first one.
    cut.write_bytes(whole[: len(whole) - 300])
    document = report(cut)
    assert document["truncated"] and row(document, LEAK)["bytes"] > 0
    assert "The end of the file is missing" in gsprof("mem", "report", cut).out
    cut.write_bytes(whole[:16])
    gsprof("mem", "report", cut, status=EXIT_EMPTY)
    cut.write_bytes(b"something else altogether")
    gsprof("mem", "report", cut, status=EXIT_FORMAT)
    gsprof("mem", "report", tmp_path / "none.gspm", status=EXIT_NOFILE)
    gsprof("mem", "report", leaks, "--leaks", "--peak", status=EXIT_USAGE)
    gsprof("mem", "report", leaks, "-o", tmp_path / "peak.doc", status=EXIT_USAGE)


def test_programs_without_counts(tmp_path: Path) -> None:
    output = tmp_path / "none.gspm"
    said = gsprof("mem", "record", "-o", output, "--", "true", status=EXIT_EMPTY).err
    assert "no allocations were counted" in said and not output.exists()
    # The program's own status has priority.
    gsprof("mem", "record", "-o", output, "--", "sh", "-c", "exit 7", status=7)
    output.write_bytes(b"")
    gsprof("mem", "record", "-o", output, "--", "true", status=EXIT_NOWRITE)
    gsprof("mem", "record", "-o", output, status=EXIT_USAGE)


# ------------------------------------------------------------------------ live processes


def test_attach_record_and_detach(waiting: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    output = tmp_path / "attached.gspm"
    args = ["mem", "record", "-p", waiting.pid, "--exact", "--interval", "100ms"]
    gsprof(*args, "-o", output, "-d", "1.5")
    document = report(output)
    assert document["rows"][0]["name"].startswith("step (waits.py:5)")
    assert waiting.poll() is None
    # Counting is off again, and the counts can still be queried.
    sql = "SELECT kind::VARCHAR AS kind, sum(bytes)::BIGINT AS b FROM python.allocation "
    sql += "GROUP BY 1 ORDER BY 1"
    rows = json.loads(gsprof("query", waiting.pid, sql, "-f", "json").out)
    before = {one["kind"]: one["b"] for one in rows}
    assert before["alloc"] - before["free"] == before["live"] > 0
    assert rows == json.loads(gsprof("query", waiting.pid, sql, "-f", "json").out)


def test_allocations_of_gsprof_are_not_counted(tmp_path: Path) -> None:
    """Left out: modules of gsprof that are imported because the program has torch, and injections
    during the recording. Code that the user runs with gsprof eval counts as the program's."""
    code = "import sys, time, types; sys.modules['torch'] = types.ModuleType('torch')\n"
    code += "print(flush=True)\nwhile True: kept = bytearray(1 << 16); time.sleep(0.01)"
    output = tmp_path / "own.gspm"
    with subprocess.Popen([main_python(), "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"\n"
            recorder = Running(
                "mem", "record", process.pid, "--exact", "--interval", "50ms", "-o", output
            )
            wait_for(lambda: output.exists() and output.stat().st_size > 300, "no recording")
            gsprof("eval", process.pid, "gift = bytearray(1 << 20)", "--yes")
            gsprof("inject", process.pid)
            recorder.signal(signal.SIGINT)
            recorder.finish()
        finally:
            process.kill()
    names = [one["name"] for one in report(output, "--by", "module")["rows"]]
    assert not [name for name in names if "script-" in name or "gsprof/" in name], names
    rows = report(output, "--by", "line")["rows"]
    gifts = [one for one in rows if "<eval>" in one["name"]]
    assert [one["bytes"] >= MIB for one in gifts] == [True], rows


def test_killed_recorder_leaves_what_it_wrote(
    waiting: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    output = tmp_path / "killed.gspm"
    recorder = Running(
        "mem", "record", "-p", waiting.pid, "--interval", "50ms", "--exact", "-o", output
    )
    try:

        def is_recording() -> bool:
            assert recorder.process.poll() is None
            return output.exists() and output.stat().st_size > 300

        wait_for(is_recording, "no recording")
        second = gsprof("mem", "record", "-p", waiting.pid, "-o", tmp_path / "2.gspm", status=None)
        assert second.status == EXIT_NOWRITE and "being recorded already" in second.err
        recorder.signal(signal.SIGKILL)
    finally:
        recorder.finish()
    document = report(output)
    assert document["truncated"] and document["timeline"]
    # The lock is released when its owner dies.
    gsprof("mem", "record", "-p", waiting.pid, "-o", tmp_path / "3.gspm", "-d", "0.2")


def test_top_shows_memory_by_line(waiting: "subprocess.Popen[bytes]") -> None:
    text = gsprof("top", "--mem", "-p", waiting.pid, "-n", "2", "--delay", "0.3", "--json").out
    tables = [json.loads(line) for line in text.splitlines()]
    assert len(tables) == 2
    top = tables[1]["rows"][0]
    assert top["name"] == "step (waits.py:5)" and top["growth_bytes_per_s"] > 0
    assert tables[1]["rss_bytes"] > 0 and tables[1]["mode"] == "sampled"
    text = gsprof("top", "--mem", "-p", waiting.pid, "--once", "--delay", "0.3").out
    assert "step (waits.py:5)" in text
    gsprof("top", "--mem", "--", sys.executable, status=EXIT_USAGE)


# Starts a forked and a spawned worker at once, and two more for each line of input.
WORKERS = """
import multiprocessing, subprocess, sys, time
kept = []
def again():
    time.sleep(0.01)  # the pace of steps
    return True
def forked_early():
    while again():
        kept.append(bytearray(1 << 18))
def spawned_early():
    while again():
        kept.append(bytearray(1 << 18))
def forked_late():
    while again():
        kept.append(bytearray(1 << 18))
def spawned_late():
    while again():
        kept.append(bytearray(1 << 18))
def start(how, work):
    one = multiprocessing.get_context(how).Process(target=work, daemon=True)
    one.start()
    return one.pid
if __name__ == "__main__":
    other = subprocess.Popen(["sleep", "600"])
    pids = [start("fork", forked_early), start("spawn", spawned_early)]
    print(*pids, flush=True)
    for line in sys.stdin:
        print(start("fork", forked_late), start("spawn", spawned_late), flush=True)
    other.kill()
"""
EARLY = {"forked_early", "spawned_early"}
LATE = {"forked_late", "spawned_late"}


@pytest.fixture
def workers(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    with subprocess.Popen(
        [main_python(), str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.communicate()


def read_pids(process: "subprocess.Popen[bytes]") -> List[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


def test_children_of_a_running_process(workers: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    """Existing children and later ones, forked and spawned."""
    output = tmp_path / "tree.gspm"
    pids = [workers.pid, *read_pids(workers)]
    recorder = Running("mem", "record", "-s", "-p", workers.pid, "--interval", "50ms", "-o", output)

    def are_seen(names: Set[str]) -> bool:
        done = gsprof("mem", "report", output, "-f", "json", status=None)
        rows = json.loads(done.out)["rows"] if done.status == 0 else []
        return names <= {one["name"].split(" ")[0] for one in rows}

    try:
        wait_for(lambda: are_seen(EARLY), "existing children are not recorded")
        assert workers.stdin is not None
        workers.stdin.write(b"go\n")
        workers.stdin.flush()
        pids += read_pids(workers)
        wait_for(lambda: are_seen(EARLY | LATE), "later children are not recorded")
        recorder.signal(signal.SIGINT)
    finally:
        done = recorder.finish()
    # Including the resource tracker of multiprocessing.
    assert done.status == 0 and "snapshots of 6 processes" in done.err, done
    assert "gsprof:" not in done.err, done
    # Every process is restored, also the one that inherited counting from its parent.
    for pid in pids:
        assert "no agent" in gsprof("eject", pid, status=EXIT_NOFILE).err


def test_top_includes_children(workers: "subprocess.Popen[bytes]") -> None:
    read_pids(workers)

    def are_seen() -> bool:
        done = gsprof("top", "--mem", "-s", "-p", workers.pid, "--once", "--delay", "0.3", "--json")
        return EARLY <= {row["name"].split(" ")[0] for row in json.loads(done.out)["rows"]}

    # The spawned child may still be starting.
    wait_for(are_seen, "children are not counted")


def test_children_are_recorded(tmp_path: Path) -> None:
    script = tmp_path / "leaks.py"
    script.write_text(LEAKS)
    output = tmp_path / "tree.gspm"
    command = f"{main_python()} {script} 12 0.05 & {main_python()} {script} 12 0.05; wait"
    gsprof("mem", "record", "-s", "--exact", "-o", output, "--", "sh", "-c", command)
    document = report(output, "--by", "process")
    assert len(document["processes"]) == 2
    assert sorted(one["bytes"] // MIB for one in document["rows"]) == [28, 28]
    said = gsprof("mem", "report", output).out
    assert "Held at the peaks of 2 processes: " in said, said
