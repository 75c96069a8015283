# SPDX-License-Identifier: Apache-2.0
"""Uses gsprof.profiler in every way and says what it found; the first argument chooses."""

from __future__ import annotations

import csv
import ctypes
import doctest
import gc
import importlib
import json
import math
import mmap
import os
import pickle
import random
import sys
import tempfile
import threading
import time
import tracemalloc
import types
import warnings
from html.parser import HTMLParser

from gsprof import _gsprof, profiler
from gsprof.profiler import (
    CUDATimer,
    MemoryTracker,
    MetricsCollector,
    Reporter,
    StreamProfiler,
    compare_runs,
)
from gsprof.profiler import _residence

VOID = {"meta"}


def raised(kind, function, *args, **kwargs):
    """The text of the exception that this must raise."""
    try:
        function(*args, **kwargs)
    except kind as error:
        return str(error)
    raise AssertionError(f"{function} did not raise {kind}")


def spin(ms):
    end = time.perf_counter() + ms / 1e3
    while time.perf_counter() < end:
        pass


# ---------------------------------------------------------------------------- timers


def check_timer():
    timer = CUDATimer()
    assert (timer.synchronize, timer.warmup, timer.repeat) == (True, 3, 10)
    assert timer.clock == "host", timer.clock
    with timer.measure("outer") as outer:
        assert outer.elapsed is None and outer.name == "outer"
        for _ in range(3):
            with timer.measure("inner"):
                spin(1)
    assert timer.get_elapsed("outer") == outer.elapsed >= 3
    stats = timer.get_stats("inner")
    assert stats["count"] == 3 and stats["min"] >= 1 and stats["total"] <= outer.elapsed
    assert stats["min"] <= stats["median"] <= stats["p95"] <= stats["max"]
    assert list(timer.results) == ["outer", "inner"] and "inner" in timer.summary()
    timer.start("a")
    timer.start("a")
    spin(1)
    inner_ms = timer.stop("a")
    assert timer.stop("a") >= inner_ms >= 1 and timer.get_stats("a")["count"] == 2
    try:
        with timer.measure("failing"):
            raise OSError("kept")
    except OSError:
        pass
    assert timer.get_stats("failing")["count"] == 1
    timer.clear()
    assert timer.results == {}
    raised(KeyError, timer.get_elapsed, "outer")


def check_calls():
    calls = []
    timer = CUDATimer(warmup=2, repeat=5)
    assert timer.time(calls.append, 1)["count"] == 5 and len(calls) == 7
    assert timer.time(calls.append, 1, name="again")["count"] == 5 and len(calls) == 14
    assert timer.time_iterations("more", lambda: None, 4, 0)["count"] == 4
    with timer.time("as text"):
        pass
    assert timer.get_elapsed("as text") >= 0

    @timer.measure("decorated")
    def twice(number):
        return number * 2

    assert twice(21) == 42 and twice(1) == 2 and twice.__name__ == "twice"
    assert timer.get_stats("decorated")["count"] == 2
    reused = timer.measure("reused")
    for _ in range(2):
        with reused:
            with reused:
                pass
    assert timer.get_stats("reused")["count"] == 2


def check_timer_errors():
    timer = CUDATimer()
    assert "without start" in raised(ValueError, timer.stop, "x")
    timer.start("known")
    assert "'known'" in raised(KeyError, timer.get_elapsed, "x")
    assert "not ended" in raised(ValueError, timer.get_elapsed, "known")
    for wrong in (None, 3, b"x"):
        raised(TypeError, timer.measure, wrong)
        raised(TypeError, timer.start, wrong)
        raised(TypeError, timer.get_elapsed, wrong)
    raised(TypeError, CUDATimer, warmup=1.5)
    raised(ValueError, CUDATimer, repeat=0)
    raised(ValueError, CUDATimer, warmup=-1)
    raised(TypeError, timer.time, 3)
    raised(TypeError, _gsprof.Timing)
    raised(TypeError, timer.measure("x"), 1, 2)


def check_threads():
    collector = MetricsCollector()
    ready = threading.Barrier(4)

    def work(number):
        ready.wait()
        for i in range(2000):
            collector.record("shared", i)
            with collector.measure_time("timed"):
                with collector.measure_time(f"own {number}"):
                    pass
            collector.start("pair")
            collector.stop("pair")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("shared", "timed", "pair"):
        assert collector.get_stats(name)["count"] == 8000, name
    assert collector.get_stats("shared")["mean"] == 999.5
    found = collector.analyze_bottlenecks()
    assert found["idle_ms"] is None and "several threads" in found["reasons"][-1]
    collector.start("here")
    elsewhere = threading.Thread(target=raised, args=(ValueError, collector.stop, "here"))
    elsewhere.start()
    elsewhere.join()
    assert collector.stop("here") > 0


