# SPDX-License-Identifier: Apache-2.0
"""Targets with corrupt memory: the profiler may find nothing, but it does not crash or hang."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import StartTarget
from support import Python, gsprof


def test_scribbled_frames(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Random bytes in frames, code objects and a thread state, changing during the read."""
    for how in ("random", "cycle", "ones", "pointers"):
        target = start("scribble.py", how, 3, python=python)
        path = tmp_path / f"{how}.json"
        # The target overwrites its memory for longer than either command takes.
        gsprof("dump", "-p", target.pid, "--locals", "--json", status=None)
        done = gsprof(
            "record",
            "-p",
            target.pid,
            "-i",
            "-r",
            "2000",
            "-d",
            "0.4",
            "-o",
            path,
            status=None,
        )
        assert done.status in (0, 1, 65, 69, 75), done
        if path.exists():
            json.loads(path.read_text(encoding="utf-8"))


def test_scribbled_while_blocking(start: StartTarget, tmp_path: Path) -> None:
    for seed in range(3):
        target = start("scribble.py", "random", seed)
        gsprof(
            "record",
            "-p",
            target.pid,
            "-i",
            "--blocking",
            "-r",
            "1000",
            "-d",
            "0.6",
            "-o",
            tmp_path / f"{seed}.json",
            status=None,
        )


def test_starting_and_ending(python: Python, tmp_path: Path) -> None:
    """Recording processes that exit within milliseconds."""
    for i in range(4):
        gsprof(
            "record",
            "-r",
            "2000",
            "-o",
            tmp_path / f"{i}.json",
            "--",
            python.path,
            "-c",
            f"import time; end = time.time() + 0.0{i}\nwhile time.time() < end: pass",
            status=None,
        )
