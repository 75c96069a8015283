# SPDX-License-Identifier: Apache-2.0
"""Checks gsprof.measure: measure_checks.py every|host|gpu. Prints "done" at the end."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import json
import math
import mmap
import os
import sys
import threading
import time
import warnings

from gsprof.measure import PerformanceProfiler, _trend

import memory_pace
from raising import raised

MB = 1 << 20
PAGE_MB = b"x" * MB  # touched: memory of calloc() is not resident


def burn(seconds):
    """Uses CPU time of this thread, independent of the machine's load."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


# ------------------------------------------------------------------ blocks


def check_bad_input():
    profiler = PerformanceProfiler(track_gpu=False)
    assert not profiler.has_results()
    assert profiler.get_timing_breakdown() == {}
    assert "nothing was profiled" in raised(RuntimeError, profiler.get_metrics)
    assert "known: none" in raised(KeyError, profiler.get_metrics, "x")
    raised(TypeError, profiler.get_metrics, 3)
    raised(TypeError, profiler.profile, 3)
    raised(TypeError, profiler.profile)
    raised(TypeError, profiler.profile("x"), 5)
    raised(RuntimeError, profiler.profile("x").__exit__, None, None, None)
    raised(TypeError, PerformanceProfiler, track_gpu=1)
    raised(TypeError, PerformanceProfiler, memory_interval="1")
    raised(TypeError, PerformanceProfiler, memory_interval=True)
    raised(TypeError, PerformanceProfiler, unknown=True)
    for bad in (0, -1, math.nan, math.inf):
        raised(ValueError, PerformanceProfiler, memory_interval=bad)
    raised(ValueError, PerformanceProfiler, carbon_intensity_g_per_kwh=-1)
    raised(ValueError, PerformanceProfiler, cpu_tdp_watts=0)
    for i in range(30):
        with profiler.profile(f"name {i:02}"):
            pass
    text = raised(KeyError, profiler.get_metrics, "other")
    assert "'name 00', 'name 01'" in text and ", ..." in text


def check_blocks():
    profiler = PerformanceProfiler(track_gpu=False, memory_interval=0.02)
    with profiler.profile("outer") as given:
        assert given is profiler
        so_far = profiler.get_metrics()
        assert so_far.name == "outer" and so_far.timing.wall_time_s > 0
        with profiler.profile("inner"):
            burn(0.05)
        held = [PAGE_MB + b"%d" % i for i in range(24)]
        high_mb = profiler.get_current_memory()
        burn(0.1)  # several samples: memory held only between two may be missed
        held.clear()
    outer, inner = profiler.get_metrics(), profiler.get_metrics("inner")
    assert outer.name == "outer" and outer.error is None
    assert list(profiler.get_timing_breakdown()) == ["inner", "outer"]
    assert 0.05 <= inner.timing.wall_time_s <= outer.timing.wall_time_s
    assert inner.timing.cpu_time_s >= 0.04  # the kernel's clock of threads has ticks
    total = inner.timing.user_time_s + inner.timing.system_time_s
    assert abs(inner.timing.cpu_time_s - total) < 1e-9
    memory = outer.memory
    assert memory.peak_ram_mb >= high_mb - 1 and memory.peak_ram_mb >= memory.initial_ram_mb + 20
    assert memory.memory_leak_detected is None and memory.peak_gpu_mb is None
    assert 0 <= outer.compute.cpu_utilization_percent <= 100
    assert outer.compute.estimated_flops is None and outer.energy is None and outer.lines is None
    for percent in (outer.system.cpu_percent, outer.system.memory_percent):
        assert percent is not None and 0 <= percent <= 101, outer.system
    assert "Peak RAM: " in outer.summary() and "GPU" not in outer.summary()
    plain = outer.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert set(plain) >= {"memory", "timing", "compute", "system"}
    with profiler.profile("inner"):
        pass
    assert profiler.get_timing_breakdown()["inner"] > inner.timing.wall_time_s
    assert profiler.get_metrics().name == "inner"