def check_fork():
    collector = MetricsCollector()
    tracker = MemoryTracker(interval=1).start()
    collector.start("open")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            collector.stop("open")
            collector.record("child", 1)
            tracker.stop()
            tracker.get_stats()
            with tracker:
                pass
            assert collector.memory["peak_allocated"] > 0
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    tracker.stop()
    assert collector.stop("open") > 0 and "child" not in collector.names()


def make_and_drop():
    timer = CUDATimer()
    timer.start("never stopped")
    with timer.measure("x"):
        pass
    timer.kept = timer.measure("kept as an attribute")
    timer.clear()
    timer.start("never stopped")
    MetricsCollector().record("x", 1)


def check_lifetimes():
    """Nothing is left of a recorder, also not of what was started and never stopped."""
    growths = []
    # The interpreter itself takes some at first; a leak shows in every round.
    while not growths or growths[-1] >= 200:
        assert len(growths) < 5, growths
        before = sys.getallocatedblocks()
        for _ in range(200):
            make_and_drop()
        gc.collect()
        growths.append(sys.getallocatedblocks() - before)


# --------------------------------------------------------------------------- metrics


def check_metrics():
    collector = MetricsCollector()
    assert collector.analyze_bottlenecks()["bottleneck"] is None
    assert str(collector.generate_report())
    for step in range(4):
        collector.record("batch_size", 32)
        with collector.measure_time("iteration"):
            with collector.measure_time("data_loading"):
                spin(6)
            with collector.measure_time("forward"):
                spin(1)
        collector.record("loss", 1 / (step + 1))
    report = collector.generate_report()
    assert set(report) == {"timing", "memory", "throughput", "metrics"}
    assert set(report["timing"]["forward"]) == {"mean", "std", "min", "max"}
    assert set(report["memory"]) == {"peak_allocated", "peak_reserved"}
    assert report["memory"]["peak_allocated"] > 1 << 20
    assert list(report["metrics"]) == ["loss"]
    speed = report["throughput"]
    assert 0 < speed["iterations_per_sec"] < 143 and collector.throughput == speed
    assert abs(speed["samples_per_sec"] / speed["iterations_per_sec"] - 32) < 1e-6
    assert "data_loading" in str(report) and "samples/s" in str(report)
    found = collector.analyze_bottlenecks()
    assert found["bottleneck"] == "data_loading" and found["phase"] == "data loading", found
    assert abs(sum(found["shares"].values()) - 1) < 1e-9
    assert abs(sum(found["phases"].values()) - 1) < 1e-9
    assert found["shares"]["data_loading"] > found["shares"]["iteration"]
    assert "data_loading takes" in found["reasons"][0]
    assert collector.get_stats("loss")["last"] == 0.25 and len(collector.get_values("loss")) == 4
    assert "'loss'" in raised(KeyError, collector.get_stats, "x")
    collector.clear()
    assert collector.names() == []


def check_idle():
    collector = MetricsCollector()
    with collector.measure_time("forward"):
        spin(1)
    spin(20)
    with collector.measure_time("backward"):
        spin(1)
    found = collector.analyze_bottlenecks()
    assert found["bottleneck"] == "idle" and found["idle_ms"] >= 20, found
    assert collector.throughput == {"samples_per_sec": None, "iterations_per_sec": None}


def check_values():
    collector = MetricsCollector()
    for wrong in ("x", None, [1]):
        raised(TypeError, collector.record, "loss", wrong)
    raised(TypeError, collector.record, "loss")
    raised(TypeError, collector.record, 3, 1)

    class Scalar:
        def __float__(self):
            return 2.5

    for value in (1, True, 2.0, Scalar(), math.nan, math.inf, -math.inf):
        collector.record("mixed", value)
    stats = collector.get_stats("mixed")
    assert stats["count"] == 4 and stats["nonfinite"] == 3 and stats["mean"] == 6.5 / 4
    collector.record("none", math.nan)
    assert collector.get_stats("none")["mean"] is None
    assert "mixed: 3 of 7 values are not finite" in collector.notes()
    for i in range(5000):
        collector.record(f"name {i}", i)
    assert len(collector.names()) == 5002
    for i in range(150000):
        collector.record("long", i)
    stats = collector.get_stats("long")
    assert stats["count"] == 150000 and stats["mean"] == 74999.5 and stats["max"] == 149999
    kept = collector.get_values("long")
    assert len(kept) == 100000 and kept == sorted(kept)
    assert abs(stats["median"] - 75000) < 2000


