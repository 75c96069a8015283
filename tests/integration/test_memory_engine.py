# SPDX-License-Identifier: Apache-2.0
"""Counting allocations inside a process: programs with known allocations, and failures."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
from pathlib import Path
from typing import Dict, List, Mapping

import pytest
from conftest import NEEDS_EXTENSION
from support import PACKAGE, PATIENCE_S, PROGRAMS, Python, main_python

COUNTS = PROGRAMS / "memory_counts.py"

pytestmark = NEEDS_EXTENSION


def run(words: List[str], env: Mapping[str, str], **more: str) -> str:
    """Returns the output of a program, which must succeed."""
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **env, "GSPROF_DEBUG": "1", **more},
        timeout=PATIENCE_S,
        check=False,
    )
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, output
    return output


@pytest.fixture
def package(runtime: Dict[str, str]) -> Dict[str, str]:
    return {**runtime, "PYTHONPATH": str(PACKAGE)}


def test_known_allocations(python: Python, package: Dict[str, str]) -> None:
    if python.label.split("-")[0].endswith("t"):
        pytest.skip("free-threaded interpreters need another extension")
    checks = ["exact", "realloc", "peak", "threads", "fork", "generators", "sampled", "again"]
    output = run([python.path, str(COUNTS), *checks], package)
    assert output.split() == checks


FAULTS = ["deep", "signals", "no_memory", "libraries", "numpy", "interpreters"]
FAULTS += ["device", "at_the_end"]


@pytest.mark.parametrize("check", FAULTS)
def test_faults(check: str, package: Dict[str, str]) -> None:
    assert run([main_python(), str(COUNTS), check], package).split() == [check]


@pytest.mark.parametrize("kind", ["malloc", "malloc_debug", "debug"])
def test_other_allocators_of_python(kind: str, package: Dict[str, str]) -> None:
    checks = ["threads", "sampled", "again", "at_the_end"]
    output = run([main_python(), str(COUNTS), *checks], package, PYTHONMALLOC=kind)
    assert output.split() == checks


def test_preloaded_allocator(package: Dict[str, str]) -> None:
    found = [
        path
        for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4")
        for path in Path("/usr/lib").glob(f"*/{name}")
    ]
    if not found:
        pytest.skip("needs jemalloc or tcmalloc (libjemalloc2)")
    for path in found:
        output = run(
            [main_python(), str(COUNTS), "sampled", "exact"], package, LD_PRELOAD=str(path)
        )
        assert output.split() == ["sampled", "exact"]


def test_sub_interpreter_changes_nothing(python: Python, runtime: Dict[str, str]) -> None:
    """A sub-interpreter runs the same start-up files, but only the main one controls counting."""
    if python.label.split("-")[0].endswith("t"):
        pytest.skip("free-threaded interpreters need another extension")
    path = os.pathsep.join([str(PACKAGE), str(PACKAGE / "start")])
    program = str(PROGRAMS / "memory_subinterpreter.py")
    output = run([python.path, program], runtime, PYTHONPATH=path, GSPROF_MEMORY="sampled")
    before, after = map(json.loads, output.splitlines())
    assert (before[0], after[0]) == (True, True)
    # Blocks above the interval are counted exactly; modules allocate little.
    assert 64 <= before[1] < 72 and 128 <= after[1] < 144, (before, after)
    assert "<module>" in before[2] and "<module>" in after[2], (before, after)


KILLED = """
import time
from gsprof import _memory
_memory.start("exact")
kept = [bytes(10000) for _ in range(1000)]
print("ready", flush=True)
time.sleep(600)
"""


def test_counters_outlive_a_killed_process(package: Dict[str, str]) -> None:
    with subprocess.Popen(
        [main_python(), "-c", KILLED], env={**os.environ, **package}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    files = list(Path(package["XDG_RUNTIME_DIR"]).glob(f"gsprof/{process.pid}-*/memory"))
    assert len(files) == 1, files
    head = files[0].read_bytes()
    magic, version, order, mode, pid = struct.unpack_from("<8sIIIi", head)
    assert (magic, version, order, mode) == (b"GSPMEM01", 1, 0x01020304, 2)
    assert pid == process.pid
    assert len(head) <= 8 << 20
    # Offset of live_bytes, after the areas and their counts.
    (live,) = struct.unpack_from("<Q", head, 136)
    assert 10000000 < live < 11000000


APP = """
import os, time
end_s = time.monotonic() + {patience}
kept = []
while time.monotonic() < end_s and not os.path.exists({snapshot!r}):
    kept.append(bytes(50000))  # the line
    if len(kept) > 2000:
        del kept[:1000]
"""


def test_profiling_variable_leaves_files(runtime: Dict[str, str], tmp_path: Path) -> None:
    app = tmp_path / "my app.py"
    snapshot = tmp_path / "my app_memory_snapshot.txt"
    app.write_text(APP.format(patience=PATIENCE_S, snapshot=str(snapshot)), encoding="utf-8")
    # An existing symbolic link is replaced, not followed.
    target = tmp_path / "precious"
    target.write_text("mine", encoding="utf-8")
    (tmp_path / "my app_memory_final.txt").symlink_to(target)
    path = os.pathsep.join([str(PACKAGE), str(PACKAGE / "start")])
    more = {"PROFILING": "1", "TMPDIR": str(tmp_path), "PYTHONPATH": path}
    assert run([main_python(), str(app)], runtime, **more) == ""
    assert target.read_text(encoding="utf-8") == "mine"
    for file in (snapshot, tmp_path / "my app_memory_final.txt"):
        lines = file.read_text(encoding="utf-8").splitlines()
        assert "of my app (process" in lines[0] and "sampled" in lines[1], lines
        assert lines[5].startswith(f"#1: {app}:6: size="), lines
        assert "# the line" in lines[6], lines
        assert lines[-1].startswith("Total allocated size: "), lines


def test_memory_environment_variable(runtime: Dict[str, str]) -> None:
    path = os.pathsep.join([str(PACKAGE), str(PACKAGE / "start")])
    code = "from gsprof import _gsprof; print(_gsprof.memory_mode(), _gsprof.get('memory'))"
    for value, mode in (("1", "sampled"), ("exact", "exact"), ("off", "off"), ("0", "off")):
        output = run([main_python(), "-c", code], runtime, PYTHONPATH=path, GSPROF_MEMORY=value)
        assert output.split() == [mode, mode]
    wrong = run([main_python(), "-c", code], runtime, PYTHONPATH=path, GSPROF_MEMORY="much")
    assert "off, sampled or exact, not 'much'" in wrong and wrong.split()[-2:] == ["off", "off"]
