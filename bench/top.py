# SPDX-License-Identifier: Apache-2.0
"""The cost of gsprof top."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import threading
from typing import List, Tuple

from common import Bench, Cost, Row, need, shown, steady
from support import GSPROF

THREADS = 16
RATE_HZ = 100
# Attaching and reading names happen once, at the start.
START_S = 2.0


def drain(fd: int) -> None:
    """Reads and discards the output of a terminal."""
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass  # the other side is closed


def on_screen(argv: List[object], window: Tuple[float, float]) -> Cost:
    """Runs a command on a pseudoterminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    reader = threading.Thread(target=drain, args=(master,))
    reader.start()
    try:
        return steady(argv, window, tty=slave)
    finally:
        os.close(slave)
        reader.join()
        os.close(master)


def watch(bench: Bench, words: List[object], what: str, printed: bool) -> None:
    target = bench.target("wakers.py", *words)
    seconds = bench.seconds(9)
    window = (START_S, START_S + seconds)
    argv: List[object] = [GSPROF, "top", "-p", target.pid, "-r", RATE_HZ, "-q"]
    argv += ["--json"] if printed else []
    argv += ["-d", window[1] + 1]
    try:
        cost = need(steady(argv, window) if printed else on_screen(argv, window), argv)
    finally:
        target.end()
    value = 100 * cost.cpu_s / cost.wall_s
    bench.add(
        Row(
            "top",
            f"{THREADS} threads at {RATE_HZ} Hz, {what}",
            value,
            "% of a core",
            "<= 2 %",
            value <= 2,
            shown(argv),
            f"without the first {START_S:g} s",
        )
    )


def main(bench: Bench) -> None:
    os.environ.setdefault("TERM", "xterm-256color")
    watch(bench, [THREADS, 1, "one"], "one of them running", False)
    watch(bench, [THREADS, 0.02], "each awake 50 times a second", False)
    watch(bench, [THREADS, 0.02], "each awake 50 times a second, JSON", True)