def check_peaks():
    """A later block has its own peak, though no sample saw it and an earlier one was higher."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        return
    profiler = PerformanceProfiler(track_gpu=False, memory_interval=60)
    rises = []
    for size_mb in (96, 32, 48):
        with profiler.profile("peak"):
            block = mmap.mmap(-1, size_mb << 20)
            for place in range(0, len(block), mmap.PAGESIZE):
                block[place] = 1
            block.close()
        memory = profiler.get_metrics().memory
        rises.append(memory.peak_ram_mb - memory.initial_ram_mb)
    assert all(abs(rise - size) < 4 for rise, size in zip(rises, (96, 32, 48))), rises
    raised(TypeError, PerformanceProfiler, reset_peak=1)


def check_exception():
    profiler = PerformanceProfiler(track_gpu=False)

    def fail():
        with profiler.profile("fails"):
            burn(0.01)
            raise ValueError("no")

    raised(ValueError, fail)
    assert profiler.has_results()
    found = profiler.get_metrics()
    assert found.timing.wall_time_s >= 0.01 and "ValueError" in found.error


def check_decorators():
    profiler = PerformanceProfiler(track_gpu=False)

    @profiler.profile("plain")
    def plain(n):
        return plain(n - 1) + 1 if n else 0

    @profiler.profile("coroutine")
    async def coroutine():
        await asyncio.sleep(0)
        return 5

    @profiler.profile("generator")
    def generator():
        yield 1
        yield 2

    async def several():
        async with profiler.profile("async with"):
            return await asyncio.gather(*(coroutine() for _ in range(3)))

    assert plain(3) == 3 and plain.__name__ == "plain"
    assert list(generator()) == [1, 2]
    assert asyncio.run(several()) == [5, 5, 5]
    assert set(profiler.get_timing_breakdown()) == {
        "plain",
        "coroutine",
        "generator",
        "async with",
    }
    block = profiler.profile("again")
    for _ in range(2):
        with block:
            with block:
                pass


def check_threads_and_fork():
    profiler = PerformanceProfiler(track_gpu=False, memory_interval=0.001, detailed_memory=True)

    def many():
        for i in range(20):
            with profiler.profile(f"thread {i % 3}"):
                pass

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(profiler.get_timing_breakdown()) == 3
    with profiler.profile("parent"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            with profiler.profile("child"):
                burn(0.005)
            os._exit(0 if profiler.get_metrics("child").timing.cpu_time_s >= 0 else 1)
        assert os.waitpid(pid, 0)[1] == 0
    assert "child" not in profiler.get_timing_breakdown()


def check_energy():
    profiler = PerformanceProfiler(
        track_gpu=False, track_carbon=True, carbon_intensity_g_per_kwh=100.0, cpu_tdp_watts=50.0
    )
    with profiler.profile("energy"):
        time.sleep(0.05)  # a sample at the end: energy needs a duration
    energy = profiler.get_metrics().energy
    assert energy.energy_kwh > 0 and energy.source in ("estimate", "counters", "mixed")
    assert abs(energy.carbon_g - 100.0 * energy.energy_kwh) < 1e-12
    assert energy.is_estimate == (energy.source != "counters")


# ------------------------------------------------------------------ leaks


def series(function, count=400, seconds=10.0):
    return [(i * seconds / count, 100 * MB + function(i / count) * MB) for i in range(count)]


def noise(i):
    """The same on every machine."""
    return ((int(i * 1e6) * 1103515245 + 12345) >> 8) % 1000 / 1000.0


def check_trends():
    grows = {
        "a line": lambda x: 100 * x,
        "steps": lambda x: math.floor(20 * x) * 5,
        "noise": lambda x: 60 * x + 10 * noise(x),
        "saw teeth that rise": lambda x: 60 * x + 40 * ((x * 40) % 1),
        "after a warm-up": lambda x: 300 * min(x, 0.1) + 50 * x,
    }
    stays = {
        "nothing": lambda x: 0,
        "noise": lambda x: 20 * noise(x),
        "a warm-up": lambda x: 200 * min(x, 0.15),
        "a long warm-up": lambda x: 200 * min(x, 0.6),
        "a cache that fills": lambda x: 200 * (1 - math.exp(-8 * x)),
        "one large allocation": lambda x: 500 if x > 0.5 else 0,
        "saw teeth": lambda x: 50 * ((x * 12.7) % 1),
        "few saw teeth": lambda x: 50 * ((x * 2.6) % 1),
        "a part of a tooth": lambda x: 50 * ((x * 1.3) % 1),
        "a fall": lambda x: -80 * x,
        "a trickle": lambda x: 0.5 * x,
    }
    for name, function in grows.items():
        assert _trend.judge(series(function)).is_growing is True, name
    for name, function in stays.items():
        assert _trend.judge(series(function)).is_growing is False, name
    assert _trend.judge([]).is_growing is None
    assert _trend.judge([(0.0, 1.0)] * 50).is_growing is None
    assert _trend.judge(series(lambda x: 100 * x, count=10)).is_growing is None


def check_leaks():
    def steps(profiler, step):
        with profiler.profile("steps"):
            for i in range(120):
                step(i)
                memory_pace.wait_for_memory_sample(profiler)
        return profiler.get_metrics().memory

    profiler = PerformanceProfiler(track_gpu=False, detailed_memory=True, memory_interval=0.1)
    kept = []
    leak = steps(profiler, lambda i: kept.append(PAGE_MB + b"%d" % i))
    assert leak.memory_leak_detected is True, leak
    assert leak.final_ram_mb - leak.initial_ram_mb > 100 and leak.growth_mb_per_s > 1
    assert leak.growth_sites[0].file == __file__ and leak.growth_sites[0].bytes > 100 * MB
    kept.clear()
    cache = {}
    flat = steps(profiler, lambda i: cache.setdefault(i % 20, PAGE_MB + b"%d" % i))
    assert flat.memory_leak_detected is False, flat


# ------------------------------------------------------------------ lines


def called(n):
    total = 0
    for i in range(n):
        total += i
    return total


def stops_early():
    try:
        fails()
    except ValueError:
        return list(yields())


def fails():
    raise ValueError


def yields():
    yield 1
    burn(0.02)
    yield 2


def check_lines():
    profiler = PerformanceProfiler(track_gpu=False, enable_line_profiling=True)
    for _ in range(2):
        with profiler.profile("lines"):
            called(10)
            stops_early()
            thread = threading.Thread(target=called, args=(5,))
            thread.start()
            thread.join()
            json.dumps([1, 2])
    lines = profiler.get_metrics().lines
    here = [line for line in lines.lines if line.file == __file__]
    assert here and len(here) == len(lines), "only the program's own files"
    hits = {line.source: line.hits for line in here}
    assert hits["total = 0"] == 2 and hits["total += i"] == 15 and hits["raise ValueError"] == 1
    assert hits["yield 2"] == 1
    burnt = next(line for line in here if line.source == "burn(0.02)")
    caller = next(line for line in here if line.source == "return list(yields())")
    assert 0.02 <= burnt.time_s <= caller.time_s, (burnt, caller)
    assert lines.top(1)[0].time_s >= burnt.time_s and "burn(0.02)" in lines.text()
    # No thread is traced any more, and nothing was counted twice.
    assert sys.gettrace() is None
    called(3)
    assert {line.source: line.hits for line in profiler.get_metrics().lines.lines}["total = 0"] == 2


def check_other_tracers():
    if hasattr(sys, "monitoring"):
        for tool in (2, 3, 4):
            sys.monitoring.use_tool_id(tool, "other")
    else:
        sys.settrace(lambda *args: None)
    profiler = PerformanceProfiler(track_gpu=False, enable_line_profiling=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with profiler.profile("refused"):
            called(3)
    assert any("lines are not profiled" in str(one.message) for one in caught)
    assert profiler.get_metrics().lines is None
    sys.settrace(None)


# ------------------------------------------------------------------ GPUs


def check_gpu():
    """With the fake NVML, which has three GPUs."""
    profiler = PerformanceProfiler(track_gpu=True, track_carbon=True, memory_interval=0.01)
    with profiler.profile("gpu"):
        burn(0.05)
        share = profiler.get_current_gpu_memory()
    found = profiler.get_metrics()
    assert share == 0.25, share
    assert round(found.memory.peak_gpu_mb) == 11 * 1024, found.memory
    assert found.compute.gpu_utilization_percent == (75 + 10) / 2, found.compute
    assert "GPU Util: " in found.summary()
    without = PerformanceProfiler(track_gpu=False)
    with without.profile("none"):
        pass
    assert without.get_metrics().memory.peak_gpu_mb is None
    assert without.get_current_gpu_memory() == 0.0


def check_examples():
    for name in ("_metrics", "_profiler", "_trend"):
        module = importlib.import_module("gsprof.measure." + name)
        result = doctest.testmod(module)
        assert result.attempted > 0 and result.failed == 0, name


CHECKS = {
    # On every interpreter.
    "every": (
        check_bad_input,
        check_blocks,
        check_exception,
        check_decorators,
        check_threads_and_fork,
        check_lines,
        check_other_tracers,
    ),
    "host": (check_peaks, check_energy, check_trends, check_leaks, check_examples),
    "gpu": (check_gpu,),
}

if __name__ == "__main__":
    for check in CHECKS[sys.argv[1]]:
        check()
    print("done")
