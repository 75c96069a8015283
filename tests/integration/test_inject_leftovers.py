# SPDX-License-Identifier: Apache-2.0
"""What a killed gsprof inject leaves in the ring directory of its target, and who removes it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Dict

from conftest import StartTarget
from support import GSPROF, PATIENCE_S, Python, gsprof, wait_for
from test_list import listing

LONG = ("--timeout", f"{PATIENCE_S - 5:g}s")


def kill_in_eval(pid: int, folder: Path, runtime: Dict[str, str]) -> None:
    """Kills a command while the target runs its script, and waits until the script has ended."""
    process = subprocess.Popen(
        [str(GSPROF), "eval", str(pid), "import time; time.sleep(0.5)", "--yes"],
        env={**os.environ, **runtime},
    )
    wait_for(lambda: list(folder.glob(f"gsprof/{pid}-*/script-*.claim")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: list(folder.glob(f"gsprof/{pid}-*/script-*.answer")))


def test_what_killed_commands_leave(
    start: StartTarget, some_python: Python, runtime: Dict[str, str]
) -> None:
    env = {**runtime, "GSPROF_FOLLOW": "0"}
    folder = Path(runtime["XDG_RUNTIME_DIR"])
    target = start("inject_states.py", "sleep", python=some_python, env=env)
    kill_in_eval(target.pid, folder, runtime)
    wait_for(lambda: list(folder.glob(f"gsprof/{target.pid}-*/script-*.outcome")))
    left = sorted(folder.glob(f"gsprof/{target.pid}-*/script-*"))
    assert [path.suffix for path in left] == [".answer", ".claim", ".outcome", ".py"]
    # Others may still be in use.
    gsprof("eval", target.pid, "1", "--yes", *LONG, env=env)
    assert sorted(folder.glob(f"gsprof/{target.pid}-*/script-*")) == left
    for path in left:
        os.utime(path, (60, 60))
    gsprof("eval", target.pid, "1", "--yes", *LONG, env=env)
    assert not list(folder.glob(f"gsprof/{target.pid}-*/script-*"))
    # The sweep after the end of the target removes all of them, whatever their age.
    kill_in_eval(target.pid, folder, runtime)
    target.end()
    listing(runtime, "--clean")
    assert not list(folder.glob("gsprof/*"))