# --------------------------------------------------------------------------- reports


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
        self.counts = {}
        self.links = []

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


def filled():
    collector = MetricsCollector()
    for step in range(30):
        collector.record("batch_size", 8)
        with collector.measure_time("iteration"):
            with collector.measure_time("<script>alert(1)</script>&\ud800\x07"):
                pass
        collector.record("loss", math.nan if step == 3 else 1 / (step + 1))
    return collector


def check_reports():
    collector = filled()
    reporter = Reporter(collector)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "profile.json")
        reporter.save_json(path)
        whole = json.load(open(path, encoding="utf-8"), parse_constant=raised)
        assert list(whole) == ["timing", "memory", "throughput", "metrics"]
        assert list(whole["timing"]["iteration"]) == ["mean", "std", "min", "max"]
        assert whole["metrics"]["loss"]["nonfinite"] == 1
        reporter.save_json(path, values=True)
        whole = json.load(open(path, encoding="utf-8"), parse_constant=raised)
        assert whole["metrics"]["loss"]["values"][3] is None
        assert len(whole["timing"]["iteration"]["values"]) == 30
        assert compare_runs(path, collector)["speedup"] == 1.0
        rows_path = os.path.join(folder, "metrics.csv")
        reporter.save_csv(rows_path)
        rows = list(csv.DictReader(open(rows_path, encoding="utf-8", newline="")))
        assert len(rows) == 120 and rows[0].keys() == {"time_s", "kind", "name", "value", "unit"}
        times = [float(row["time_s"]) for row in rows]
        assert times == sorted(times) and times[0] == 0
        assert sum(row["value"] == "nan" for row in rows) == 1
        page_path = os.path.join(folder, "report.html")
        for reports, baseline in ((reporter, None), (reporter, filled())):
            reports.save_html(page_path, baseline)
            text = open(page_path, encoding="utf-8").read()
            page = Page()
            page.feed(text)
            assert not page.open and not page.links and "alert(1)</script>" not in text
            assert page.counts["svg"] >= 5 and page.counts["table"] == (3 if baseline else 2)
            assert "prefers-color-scheme:dark" in text and "1 of 30 values" in text
        Reporter(MetricsCollector()).save_html(page_path)
        assert "Nothing was recorded" in open(page_path, encoding="utf-8").read()
        assert sorted(os.listdir(folder)) == ["metrics.csv", "profile.json", "report.html"]
        missing = os.path.join(folder, "no", "such", "file")
        for save in (reporter.save_json, reporter.save_csv, reporter.save_html):
            assert missing in raised(FileNotFoundError, save, missing)
            assert folder in raised(IsADirectoryError, save, folder)
            raised(TypeError, save, 3.5)
    raised(TypeError, Reporter, {})
    reporter.print_summary()


# ----------------------------------------------------------------------- comparisons


def check_compare():
    before = {"step": [10 + i % 3 / 10 for i in range(20)], "loss": [0.5, 0.4, 0.3]}
    after = {"step": [5 + i % 3 / 10 for i in range(20)], "loss": [0.5, 0.4, 0.3], "more": 1}
    found = compare_runs(before, after)
    assert 1.9 < found["speedup"] < 2.1 and found["significant"] and found["p_value"] < 0.01
    row = found["metrics"]["step"]
    assert row["ci_low"] <= row["difference"] <= row["ci_high"] < 0 and row["verdict"] == "faster"
    assert found["metrics"]["loss"]["speedup"] is None and found["only_in_b"] == ["more"]
    assert "faster" in str(found) and "only in b: more" in str(found)
    slower = compare_runs(after, before)
    assert slower["speedup"] < 1 and "slower" in slower["verdict"]
    for run in (before, filled(), filled().generate_report()):
        same = compare_runs(run, run)
        assert same["speedup"] == 1.0 and not same["significant"], same
        assert not any(row["significant"] for row in same["metrics"].values())
    single = compare_runs({"time": 4.0}, {"time": 2.0})
    assert single["speedup"] == 2.0 and not single["significant"]
    assert "not tested" in single["verdict"]
    rate = compare_runs({"samples_per_sec": 100}, {"samples_per_sec": 150})
    assert rate["speedup"] == 1.5
    assert compare_runs({"x": 3, "y": 3}, {"x": 1, "y": 2})["speedup"] == 2.0
    assert compare_runs({"time": 0}, {"time": 0})["speedup"] == 1.0
    assert compare_runs({"time": 1}, {"time": 0})["speedup"] == math.inf
    many = [1 + i % 7 for i in range(6000)]
    assert not compare_runs({"time": many}, {"time": many[::-1]})["significant"]
    slow = {"time": [value + 1 for value in many]}
    assert compare_runs(slow, {"time": many})["significant"]
    said = raised(ValueError, compare_runs, {"alpha": 1}, {"beta": 2})
    assert "'alpha'" in said and "'beta'" in said
    raised(ValueError, compare_runs, {}, {})
    raised(ValueError, compare_runs, {"x": math.nan}, {"x": 1})
    raised(TypeError, compare_runs, 3, {"x": 1})
    raised(FileNotFoundError, compare_runs, "/no/such/file.json", {"x": 1})
    assert "not JSON" in raised(ValueError, compare_runs, __file__, {"x": 1})


