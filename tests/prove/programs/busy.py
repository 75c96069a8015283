# SPDX-License-Identifier: Apache-2.0
"""A program for tests that attach to it: stays in a state, and checks its own results.

    busy.py LIBRARY FILE STATE

Counts in FILE, which tests/prove/targets.py maps, how far each thread got. Ends with status 7 when
the test requests it; prints the number of wrong results."""
import ctypes
import mmap
import os
import select
import signal
import sys
import threading
import time
import zlib

SLOTS_AT = 128
SLOTS = 32
LIBRARY, FILE, STATE = sys.argv[1:4]
library = ctypes.CDLL(LIBRARY)
library_with_gil = ctypes.PyDLL(LIBRARY)
with open(FILE, "r+b") as file:
    memory = mmap.mmap(file.fileno(), 4096)
stop = ctypes.c_uint64.from_buffer(memory, 0)
slots = (ctypes.c_uint64 * SLOTS).from_buffer(memory, SLOTS_AT)
wrong = []


def python():
    """Floating-point numbers in Python code."""
    x = 0.3
    for _ in range(3000):
        x = 3.99 * x * (1.0 - x)
    if not expected:
        expected.append(x)
    if x != expected[0]:
        wrong.append("python")


expected = []
DATA = bytes(range(256)) * 200


def allocate():
    """Mostly allocates and frees in C."""
    rows = [str(number) * 3 for number in range(3000)]
    rows.sort()
    if zlib.decompress(zlib.compress(DATA, 3)) != DATA or len(rows) != 3000:
        wrong.append("allocate")


def sleep():
    before = time.monotonic()
    time.sleep(0.02)
    if time.monotonic() - before < 0.02:
        wrong.append("sleep")


lock = threading.Lock()


def wait_for_lock():
    if lock.acquire(timeout=0.02):
        wrong.append("lock")


def wait_in_epoll():
    poller = select.epoll()
    if poller.poll(0.02):
        wrong.append("epoll")
    poller.close()


def wait_in_select():
    if select.select([silent[0]], [], [], 0.02)[0]:
        wrong.append("select")


silent = os.pipe()
fed = os.pipe()


def read():
    if os.read(fed[0], 1) != b"x":
        wrong.append("read")


def feed():
    os.write(fed[1], b"x")
    time.sleep(0.01)


def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    if os.waitpid(pid, 0)[1] != 3 << 8:
        wrong.append("fork")


def start_threads():
    found = []
    threads = [threading.Thread(target=lambda: found.append(sum(range(500)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if found != [124750] * 3:
        wrong.append("start_threads")


# By state: what the main thread does, and what other threads do.
STATES = {
    "python": (python, []),
    "c": (library.probe_compute, []),
    "c_upward": (library.probe_compute_upward, []),
    "gil": (library_with_gil.probe_compute, [python]),
    "allocate": (allocate, []),
    "sleep": (sleep, []),
    "lock": (wait_for_lock, []),
    "epoll": (wait_in_epoll, [python]),
    "select": (wait_in_select, []),
    "read": (read, [feed]),
    "forks": (fork, []),
    "start_threads": (start_threads, []),
    "vectors": (library.probe_vectors, []),
    "poll": (library.probe_poll, [library.probe_wake]),
    "recv": (library.probe_recv, [library.probe_wake]),
    "epoll_c": (library.probe_epoll, [library.probe_wake]),
    "sigwait": (library.probe_sigwait, [library.probe_wake_by_signal]),
    # The first thread is nearly always on the stack of a coroutine: the other one has to be used.
    "context_stack": (library.probe_context_stack, [sleep]),
    "thread_stack": (library.probe_thread_stack, [python]),
    "alarms": (python, []),
    "alarms_c": (library.probe_compute, [sleep]),
    "many": (python, [python, library.probe_compute, allocate] + [sleep] * 9),
}


def repeat(slot, step):
    while not stop.value:
        step()
        slots[slot] += 1
    if step is feed:
        os.write(fed[1], b"x")  # for the last read
    if step in (library.probe_wake, library.probe_wake_by_signal):
        step()  # for the last wait


def main():
    step, others = STATES[STATE]
    lock.acquire()
    # A mask that is not empty: the tests compare it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGRTMIN + 5])
    if library.probe_open(FILE.encode()) != 0:
        sys.exit("no signal handlers")
    threads = [
        threading.Thread(target=repeat, args=(number + 1, other))
        for number, other in enumerate(others)
    ]
    for thread in threads:
        thread.start()
    if STATE.startswith("alarms"):
        signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    print(len(threads) + 1, flush=True)
    repeat(0, step)
    for thread in threads:
        thread.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(len(wrong), flush=True)
    sys.exit(7)


main()
