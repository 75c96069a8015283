# SPDX-License-Identifier: Apache-2.0
"""Forked processes and imported modules of a recorded program behave as without gsprof."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Dict, Mapping, Sequence, Tuple

import pytest
from conftest import NEEDS_EXTENSION
from support import GSPROF, PACKAGE, PATIENCE_S, Python, gsprof


pytestmark = NEEDS_EXTENSION

Ended = Tuple[int, str]


def end_of(command: Sequence[object], env: Mapping[str, str], folder: Path) -> Ended:
    """Returns the exit status and the output of a program."""
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **env},
        cwd=folder,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def both(
    python: Python, script: Path, env: Mapping[str, str], *options: str
) -> Tuple[Ended, Ended]:
    """Returns the results of a program alone and under `gsprof run`."""
    program = [python.path, script]
    command = [GSPROF, "run", "-q", "-o", script.parent / "run", *options, "--", *program]
    return end_of(program, {}, script.parent), end_of(command, env, script.parent)


# ----------------------------------------------------------------------------- signals

# A fork hook that runs before gsprof's leaves a signal pending until bytecode runs.
SIGNALLED = """
import _thread, os, signal, sys

def leave(*rest):
    raise SystemExit(3)

signal.signal(signal.SIGINT, leave)
os.register_at_fork(after_in_child=_thread.interrupt_main)
if len(sys.argv) > 1:
    sys.path.append(sys.argv[1])
    os.environ["GSPROF"] = "2"
    from gsprof import _environment
    _environment.from_environment()
    from gsprof import _gsprof
    assert _gsprof.is_on()
parent = os.getpid()
try:
    pid = os.fork()
    if pid == 0:
        for _ in range(1000):
            pass
        os._exit(9)
except SystemExit as error:
    os._exit(error.code if os.getpid() != parent else 8)
print(pid, os.waitpid(pid, 0)[1] >> 8)
"""


@pytest.mark.parametrize("is_run", [True, False], ids=["run", "alone"])
def test_a_signal_at_fork(
    is_run: bool, python: Python, runtime: Dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "signalled.py"
    script.write_text(SIGNALLED)
    run_file = tmp_path / "run_file"
    run_file.touch()
    env = {**runtime, "GSPROF_MEMORY": "sampled", "GSPROF_DEBUG": "1"}
    if is_run:
        env["GSPROF_RUN_FILE"] = str(run_file)
    status, alone = end_of([python.path, script], {}, tmp_path)
    assert (status, alone.split()[1:]) == (0, ["3"])
    status, recorded = end_of([python.path, script, PACKAGE], env, tmp_path)
    assert (status, recorded.split()[1:]) == (0, ["3"]), recorded
    # The child has reported itself: `gsprof run` would follow it.
    assert (recorded.split()[0] in run_file.read_text().split()) == is_run


# ----------------------------------------------------------------------- side effects

AUDITED = """
import os, sys

parent = os.getpid()

def hook(event, args):
    if os.getpid() != parent:
        os.write(1, ("%s\\n" % event).encode())

sys.addaudithook(hook)
pid = os.fork()
if pid == 0:
    for _ in range(1000):
        pass
    os._exit(7)
print(os.waitpid(pid, 0)[1] >> 8)
"""

# An orphan becomes a child of the program.
SUBREAPER = """
import ctypes, os

assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
pid = os.fork()
if pid == 0:
    os._exit(0)
count = 0
try:
    while True:
        os.wait()
        count += 1
except ChildProcessError:
    print(count)
"""


@pytest.mark.parametrize("program", [AUDITED, SUBREAPER], ids=["audit", "subreaper"])
def test_no_side_effects(
    program: str, python: Python, runtime: Dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "notices.py"
    script.write_text(program)
    alone, recorded = both(python, script, runtime)
    assert recorded == alone
    assert alone[0] == 0


# A seccomp filter that kills a process that opens a file or starts a program.
SANDBOXED = """
import ctypes, os, struct, sys, threading

def work():
    for _ in range(20_000):
        bytearray(100_000)

def work_in_thread():
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

work_in_thread()  # 3.8 opens a library at the end of the first thread
calls = {"x86_64": (257, 59), "aarch64": (56, 221)}[os.uname().machine]
code = [(0x20, 0, 0, 0)]
code += [(0x15, len(calls) - i, 0, number) for i, number in enumerate(calls)]
code += [(6, 0, 0, 0x7FFF0000), (6, 0, 0, 0x80000000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in code))
program = struct.pack("HxxxxxxQ", 5, ctypes.addressof(code))
program = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
if libc.prctl(22, 2, program, 0, 0) != 0:
    sys.exit(77)
