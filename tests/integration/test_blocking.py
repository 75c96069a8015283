# SPDX-License-Identifier: Apache-2.0
"""--blocking stops the target briefly; nothing may leave it stopped."""

from __future__ import annotations

import mmap
import random
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from conftest import StartTarget
from support import GSPROF, PATIENCE_S, state_of, wait_for

KILLS = 200


def tracer_of(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("TracerPid:"):
            return int(line.split()[1])
    raise AssertionError("no TracerPid")


def wait_for_count(memory: mmap.mmap, pid: int) -> None:
    """Waits until the counter of the target changes."""
    seen = struct.unpack("<Q", memory[:8])[0]
    wait_for(
        lambda: struct.unpack("<Q", memory[:8])[0] != seen,
        f"the counter does not change; {pid} was in state {state_of(pid)}",
        timeout_s=PATIENCE_S / 4,
        pause_s=0.0005,
    )


@pytest.mark.parametrize("mode", ["--blocking", "--native", "--nonblocking"])
def test_killed_at_random_moments(mode: str, start: StartTarget, tmp_path: Path) -> None:
    """SIGKILL 200 times, at any point of attaching and sampling: the target keeps running."""
    path = tmp_path / "count"
    path.write_bytes(bytes(8))
    target = start("counter.py", path)
    rng = random.Random(20)
    flags = [] if mode == "--nonblocking" else [mode]
    kills = KILLS if flags else KILLS // 10
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 8) as memory:
        for i in range(kills):
            one = subprocess.Popen(
                [
                    str(GSPROF),
                    "record",
                    "-p",
                    str(target.pid),
                    "-r",
                    "5000",
                    "--force",
                    "-o",
                    str(tmp_path / "p.gsp"),
                    *flags,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            # The test varies the time of the kill. The recorder does not exit before.
            with pytest.raises(subprocess.TimeoutExpired):
                one.wait(rng.random() * (0.06 if i % 4 else 0.004))
            one.send_signal(signal.SIGKILL)
            one.wait()
            wait_for_count(memory, target.pid)
            assert state_of(target.pid) not in ("T", "t")
            assert tracer_of(target.pid) == 0
    assert target.alive()


def test_no_tracing_by_default(start: StartTarget, tmp_path: Path) -> None:
    """Without --blocking the target never has a tracer and is never stopped."""
    target = start("spin.py")
    checks = 0
    while checks < 1000:
        one = subprocess.Popen(
            [
                str(GSPROF),
                "record",
                "-p",
                str(target.pid),
                "-r",
                "1000",
                "-d",
                "0.5",
                "--force",
                "-o",
                str(tmp_path / "p.json"),
            ],
            stderr=subprocess.DEVNULL,
        )
        while one.poll() is None:
            assert tracer_of(target.pid) == 0
            assert state_of(target.pid) not in ("T", "t")
            checks += 1
        assert one.returncode == 0
