# SPDX-License-Identifier: Apache-2.0
"""Allocations whose number and size are known, counted by the engine: memory_counts.py CHECK...

Each check starts and stops counting itself, and fails with an assertion."""

import os
import resource
import signal
import sys
import threading

from gsprof import _memory

KIB = 1024


def is_about(found, truth):
    """Up to 3.10 the interpreter itself allocates a little at a line that runs often."""
    return all(
        0 <= a - b <= (0 if sys.version_info >= (3, 11) else KIB) for a, b in zip(found, truth)
    )


def line_after(mark):
    """The number of the line that follows a comment."""
    with open(FILE) as file:
        for number, line in enumerate(file, 1):
            if line.strip() == "# " + mark:
                return number + 1
    raise LookupError(mark)


# As in code objects: relative in 3.8.
FILE = line_after.__code__.co_filename


def held(mark, snapshot=None):
    """Returns live bytes and count, allocated bytes and count, and live bytes at the peak."""
    sums = [0, 0, 0, 0, 0]
    for site in (snapshot or _memory.snapshot()).sites:
        if site.line == (FILE, line_after(mark)):
            parts = (site.live_bytes, site.live_count, site.alloc_bytes, site.alloc_count)
            sums = [a + b for a, b in zip(sums, (*parts, site.peak_bytes))]
    return sums


def exact():
    """Exact counts: the bytes a line allocated and holds, and its callers."""
    keep = [None] * 300
    wanted = [1000 + i for i in range(300)]

    def fill(first, step):
        for i in range(first, len(keep), step):
            # fill
            keep[i] = bytes(wanted[i])

    def evens():
        fill(0, 2)

    def odds():
        fill(1, 2)

    _memory.start("exact")
    evens()
    odds()
    sizes = [sys.getsizeof(block) for block in keep]
    assert held("fill")[:2] == [sum(sizes), 300], held("fill")
    assert is_about(held("fill")[2:4], [sum(sizes), 300]), held("fill")
    callers = {}
    for site in _memory.snapshot().sites:
        if site.line == (FILE, line_after("fill")):
            names = [frame.name.rpartition(".")[2] for frame in site.frames]
            assert names[0] == "fill" and "exact" in names and names[-2] == "<module>", names
            callers[names[1]] = site.live_bytes
    assert callers == {"evens": sum(sizes[::2]), "odds": sum(sizes[1::2])}, callers
    keep[:100] = [None] * 100
    assert held("fill")[:2] == [sum(sizes[100:]), 200], held("fill")
    del keep[:]
    assert held("fill")[:2] == [0, 0], held("fill")
    _memory.stop()


def realloc():
    """A chain of reallocations is one block: the last."""
    block = bytearray()
    _memory.start("exact")
    for _ in range(5000):
        # grow
        block += b"0123456789"
    found = held("grow")
    assert found[0] == block.__alloc__() and found[1] == 1, (found, block.__alloc__())
    assert found[2] > found[0] and found[3] > 1, found
    del block
    assert held("grow")[:2] == [0, 0]
    _memory.stop()


def peak():
    """Live bytes at the peak, after all is freed."""
    _memory.start("exact")
    # first
    big = [bytes(1 << 20) for _ in range(10)]
    size = sum(sys.getsizeof(block) for block in big)
    before = _memory.snapshot().peak_bytes
    assert size <= before < size + 100 * KIB, (size, before)
    del big
    # second
    small = [bytes(1 << 20) for _ in range(3)]
    snapshot = _memory.snapshot()
    assert 0 <= snapshot.peak_bytes - before < KIB, (before, snapshot.peak_bytes)
    assert size <= held("first", snapshot)[4] < size + KIB, held("first", snapshot)
    assert held("second", snapshot)[4] == 0 and held("second", snapshot)[0] > 3 << 20
    sums = sum(site.peak_bytes for site in snapshot.sites)
    assert sums == snapshot.peak_bytes, (sums, snapshot.peak_bytes)
    del small
    _memory.stop()


def threads():
    """Blocks of many threads, freed by another thread."""
    blocks = [[None] * 500 for _ in range(6)]

    def work(mine):
        for i in range(len(mine)):
            # work
            mine[i] = bytes(2000)

    _memory.start("exact")
    for _ in range(3):
        some = [threading.Thread(target=work, args=(mine,)) for mine in blocks]
        for thread in some:
            thread.start()
        for thread in some:
            thread.join()
    size = sys.getsizeof(bytes(2000))
    assert held("work")[:2] == [3000 * size, 3000], held("work")
    assert is_about(held("work")[2:4], [9000 * size, 9000]), held("work")
    roots = {
        site.frames[-1].line
        for site in _memory.snapshot().sites
        if site.line == (FILE, line_after("work"))
    }
    assert len(roots) > 6, roots
    del blocks[:]
    assert held("work")[:2] == [0, 0], held("work")
    _memory.stop()


