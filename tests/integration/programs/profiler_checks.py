# SPDX-License-Identifier: Apache-2.0
"""Checks gsprof.profiler; the first argument selects the checks."""

from __future__ import annotations

import csv
import ctypes
import doctest
import gc
import importlib
import json
import math
import os
import pickle
import sys
import tempfile
import threading
import time
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
from profiler_memory_checks import check_engine, check_memory, check_residence, check_sites
from raising import raised

VOID = {"meta"}


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
    """A freed recorder leaks nothing, not even measurements that were never stopped."""
    growths = []
    # The interpreter itself allocates at first; a leak shows in every round.
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
    text = raised(ValueError, compare_runs, {"alpha": 1}, {"beta": 2})
    assert "'alpha'" in text and "'beta'" in text
    raised(ValueError, compare_runs, {}, {})
    raised(ValueError, compare_runs, {"x": math.nan}, {"x": 1})
    raised(TypeError, compare_runs, 3, {"x": 1})
    raised(FileNotFoundError, compare_runs, "/no/such/file.json", {"x": 1})
    assert "not JSON" in raised(ValueError, compare_runs, __file__, {"x": 1})


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
        # Two tasks that wait for each other are busy at the same time.
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


# --------------------------------------------------------------------- a fake driver


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
        # Both are queued at once, so they run in parallel.
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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with timer.measure("x"):
                spin(1)
    assert timer.clock == "host" and timer.get_stats("x")["min"] >= 1
    assert len(caught) == 1 and "cuEventRecord failed with error 700" in str(caught[0].message)


def check_driver_empty():
    """GSP_CUDA_STANDIN_COUNT=0"""
    assert CUDATimer().clock == "host" and MemoryTracker().source == "process"
    assert StreamProfiler().clock == "host"


# ----------------------------------------------------------------- a fake torch.cuda


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
