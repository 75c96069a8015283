# SPDX-License-Identifier: Apache-2.0
"""Checks of gsprof.profiler.MemoryTracker; profiler_checks.py runs them."""

from __future__ import annotations

import math
import mmap
import os
import random
import time
import tracemalloc

from gsprof import profiler
from gsprof.profiler import MemoryTracker, _residence
from raising import raised

MB = 1 << 20
NOTHING = {"held_bytes": 1, "held_blocks": 1, "allocated_bytes": 1, "allocated_blocks": 1}


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
        # Not from the interpreter's allocator, which may keep freed memory.
        block = mmap.mmap(-1, size)
        for place in range(0, size, mmap.PAGESIZE):
            block[place] = 1
        deadline = time.monotonic() + 30
        # The GIL is busy: the sampling thread does not need it.
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
    """Every allocation and its free, by any allocator: size and time."""
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
        found = [(event["action"], round(event["size"] / (1 << 20), 1)) for event in events]
        assert found == [(action, size) for _, _, action, size in spans], (name, found)
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
    """Pages are touched after the allocation and returned after the free, which samples show."""
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


def unseen(resident, events):
    """Returns the changes in samples at 0, 10, 20, … that the events do not explain. Events are
    (time, MB, address)."""
    found = _residence.unexplained(
        range(0, 10 * len(resident), 10),
        [size if size is None else 500 * MB + size * MB for size in resident],
        [_residence.Event(at, size * MB, address) for at, size, address in events],
    )
    return [round(size / MB, 1) for size in found]


def check_residence():
    """Unexplained changes of resident memory, in made-up series."""
    # The oldest of three is freed, and the next replaces it; sampled before, during and after.
    blocks = [(12, 30, 1), (14, 30, 2), (22, 30, 3), (23, -30, 1), (32, 30, 4), (33, -30, 2)]
    for level in (60, 48, 71, 90):
        for later in (60, 55, 77, 120):
            assert unseen([0, 0, level, later, 60], blocks) == [0] * 5, (level, later)
    # Touched late, kept after the free, returned with memory freed before.
    late = [(5, 30, 1), (55, -30, 1), (56, 30, 2), (75, -30, 2)]
    assert unseen([0, 0, 10, 10, 30, 30, 60, 60, 60, 0], late) == [0] * 10
    # A sample may include events up to the next one.
    assert unseen([0, 30, 30, 0, 0], [(12, 30, 1), (33, -30, 1)]) == [0] * 5
    # Blocks older than the first sample, or included in it; a partial munmap().
    assert unseen([0, 0, 0, -30, 0], [(5, -30, 7), (35, 30, 1)]) == [0] * 5
    assert unseen([0, 0, 0, -30], [(-1, 30, 1), (15, -30, 1)]) == [0] * 4
    parts = [(5, 30, 8 * MB), (15, -10, 8 * MB), (25, -20, 18 * MB), (35, 30, 8 * MB)]
    assert unseen([0, 30, 20, 0, 0, 30, 33], parts) == [0] * 6 + [3]
    # Unexplained memory, together with explained memory and after it.
    assert unseen([0, 40, 40, 0], []) == [0, 40, 0, -40]
    assert unseen([0, 70, None, 70, 30], [(5, 30, 1)]) == [0, 40, 0, 0, -40]
    churn = [
        (at + more, size, at) for at in range(1, 200, 10) for more, size in ((0, 30), (5, -30))
    ]
    assert unseen([0] * 25 + [20, 0], churn) == [0] * 25 + [20, -20]
    simulate_memory(random.Random(3))


def simulate_memory(chance):
    """Blocks that are touched gradually, freed, kept, reused or returned, in any order, explain all
    resident memory."""
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
            # A sample's time is read first, its value possibly later.
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
    """Counted by the memory engine, or by tracemalloc if it is not available."""
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
    assert "profiler_memory_checks.py:%d" % holds[1] in tracker.summary()
    del kept
    with tracker:
        pass
    assert holds not in [(site["file"], site["line"]) for site in tracker.get_stats()["sites"]]
    return stats, holds, drops


def check_names_of_sites():
    """Every site has a readable name, and no stack has a function of gsprof."""
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


def check_engine():
    """Uses the engine's counts, and leaves it on if it was on before."""
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