def fork():
    """A child counts from 0; freeing its parent's blocks does not make counts negative."""
    _memory.start("exact")
    # parent
    mine = [bytes(5000) for _ in range(100)]
    ours = held("parent")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            del mine[:]
            # child
            own = [bytes(7000) for _ in range(50)]
            snapshot = _memory.snapshot()
            assert held("parent", snapshot)[0] == 0, held("parent", snapshot)
            found = held("child", snapshot)
            size = sum(sys.getsizeof(block) for block in own)
            assert size <= found[0] < size + KIB, (size, found)
            assert snapshot.live_bytes < size + 100 * KIB, snapshot.live_bytes
            assert all(site.live_bytes >= 0 for site in snapshot.sites)
            assert snapshot.lost["free"] == 0, snapshot.lost
            status = 0
        except AssertionError as error:
            print(error, flush=True)
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert held("parent")[:4] == ours[:4], (held("parent"), ours)
    assert held("child")[3] == 0
    _memory.stop()


def deep():
    """A stack of thousands of frames is cut in the middle, and counted as a loss."""

    def down(n):
        # deep
        return bytes(3000) if n == 0 else down(n - 1)

    kept = []

    def run():
        kept.append(down(4000))

    sys.setrecursionlimit(6000)
    threading.stack_size(256 << 20)
    _memory.start("exact")
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    snapshot = _memory.snapshot()
    _memory.stop()
    assert snapshot.lost["cut"] > 0, snapshot.lost
    found = [site for site in snapshot.sites if site.live_bytes > 3000 and len(site.frames) > 100]
    assert found, snapshot.sites[:5]
    kinds = [frame.kind for frame in found[0].frames]
    assert len(kinds) <= 256 and kinds[-1] == "thread" and kinds.count("cut") == 1, kinds[-4:]
    assert found[0].frames[-2].name == "Thread._bootstrap" or "_bootstrap" in str(
        found[0].frames[-2]
    )


def signals():
    """Signal handlers that allocate at any time."""
    kept = []
    ready = []

    def handler(number, frame):
        # handler
        kept.append(bytes(4000))

    _memory.start("exact")
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    while len(kept) < 100:
        ready.append([object() for _ in range(100)])
        del ready[:-10]
    signal.setitimer(signal.ITIMER_REAL, 0)
    size = sum(sys.getsizeof(block) for block in kept)
    found = held("handler")
    assert size <= found[0] < size + 2 * KIB, (size, found)  # and the list
    _memory.stop()


def no_memory():
    """A failed allocation raises in the program as usual, and is not counted."""
    usage = 1 << 30
    for mode in ("exact", "sampled"):
        _memory.start(mode, 64 * KIB)
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (usage, limits[1]))
        before = _memory.snapshot().live_bytes
        for _ in range(20):
            try:
                # refused
                bytearray(8 << 30)
                raise AssertionError("8 GB within 1 GB")
            except MemoryError:
                pass
        grown = bytearray(1 << 20)
        try:
            grown += bytes(1) * (4 << 30)
            raise AssertionError("4 GB within 1 GB")
        except MemoryError:
            pass
        resource.setrlimit(resource.RLIMIT_AS, limits)
        after = _memory.snapshot().live_bytes
        assert after - before < 8 << 20, (before, after)
        assert held("refused")[0] < 1 << 20, held("refused")
        _memory.stop()


def sampled():
    """Estimates are within their stated error; nothing is left when all is freed."""
    keep = [None] * 40000
    _memory.start("sampled", 64 * KIB)
    for i in range(len(keep)):
        # sample
        keep[i] = bytes(968 + i % 64)
    truth = sum(sys.getsizeof(block) for block in keep)
    found = held("sample")
    error = sum(
        site.error_bytes**2
        for site in _memory.snapshot().sites
        if site.line == (FILE, line_after("sample"))
    )
    error **= 0.5
    # The error of 610 samples is 4 %. It is estimated from the same samples, so fewer than 479 or
    # more than 777 of them are six errors away. False alarms: below 1e-7 (Poisson).
    assert truth * 0.02 < error < truth * 0.08, (truth, error)
    assert abs(found[0] - truth) < 6 * error, (found, truth, error)
    assert abs(found[1] - 40000) < 6 * 40000 * error / truth, found
    del keep[:]
    assert held("sample")[:2] == [0, 0], held("sample")
    _memory.stop()


def again():
    """Stopping restores the allocators, and counting restarts from 0."""
    import ctypes

    def allocators():
        found = []
        for domain in range(3):
            words = (ctypes.c_void_p * 5)()
            ctypes.pythonapi.PyMem_GetAllocator(domain, words)
            found.append(list(words))
        return found

    before = allocators()
    for mode in ("sampled", "exact", "sampled"):
        _memory.start(mode)
        assert allocators() != before and _memory.is_on()
        # again
        kept = [bytes(10000) for _ in range(50)]
        _memory.stop()
        count = held("again")[3]
        assert allocators() == before and not _memory.is_on()
        kept += [bytes(10000) for _ in range(50)]
        assert held("again")[3] == count
        del kept
    try:
        _memory.start("exact")
        _memory.start("exact")
        raise AssertionError("twice")
    except RuntimeError as error:
        assert "already" in str(error), error
    _memory.stop()
    for mode, interval in (("often", 1 << 20), ("sampled", 3), ("sampled", 1 << 60)):
        try:
            _memory.start(mode, interval)
            raise AssertionError("taken")
        except ValueError:
            pass