work_in_thread()
pid = os.fork()
if pid == 0:
    work()
    os._exit(7)
work()
print(os.waitpid(pid, 0)[1])
"""


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"),
    reason="needs x86_64 or aarch64: system call numbers",
)
@pytest.mark.parametrize("options", [(), ("--no-memory",)], ids=" ".join)
def test_a_sandbox(
    python: Python, runtime: Dict[str, str], tmp_path: Path, options: Tuple[str, ...]
) -> None:
    script = tmp_path / "sandboxed.py"
    script.write_text(SANDBOXED)
    if python.version >= (3, 12):
        pytest.skip("os.fork() of Python 3.12+ opens a file to count threads")
    alone, recorded = both(python, script, runtime, *options)
    if alone[0] == 77:
        pytest.skip("needs seccomp filters")
    assert recorded == alone == (0, f"{7 << 8}\n")


# ---------------------------------------------------------------------------- followers

# The forked process waits until it has a follower and prints facts about it.
FOLLOWED = """
import os, time

RUN = os.getppid()

def field(pid, name):
    with open("/proc/%s/status" % pid) as file:
        return [line.split()[1] for line in file if line.startswith(name + ":")][0]

def follower(pid):
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read().split(b"\\0")
            if words[1:3] == [b"follow", str(pid).encode()]:
                return int(name)
        except OSError:
            pass
    return None

def work():
    until = time.monotonic() + 30
    found = None
    while found is None and time.monotonic() < until:
        found = follower(os.getpid())
    print(os.getpid(), found, field(found, "PPid") == str(RUN), os.getsid(found))
    until = time.monotonic() + 1
    while time.monotonic() < until:
        sum(range(1000))


pid = os.fork()
if pid == 0:
    work()
else:
    os.waitpid(pid, 0)
"""


def test_followers_belong_to_the_run(
    some_python: Python, runtime: Dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "followed.py"
    script.write_text(FOLLOWED)
    folder = tmp_path / "run"
    status, output = end_of(
        [GSPROF, "run", "-q", "-o", folder, "--", some_python.path, script], runtime, tmp_path
    )
    assert status == 0, output
    pid, follower, is_child_of_run, session = output.split()
    assert is_child_of_run == "True"
    assert session == follower
    assert not Path("/proc", follower).exists()
    sql = f"SELECT count(*) AS n FROM python.stack_sample WHERE pid = {pid}"
    assert int(gsprof("query", folder, sql, "-f", "csv", env=runtime).out.split()[1]) > 10


# ------------------------------------------------------------------------------ modules

MODULES = "import sys; print(*sorted(sys.modules))"


@pytest.mark.parametrize("more", [{}, {"PROFILING": "1"}], ids=["run", "files"])
def test_modules_at_the_start(
    more: Dict[str, str], python: Python, runtime: Dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "modules.py"
    script.write_text(MODULES)
    env = {**runtime, **more, "TMPDIR": str(tmp_path)}
    (_, alone), (_, recorded) = both(python, script, env)
    builtins = [python.path, "-c", "import sys; print(*sys.builtin_module_names)"]
    # Built-in modules are found before any file.
    safe = set(end_of(builtins, {}, tmp_path)[1].split())
    new = set(recorded.split()) - set(alone.split())
    assert {name for name in new if name.partition(".")[0] != "gsprof"} <= safe
    assert set(alone.split()) <= set(recorded.split())


# A program may have its own module with a name that a bare interpreter has not loaded.
NAMES = ("collections", "contextlib", "enum", "keyword", "linecache", "math", "tempfile", "typing")


def test_modules_of_the_programs_own(
    python: Python, runtime: Dict[str, str], tmp_path: Path
) -> None:
    loaded = end_of([python.path, "-c", MODULES], {}, tmp_path)[1].split()
    builtin = end_of(
        [python.path, "-c", "import sys; print(*sys.builtin_module_names)"], {}, tmp_path
    )[1].split()
    names = [name for name in NAMES if name not in loaded and name not in builtin]
    for name in names:
        (tmp_path / f"{name}.py").write_text("OWN = True\n")
    script = tmp_path / "main.py"
    script.write_text("".join(f"import {name}; print({name}.OWN)\n" for name in names) + "print(1)")
    # Writing at exit must not import them either.
    env = {**runtime, "PROFILING": "1", "TMPDIR": str(tmp_path)}
    alone, recorded = both(python, script, env)
    assert recorded == alone
    assert alone[0] == 0
    final = (tmp_path / "main_memory_final.txt").read_text()
    assert final.startswith("Memory at the end of main")