# ---------------------------------------------------------------------------- memory


def check_memory():
    size = 48 << 20
    tracker = MemoryTracker()
    assert (tracker.track_allocations, tracker.track_timeline, tracker.interval) == (
        True,
        True,
        100,
    )
    raised(RuntimeError, tracker.get_stats)
    raised(ValueError, tracker.stop)
    raised(ValueError, MemoryTracker, interval=0)
    raised(ValueError, MemoryTracker, interval=math.nan)
    raised(TypeError, MemoryTracker, interval="1")
    tracker = MemoryTracker(interval=1)
    with tracker:
        # Not of the interpreter's allocator, which may keep what is given back.
        block = mmap.mmap(-1, size)
        for place in range(0, size, mmap.PAGESIZE):
            block[place] = 1
        deadline = time.monotonic() + 30
        # The interpreter is busy: the thread needs none.
        seen = tracker.get_stats()["samples"]
        while tracker.get_stats()["samples"] < seen + 3:
            assert time.monotonic() < deadline
        block.close()
    stats = tracker.get_stats()
    assert stats["source"] == "process" and stats["samples"] >= 3 and stats["duration_ms"] > 0
    assert stats["peak_allocated"] == stats["process_peak"]
    assert stats["peak_allocated"] - stats["start_allocated"] >= size * 0.9
    assert stats["peak_reserved"] >= stats["peak_allocated"] > 0 and stats["count"] >= 1
    assert stats["current_reserved"] >= stats["current_allocated"]
    events = tracker.get_allocation_timeline()
    assert events[0]["action"] == "start"
    assert sum(e["size"] for e in events if e["action"] == "alloc") >= size * 0.9
    freed = sum(e["size"] for e in events if e["action"] == "free")
    assert freed >= size * 0.9 and len(events) < stats["samples"], events[:20]
    tracker.print_summary()
    plain = MemoryTracker(track_allocations=False, track_timeline=False)
    with plain:
        pass
    assert len(plain.get_allocation_timeline()) == 2 and plain.get_stats()["count"] is None
    assert plain.get_stats()["sites"] is None
    raised(RuntimeError, plain.save_device_snapshot, "/no/such/folder/file")
    plain.clear()
    raised(RuntimeError, plain.get_stats)


def check_timeline():
    """Every allocation and its end, by whichever allocator: size and time."""
    makers = {"bytes": lambda size: b"x" * size, "bytearray": bytearray}
    try:
        import numpy

        makers["numpy"] = lambda size: numpy.zeros(size, dtype=numpy.uint8)
    except ImportError:
        pass
    for name, make in makers.items():
        tracker = MemoryTracker(interval=5)
        spans, kept = [], []
        with tracker:
            for megabytes in (8, 16, 24):
                began = time.monotonic()
                kept.append(make(megabytes << 20))
                spans.append((began, time.monotonic(), "alloc", megabytes))
                time.sleep(0.02)
            began = time.monotonic()
            del kept[1]
            spans.append((began, time.monotonic(), "free", 16))
        events = [
            event
            for event in tracker.get_allocation_timeline()
            if event["exact"] and event["size"] >= 4 << 20
        ]
        told = [(event["action"], round(event["size"] / (1 << 20), 1)) for event in events]
        assert told == [(action, size) for _, _, action, size in spans], (name, told)
        first = events[0]["time_ms"]
        for event, (began, ended, _, _) in zip(events, spans):
            after = (event["time_ms"] - first) / 1e3
            assert began - spans[0][1] <= after <= ended - spans[0][0], (name, events)
    tracker = MemoryTracker(interval=1, track_timeline=False)
    timeline = [(0, 0), (1, 8), (2, 8), (3, 24), (4, 48), (5, 40)]
    samples = [{"time_ms": ms, "allocated": size} for ms, size in timeline]
    found = [(e["time_ms"], e["action"], e["size"]) for e in tracker._events(samples)]
    assert found == [(0, "start", 0), (1, "alloc", 8), (3, "alloc", 40), (5, "free", 8)], found