def libraries():
    """Libraries loaded and unloaded while counting; native memory is attributed to its library."""
    import _ctypes

    _memory.start("exact")
    import ctypes
    import zlib

    for _ in range(3):
        for name in ("libz.so.1", "libm.so.6"):
            _ctypes.dlclose(_ctypes.dlopen(name, 0))
        zlib.compress(bytes(100000))
    library = ctypes.CDLL(None)
    library.setlocale.restype = ctypes.c_char_p
    # packer
    packer = zlib.compressobj()
    packer.compress(bytes(10))
    natives = {
        frame.name
        for site in _memory.snapshot().sites
        for frame in site.frames[:1]
        if frame.kind == "native"
    }
    assert natives, "no native allocation"
    _memory.stop()


def numpy():
    """Arrays are counted at their line."""
    try:
        import numpy as np
    except ImportError:
        return
    _memory.start("exact")
    # array
    array = np.ones(100000)
    sites = [site for site in _memory.snapshot().sites if site.live_bytes >= array.nbytes]
    assert len(sites) == 1, sites
    line = line_after("array")
    assert sites[0].allocator == "malloc" and sites[0].frames[0].kind == "native"
    assert any(frame.file == FILE and frame.line == line for frame in sites[0].frames), sites
    del array
    assert not [site for site in _memory.snapshot().sites if site.live_bytes >= 100000]
    _memory.stop()


def generators():
    """Stacks include frames of generators and coroutines."""
    kept = []

    def inner():
        for _ in range(10):
            # yielded
            kept.append(bytes(6000))
            yield 1

    async def coroutine():
        for _ in inner():
            pass

    def outer():
        yield from inner()

    _memory.start("exact")
    list(outer())
    try:
        coroutine().send(None)
    except StopIteration:
        pass
    names = set()
    for site in _memory.snapshot().sites:
        if site.line == (FILE, line_after("yielded")) and site.live_bytes > 6000:
            names.add(tuple(frame.name.rpartition(".")[2] for frame in site.frames[:3]))
    assert names == {("inner", "outer", "generators"), ("inner", "coroutine", "generators")}, names
    _memory.stop()


def interpreters():
    """Sub-interpreters in the same process."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            module = __import__(name)
            break
        except ImportError:
            continue
    else:
        return
    _memory.start("exact")
    other = module.create()
    module.run_string(other, "kept = [bytes(1000) for _ in range(1000)]")
    assert _memory.snapshot().live_by_allocator["pyobject"] > 1000000
    module.destroy(other)
    _memory.stop()


def device():
    """A fake torch.cuda with two GPUs."""
    import types

    import gsprof
    from gsprof import _device_memory, _memory_files

    state = {"used": False, "reads": 0}

    def memory_stats(number):
        state["reads"] += 1
        kinds = ("allocated_bytes.all.current", "reserved_bytes.all.current")
        found = {name: 1000 * (number + 1) * (i + 1) for i, name in enumerate(kinds)}
        return {**found, "allocated_bytes.all.peak": 1 << 20}

    cuda = types.SimpleNamespace(memory_stats=memory_stats, device_count=lambda: 2)
    assert _device_memory.read() is None
    sys.modules["torch.cuda"] = cuda
    assert _device_memory.read() is None  # a partially imported module
    cuda.is_initialized = lambda: state["used"]
    _device_memory.at_step()
    _memory.start("exact")
    assert _device_memory.read() is None
    assert "GPU" not in _memory_files.text("Now")
    gsprof.step()
    assert state["reads"] == 0
    state["used"] = True
    assert _device_memory.read() == (3000, 6000, 2 << 20)
    assert "PyTorch on GPUs 3000 B, at the peak 2048 KiB; reserved 6000 B" in _memory_files.text("")
    # At most once per interval, however short a step is.
    state["reads"] = 0
    _device_memory._next_s = 0.0
    gsprof.step()
    assert state["reads"] == 2
    _device_memory._next_s = float("inf")
    gsprof.step()
    assert state["reads"] == 2
    # An error in PyTorch is swallowed; GSPROF_DEBUG would print it.
    del cuda.device_count
    os.environ["GSPROF_DEBUG"] = "0"
    _device_memory.publish()
    _memory.stop()
    del sys.modules["torch.cuda"]


def at_the_end():
    """Counting while the interpreter shuts down."""
    import atexit

    class Last:
        def __del__(self):
            self.kept = [bytes(100) for _ in range(100)]

    globals()["last"] = Last()
    atexit.register(lambda: [bytes(1000) for _ in range(100)])
    _memory.start("exact")


if __name__ == "__main__":
    for check in sys.argv[1:]:
        globals()[check]()
        print(check, flush=True)