def check_timeline_of_churn():
    """Pages are touched after the allocation and given back after the free, which samples see."""
    tracker = MemoryTracker(interval=1)
    kept = []
    with tracker:
        for _ in range(50):
            kept.append(b"x" * (30 << 20))
            if len(kept) > 2:
                kept.pop(0)
    events = tracker.get_allocation_timeline()[1:]
    assert all(event["exact"] for event in events), [e for e in events if not e["exact"]]
    assert [e["action"] for e in events if e["size"] >= 30 << 20].count("alloc") == 50


MB = 1 << 20


def unseen(resident, events):
    """What samples at 0, 10, 20, … show that these events, (time, MB, address), do not explain."""
    found = _residence.unexplained(
        range(0, 10 * len(resident), 10),
        [size if size is None else 500 * MB + size * MB for size in resident],
        [_residence.Event(at, size * MB, address) for at, size, address in events],
    )
    return [round(size / MB, 1) for size in found]


def check_residence():
    """Of changes of resident memory, what allocations do not explain: made-up series."""
    # The oldest of three is freed, and the next takes its place: seen amid that, before and after.
    blocks = [(12, 30, 1), (14, 30, 2), (22, 30, 3), (23, -30, 1), (32, 30, 4), (33, -30, 2)]
    for level in (60, 48, 71, 90):
        for later in (60, 55, 77, 120):
            assert unseen([0, 0, level, later, 60], blocks) == [0] * 5, (level, later)
    # Touched late, kept after the free, given back with what was freed before.
    late = [(5, 30, 1), (55, -30, 1), (56, 30, 2), (75, -30, 2)]
    assert unseen([0, 0, 10, 10, 30, 30, 60, 60, 60, 0], late) == [0] * 10
    # A sample may see what events do up to the next one.
    assert unseen([0, 30, 30, 0, 0], [(12, 30, 1), (33, -30, 1)]) == [0] * 5
    # Blocks that are older than the first sample, or in it already; a munmap() of a part.
    assert unseen([0, 0, 0, -30, 0], [(5, -30, 7), (35, 30, 1)]) == [0] * 5
    assert unseen([0, 0, 0, -30], [(-1, 30, 1), (15, -30, 1)]) == [0] * 4
    parts = [(5, 30, 8 * MB), (15, -10, 8 * MB), (25, -20, 18 * MB), (35, 30, 8 * MB)]
    assert unseen([0, 30, 20, 0, 0, 30, 33], parts) == [0] * 6 + [3]
    # Memory that no allocation explains, beside such as it does and after it.
    assert unseen([0, 40, 40, 0], []) == [0, 40, 0, -40]
    assert unseen([0, 70, None, 70, 30], [(5, 30, 1)]) == [0, 40, 0, 0, -40]
    churn = [
        (at + more, size, at) for at in range(1, 200, 10) for more, size in ((0, 30), (5, -30))
    ]
    assert unseen([0] * 25 + [20, 0], churn) == [0] * 25 + [20, -20]
    simulate_memory(random.Random(3))


def simulate_memory(chance):
    """Blocks that are touched bit by bit, freed, kept, used again or given back, in any order: all
    that is resident is theirs."""
    for _ in range(300):
        events, resident, live, kept, read_at = [], [0], {}, 0, 0
        for now in range(1, 400):
            what = chance.random()
            if what < 0.2:
                size = chance.randint(1, 40)
                reused = chance.choice((0, min(kept, size)))
                kept -= reused
                live[now] = [size, reused]
                events.append((now, size, now))
            elif what < 0.7 and live:
                block = live[chance.choice(list(live))]
                block[1] = chance.randint(block[1], block[0])
            elif what < 0.9 and live:
                address = chance.choice(list(live))
                size, touched = live.pop(address)
                kept += touched
                events.append((now, -size, address))
            else:
                kept = chance.randint(0, kept)
            # A sample's time is taken first; it may be read late.
            if now % 10 == 0:
                read_at = now + chance.randint(0, 9)
            if now == read_at:
                resident.append(kept + sum(touched for _, touched in live.values()))
        assert not any(unseen(resident, events)), (events, resident)


def held_and_dropped():
    kept = [bytearray(1 << 20) for _ in range(8)]  # the line that holds
    for _ in range(32):
        bytearray(1 << 19)  # the line that drops
    return kept


def lines_of(function):
    first = function.__code__.co_firstlineno
    return [(__file__, first + 1), (__file__, first + 3)]


def check_sites():
    """By the memory engine, or by tracemalloc where it cannot be."""
    holds, drops = lines_of(held_and_dropped)
    package = os.path.dirname(os.path.dirname(profiler.__file__))
    tracker = MemoryTracker(track_timeline=False)
    with tracker:
        kept = held_and_dropped()
        running = tracker.get_stats()
    stats = tracker.get_stats()
    for found in (running, stats):
        sites = {(site["file"], site["line"]): site for site in found["sites"]}
        assert 8 << 20 <= sites[holds]["held_bytes"] < 9 << 20, found
        assert sites.get(drops, {"held_bytes": 0})["held_bytes"] < 1 << 19, found
        assert not any(site["file"].startswith(package) for site in found["sites"]), found
    assert "profiler_checks.py:%d" % holds[1] in tracker.summary()
    del kept
    with tracker:
        pass
    assert holds not in [(site["file"], site["line"]) for site in tracker.get_stats()["sites"]]
    return stats, holds, drops


def check_names_of_sites():
    """Every site has a readable name, and no function of ours is in a stack."""
    import gsprof
    from gsprof import _memory

    package = os.path.join(os.path.dirname(os.path.abspath(gsprof.__file__)), "")
    nowhere = {}
    exec(compile("def make(size):\n    return bytearray(size)\n", "", "exec"), nowhere)

    @gsprof.span("allocates")
    def wrapped(size):
        return bytearray(size)  # the line below a wrapper of ours

    _memory.start("exact")
    kept = [wrapped(3 << 20), nowhere["make"](5 << 20)]
    sites = _memory.snapshot().sites
    _memory.stop()
    by_size = {site.live_bytes >> 20: site for site in sites if site.live_bytes >= 3 << 20}
    lines, first = [frame.name for frame in by_size[3].frames], by_size[3].frames[0]
    assert "wrapped" in first.name and first.line == wrapped.__wrapped__.__code__.co_firstlineno + 2
    assert "check_names_of_sites" in lines[1], lines
    assert by_size[5].line == ("<make>", 2), by_size[5].line
    for site in sites:
        assert all(not frame.file.startswith((package, "<gsprof")) for frame in site.frames)
        assert site.line[0], [frame.name for frame in site.frames]
    frame, row = _memory.Frame, ("malloc", 1, 1, 0, 0, 1, 0, 0)
    bare = _memory.Site((frame("worker", "", 7, "thread"),), row)
    native = _memory.Site((frame("libc10.so", "libc10.so", 0, "native"), *bare.frames), row)
    for name, shown in (("<listcomp>", "<listcomp>"), ("make", "<make>"), ("", "<no file>")):
        assert _memory.Site((frame(name, "", 1, "python"),), row).line == (shown, 1), name
    assert bare.line == ("<thread worker>", 0) and native.line == ("libc10.so", 0)
    assert _memory.Site((), row).line == ("<stack not known>", 0)
    shown = profiler._memory._rows({"sites": [dict(file="libc10.so", line=0, **NOTHING)]})
    assert shown[0][0] == "libc10.so", shown
    del kept


NOTHING = {"held_bytes": 1, "held_blocks": 1, "allocated_bytes": 1, "allocated_blocks": 1}


def check_engine():
    """The engine's counts, and that whoever switched it on keeps it."""
    from gsprof import _gsprof, _memory

    def found():
        stats, holds, drops = check_sites()
        assert stats["count"] >= 8 + 32, stats
        sites = {(site["file"], site["line"]): site for site in stats["sites"]}
        assert 16 << 20 <= sites[drops]["allocated_bytes"] < 17 << 20, stats
        assert sites[drops]["allocated_blocks"] >= 32 and sites[holds]["held_blocks"] >= 8
        assert list(sites)[:2] == [drops, holds]

    found()
    check_timeline()
    check_timeline_of_churn()
    assert not _memory.is_on() and not _gsprof.is_on()
    _memory.start("exact")
    found()
    assert _memory.is_on() and _gsprof.is_on()
    outer = MemoryTracker(track_timeline=False).start()
    found()
    outer.stop()
    assert _memory.is_on()
    _memory.stop()
    outer.start()
    found()
    assert _memory.is_on()
    outer.stop()
    assert not _memory.is_on()

    def refuses(mode):
        raise RuntimeError(mode)

    start, _memory.start = _memory.start, refuses
    stats, _, _ = check_sites()
    _memory.start = start
    assert not tracemalloc.is_tracing() and stats["sites"][0]["allocated_bytes"] is None
    check_names_of_sites()


# --------------------------------------------------------------------------- streams


def check_streams():
    profiler_ = StreamProfiler()
    assert profiler_.num_streams == 4 and profiler_.clock == "host"
    raised(RuntimeError, profiler_.get_stats)
    raised(RuntimeError, profiler_.submit, 0, print)
    raised(ValueError, profiler_.stream, 4)
    raised(TypeError, profiler_.stream, "0")
    raised(ValueError, StreamProfiler, 0)
    raised(TypeError, StreamProfiler, 1.5)
    both = threading.Barrier(2)
    with profiler_:
        # Two that wait for each other are busy at the same time.
        for number in range(2):
            profiler_.submit(number, both.wait)
        with profiler_.stream(3):
            spin(2)
    stats = profiler_.get_stats()
    assert [stream["tasks"] for stream in stats["streams"]] == [1, 1, 0, 1]
    assert stats["streams"][3]["busy_ms"] >= 2 and stats["streams"][2]["busy_ms"] == 0
    assert stats["overlap_ms"] > 0 and 0 < stats["efficiency"] <= 1
    assert stats["active_ms"] <= stats["wall_ms"] * 1.001
    assert stats["concurrency"] >= 1
    profiler_.print_stream_efficiency()


# ----------------------------------------------------------------- a stand-in driver


def check_driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.standin_work.argtypes = [ctypes.c_void_p, ctypes.c_double]
    for synchronize in (True, False):
        timer = CUDATimer(synchronize=synchronize)
        assert timer.clock == "cuda driver"
        began = time.perf_counter()
        with timer.measure("kernel"):
            cuda.standin_work(0, 30.0)
        took_ms = (time.perf_counter() - began) * 1e3
        assert synchronize == (took_ms >= 30) or not synchronize
        assert 29.9 <= timer.get_elapsed("kernel") < 3000, timer.get_elapsed("kernel")
        timer.start("pair")
        cuda.standin_work(0, 5.0)
        assert (timer.stop("pair") is None) == (not synchronize)
        assert timer.get_stats("pair")["min"] >= 4.9
        assert timer.time(cuda.standin_work, 0, 1.0)["count"] == 10
        assert "cuda driver" in timer.summary()
        threads = [threading.Thread(target=timer.time, args=(len, "x")) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert timer.get_stats("len")["count"] == 20
    for _ in range(3000):
        with timer.measure("many"):
            pass
    assert timer.get_stats("many")["count"] == 3000
    pid = os.fork()
    if pid == 0:
        with timer.measure("in a child"):
            pass
        os._exit(0 if timer.clock == "host" and timer.get_elapsed("in a child") >= 0 else 1)
    assert os.waitpid(pid, 0)[1] == 0


def check_driver_memory():
    cuda = ctypes.CDLL("libcuda.so.1")
    size = 100 << 20
    tracker = MemoryTracker(interval=1)
    with tracker:
        address = ctypes.c_size_t()
        cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        seen, deadline = len(tracker.get_timeline()), time.monotonic() + 30
        while len(tracker.get_timeline()) < seen + 2:
            assert time.monotonic() < deadline
        cuda.cuMemFree_v2(ctypes.c_size_t(size))
    stats = tracker.get_stats()
    assert stats["source"] == "cuda driver" and stats["process_peak"] > 0
    assert stats["peak_allocated"] - stats["start_allocated"] == size and stats["change"] == 0
    events = [(e["action"], e["size"]) for e in tracker.get_allocation_timeline()]
    assert events == [("start", 0), ("alloc", size), ("free", size)], events


def check_driver_streams():
    cuda = ctypes.CDLL("libcuda.so.1")
    profiler_ = StreamProfiler(num_streams=2)
    assert profiler_.clock == "cuda driver"
    with profiler_:
        # Both are queued at once, so they run beside each other.
        for number in range(2):
            with profiler_.stream(number) as handle:
                cuda.standin_work(ctypes.c_void_p(handle), ctypes.c_double(40.0))
        assert profiler_.submit(1, len, "abc").result() == 3
    stats = profiler_.get_stats()
    assert all(stream["busy_ms"] >= 39 for stream in stats["streams"]), stats
    assert stats["overlap_ms"] > 0 and stats["streams"][1]["tasks"] == 2
    assert 79 <= stats["busy_ms"] and stats["active_ms"] < stats["busy_ms"]


def check_driver_failing():
    """GSP_CUDA_STANDIN_FAIL=cuEventRecord"""
    timer = CUDATimer()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            with timer.measure("x"):
                spin(1)
    assert timer.clock == "host" and timer.get_stats("x")["min"] >= 1
    assert len(said) == 1 and "cuEventRecord gave error 700" in str(said[0].message)


def check_driver_empty():
    """GSP_CUDA_STANDIN_COUNT=0"""
    assert CUDATimer().clock == "host" and MemoryTracker().source == "process"
    assert StreamProfiler().clock == "host"


# ----------------------------------------------------- a stand-in for torch.cuda


class FakeEvent:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at_ns = time.monotonic_ns()

    def query(self):
        return True

    def elapsed_time(self, end):
        return (end.at_ns - self.at_ns) / 1e6


class FakeStreamContext:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        FakeCuda.entered += 1

    def __exit__(self, *error):
        FakeCuda.entered -= 1


class FakeCuda:
    entered = 0
    waits = 0
    now = 1000
    peak = 9999
    count = 7
    Event = FakeEvent
    StreamContext = stream = FakeStreamContext

    def is_available():
        return True

    def synchronize():
        FakeCuda.waits += 1

    def reset_peak_memory_stats(device):
        FakeCuda.peak = FakeCuda.now

    def memory_allocated(device=0):
        return FakeCuda.now

    def memory_reserved(device=0):
        return FakeCuda.now * 2

    def max_memory_allocated(device=0):
        return FakeCuda.peak

    def max_memory_reserved(device=0):
        return FakeCuda.peak * 2

    def memory_stats(device):
        return {"allocation.all.allocated": FakeCuda.count}

    memory = types.SimpleNamespace(_snapshot=lambda: {"segments": [{"total_size": 4096}]})

    def allocate(size):
        FakeCuda.now += size
        FakeCuda.count += 1
        FakeCuda.peak = max(FakeCuda.peak, FakeCuda.now)


def check_torch():
    sys.modules["torch"] = types.SimpleNamespace(cuda=FakeCuda)
    timer = CUDATimer()
    with timer.measure("x"):
        spin(1)
    assert timer.clock == "torch.cuda" and FakeCuda.waits == 2 and timer.get_elapsed("x") >= 1
    timer = CUDATimer(synchronize=False)
    with timer.measure("x") as timing:
        spin(1)
    assert FakeCuda.waits == 2 and timing.elapsed is None and timer.get_elapsed("x") >= 1
    tracker = MemoryTracker()
    with tracker:
        FakeCuda.allocate(500)
        assert tracker.get_stats()["current_allocated"] == 1500
        FakeCuda.allocate(-300)
    FakeCuda.allocate(100000)
    stats = tracker.get_stats()
    assert stats["source"] == "torch.cuda" and stats["count"] == 2 and stats["change"] == 200
    assert stats["peak_allocated"] == 1500 and stats["peak_reserved"] == 3000
    assert stats["process_peak"] > 1 << 20
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        tracker.save_device_snapshot(path)
        with open(path, "rb") as file:
            assert pickle.load(file) == FakeCuda.memory._snapshot()
        FakeCuda.memory = None
        raised(RuntimeError, MemoryTracker().save_device_snapshot, path)
    assert MetricsCollector().memory["peak_allocated"] == FakeCuda.peak
    enter = FakeStreamContext.__enter__
    streams = [types.SimpleNamespace(cuda_stream=100 + i) for i in range(2)]
    profiler_ = StreamProfiler(num_streams=2)
    with profiler_:
        for stream in streams + streams[:1]:
            with FakeCuda.stream(stream):
                assert FakeCuda.entered == 1
                spin(1)
    assert FakeStreamContext.__enter__ is enter and FakeCuda.entered == 0
    with FakeCuda.stream(streams[0]):
        pass
    stats = profiler_.get_stats()
    assert [stream["tasks"] for stream in stats["streams"]] == [2, 1]
    assert stats["clock"] == "torch.cuda" and stats["busy_ms"] >= 3 and stats["overlap_ms"] == 0


def check_examples():
    for name in sorted(os.listdir(os.path.dirname(profiler.__file__))):
        if name.endswith(".py") and name != "__init__.py":
            module = importlib.import_module(f"gsprof.profiler.{name[:-3]}")
            assert doctest.testmod(module).failed == 0, name
    assert doctest.testmod(profiler).failed == 0


HOST = [
    check_timer,
    check_calls,
    check_timer_errors,
    check_threads,
    check_fork,
    check_lifetimes,
    check_metrics,
    check_idle,
    check_values,
    check_reports,
    check_compare,
    check_memory,
    check_residence,
    check_sites,
    check_streams,
    check_examples,
]
CHOICES = {
    "host": HOST,
    "driver": [check_driver, check_driver_memory, check_driver_streams],
    "failing": [check_driver_failing],
    "empty": [check_driver_empty],
    "torch": [check_torch],
    "engine": [check_engine],
}

for check in CHOICES[sys.argv[1]]:
    began_s = time.perf_counter()
    check()
    print(f"{check.__name__} ok {time.perf_counter() - began_s:.2f} s", file=sys.stderr)
print("done")
