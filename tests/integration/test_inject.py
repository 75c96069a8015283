# SPDX-License-Identifier: Apache-2.0
"""gsprof inject, eject and eval: interpreters of all versions in all their states, programs that
check their own registers and system calls, and processes that refuse injection."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest

from conftest import StartTarget, own_mounts
from support import (
    EXIT_NOFILE,
    EXIT_NOPROC,
    EXIT_PERM,
    EXIT_USAGE,
    GSPROF,
    PATIENCE_S,
    Json,
    Lines,
    Python,
    gsprof,
    main_python,
    state_of,
    wait_for,
)

TOOLS = GSPROF.parent.parent.parent / "tests" / "tools"
PROBE = TOOLS / "libinject_probe.so"
STATES = ["sleep", "loop", "sort", "zlib", "threads", "epoll", "read"]
EXIT_TIMEOUT = 75
EXIT_EXISTS = 73
EXIT_RAISED = 1
PTRACE_SEIZE = 0x4206

# No follower: these tests do not use stacks.
ALONE = {"GSPROF_FOLLOW": "0"}
# Injection needs the GIL about a hundred times, which takes long on a busy machine.
LONG = ("--timeout", f"{PATIENCE_S - 5:g}s")


@pytest.fixture(autouse=True)
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime folder for one test: other rings on this machine are not touched."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))


def call(pid: int, symbol: str, *args: object, status: Optional[int] = 0) -> Json:
    """Calls a function of the probe library in the process."""
    done = subprocess.run(
        [str(TOOLS / "inject_call"), str(pid), str(PROBE), symbol, *(str(arg) for arg in args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    assert status is None or done.returncode == status, f"{done.returncode}: {done.stderr}"
    return {**json.loads(done.stdout), "error": done.stderr, "status": done.returncode}


class Checker:
    """A running tests/tools/regcheck."""

    def __init__(self, how: str, name: str = "regcheck") -> None:
        self.process = subprocess.Popen(
            [str(TOOLS / name), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.pid = self.process.pid
        self.lines = Lines(self.process.stdout.fileno())
        assert self.lines.next() == "ready"

    def finish(self) -> Json:
        assert self.process.stdin is not None
        self.process.stdin.close()
        result: Json = json.loads(self.lines.next() or "{}")
        self.process.wait(PATIENCE_S)
        return result

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


StartChecker = Callable[..., Checker]


@pytest.fixture
def check() -> Iterator[StartChecker]:
    made: List[Checker] = []

    def begin(*args: str) -> Checker:
        made.append(Checker(*args))
        return made[-1]

    yield begin
    for one in made:
        one.end()


def eval_in(pid: int, code: str, **more: Any) -> str:
    return gsprof("eval", pid, code, "--yes", *LONG, **more).out


# -------------------------------------------------------------------- all versions


def test_injection_in_every_state(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """The library is loaded in the first state, which differs between versions, and called again in
    all others."""
    first = STATES[sum(python.version) % len(STATES)]
    target = start("inject_states.py", first, python=python, env=ALONE)
    for number in range(len(STATES)):
        result = call(target.pid, "probe_enter", tmp_path / "log", target.facts["state"])
        assert result["value"] == 42, (target.facts, result)
        assert result["was_loaded"] == (number > 0)
        assert target.go()["bad"] == []
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert sorted(line.split()[0] for line in text.splitlines()) == sorted(STATES)


def test_inject_query_and_eject(python: Python, start: StartTarget, tmp_path: Path) -> None:
    target = start("inject_states.py", "loop", python=python, env=ALONE)
    result = json.loads(gsprof("inject", target.pid, "-D", "sample_rate=0", "--json", *LONG).out)
    newer = python.version >= (3, 14)
    assert result["state"] == "in" and result["by"] == (
        "interpreter" if newer else "library"
    ), result
    assert newer == (result["stopped_ms"] == 0)
    assert "already in process" in gsprof("inject", target.pid, *LONG).out
    assert gsprof("config", target.pid, "sample_rate").out.strip() != ""
    assert eval_in(target.pid, "import sys; 'gsprof' in sys.modules") == "True\n"
    target.go()
    assert "Ejected the agent from process" in gsprof("eject", target.pid, *LONG).out
    assert "no agent in process" in gsprof("eject", target.pid, status=EXIT_NOFILE).err
    assert json.loads(gsprof("inject", target.pid, "--json", *LONG).out)["state"] == "in"
    assert target.go()["bad"] == []
    # No temporary files are left.
    assert [str(path) for path in tmp_path.rglob("script-*")] == []


MODULES = """
import sys
before = set(sys.modules)
print("ready", flush=True)
sys.stdin.readline()
print(*sorted(set(sys.modules) - before), flush=True)
"""


def test_only_the_package_is_imported(python: Python) -> None:
    """Every other module that is searched on disk would delay injection, which needs the GIL."""
    process = subprocess.Popen(
        [python.path, "-c", MODULES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ALONE},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        gsprof("inject", process.pid, *LONG)
        modules = process.communicate(b"\n", PATIENCE_S)[0].decode().split()
    finally:
        process.kill()
        process.communicate()
    assert "gsprof._boot" in modules, modules
    assert [name for name in modules if not name.startswith("gsprof")] in (["gc"], []), modules


# Offset of the agent's version in the control page.
AGENT_AT = 40


def test_an_agent_of_another_version(
    start: StartTarget, some_python: Python, tmp_path: Path
) -> None:
    target = start("inject_states.py", "read", python=some_python, env=ALONE)
    gsprof("inject", target.pid, *LONG)
    (page,) = (tmp_path / "run").glob(f"gsprof/{target.pid}-*/control")
    with open(page, "r+b") as file:
        file.seek(AGENT_AT)
        assert file.read(32).rstrip(b"\0").decode() in gsprof("--version").out
        file.seek(AGENT_AT)
        file.write(b"9.8.7".ljust(32, b"\0"))
    done = gsprof("inject", target.pid, "-D", "spans=off", status=EXIT_EXISTS)
    assert f"process {target.pid} already has an agent of version 9.8.7" in done.err
    assert "Ejected the agent from process" in gsprof("eject", target.pid, *LONG).out
    assert "into process" in gsprof("inject", target.pid, *LONG).out
    assert target.go()["bad"] == []


def test_inject_starts_a_follower(start: StartTarget, some_python: Python) -> None:
    target = start("inject_states.py", "read", python=some_python)
    gsprof("inject", target.pid, *LONG)
    sql = "SELECT count(*) AS n FROM python.stack_sample"

    def has_samples() -> bool:
        done = gsprof("query", target.pid, sql, "-f", "json", status=None)
        return done.status == 0 and json.loads(done.out)[0]["n"] > 0

    wait_for(has_samples, "no stacks")
    target.end()


def test_disabled_remote_debugging(start: StartTarget, python: Python) -> None:
    """PYTHON_DISABLE_REMOTE_DEBUG is respected: gsprof loads the library instead."""
    if python.version < (3, 14):
        return
    env = {**ALONE, "PYTHON_DISABLE_REMOTE_DEBUG": "1"}
    target = start("inject_states.py", "loop", python=python, env=env)
    assert json.loads(gsprof("inject", target.pid, "--json", *LONG).out)["by"] == "library"
    assert target.go()["bad"] == []


# ------------------------------------------------------- the target is not disturbed


HOWS = ["spin", "wide", "sleep", "read", "epoll"]


@pytest.mark.parametrize("how", HOWS)
def test_registers_and_calls_are_unchanged(how: str, check: StartChecker, tmp_path: Path) -> None:
    checker = check(how)
    for _ in range(20):
        assert call(checker.pid, "probe_enter", tmp_path / "log", how)["value"] == 42
    result = checker.finish()
    assert (result["bad"], result["interrupted"]) == (0, 0), result
    assert len((tmp_path / "log").read_text(encoding="utf-8").splitlines()) == 20


@pytest.mark.parametrize("how", HOWS)
def test_an_injector_that_is_killed_in_its_call(
    how: str, check: StartChecker, tmp_path: Path
) -> None:
    """The borrowed thread finishes the call and continues its program by itself."""
    checker = check(how)
    for number in range(5):
        fifo = tmp_path / f"fifo-{number}"
        os.mkfifo(fifo)
        argv = [TOOLS / "inject_call", checker.pid, PROBE, "probe_wait", fifo]
        injector = subprocess.Popen([str(arg) for arg in argv], stdout=subprocess.DEVNULL)
        writer = os.open(fifo, os.O_WRONLY)  # returns when the target has opened it
        injector.kill()
        injector.wait(PATIENCE_S)
        assert signals_of(checker.pid, "TracerPid") == 0
        os.close(writer)
        wait_for(lambda: signals_of(checker.pid, "SigBlk") == 0, "signals stay blocked")
    result = checker.finish()
    assert result["bad"] == 0, result
    # A relative sleep ends with EINTR, as after a signal handler.
    assert result["interrupted"] <= (5 if how == "sleep" else 0), result


def signals_of(pid: int, key: str) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith(key + ":"))
    return int(line.split()[1], 16)


def test_a_slow_call_ends_by_itself(check: StartChecker, tmp_path: Path) -> None:
    """gsprof gives up after a while. The call, which may hold locks, is not cut off."""
    checker = check("read")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    argv = [TOOLS / "inject_call", checker.pid, PROBE, "probe_wait", fifo]
    injector = subprocess.Popen(
        [str(arg) for arg in argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    writer = os.open(fifo, os.O_WRONLY)
    err = injector.communicate(timeout=PATIENCE_S)[1]
    assert injector.returncode == EXIT_TIMEOUT and b"did not return in time" in err
    os.close(writer)
    wait_for(lambda: signals_of(checker.pid, "SigBlk") == 0, "signals stay blocked")
    assert checker.finish()["interrupted"] == 0


def test_a_call_that_waits_for_a_lock_is_cut_off(check: StartChecker, tmp_path: Path) -> None:
    """The lock may be one of the thread's own program, so the call would never end."""
    checker = check("read")
    result = call(checker.pid, "probe_lock", tmp_path, status=EXIT_TIMEOUT)
    assert "did not return in time" in result["error"], result
    assert signals_of(checker.pid, "SigBlk") == 0
    assert call(checker.pid, "probe_enter", tmp_path / "log", "x")["value"] == 42
    assert checker.finish()["interrupted"] == 0


def test_a_call_that_crashes_does_not_end_the_target(check: StartChecker, tmp_path: Path) -> None:
    checker = check("read")
    result = call(checker.pid, "probe_crash", tmp_path, status=None)
    assert result["status"] == EXIT_TIMEOUT and "signal 4" in result["error"], result
    assert call(checker.pid, "probe_enter", tmp_path / "log", "x")["value"] == 42
    assert checker.finish()["interrupted"] == 0


def test_signals_wait_and_arrive(start: StartTarget, some_python: Python) -> None:
    """Signals that arrive during injection are not lost."""
    target = start("inject_states.py", "sleep", python=some_python, env=ALONE)
    # signal.signal() works only in the main thread, so the handler is in C.
    code = "import faulthandler, signal; faulthandler.register(signal.SIGUSR1, open('/dev/null'))"
    assert eval_in(target.pid, code) == ""
    for _ in range(5):
        os.kill(target.pid, signal.SIGUSR1)
        assert eval_in(target.pid, "1") == "1\n"
    assert target.go()["bad"] == []


# ------------------------------------------------------------------------- refused


def test_no_python(check: StartChecker) -> None:
    checker = check("read")
    assert "is not Python" in gsprof("inject", checker.pid, status=EXIT_NOPROC).err
    assert checker.finish()["interrupted"] == 0


def test_a_static_program(check: StartChecker, tmp_path: Path) -> None:
    checker = check("read", "regcheck_static")
    result = call(checker.pid, "probe_enter", tmp_path / "log", status=EXIT_NOPROC)
    assert "no dlopen" in result["error"], result
    assert checker.finish()["interrupted"] == 0


def test_stopped_and_continued(start: StartTarget, some_python: Python) -> None:
    target = start("inject_states.py", python=some_python, env=ALONE)
    os.kill(target.pid, signal.SIGSTOP)
    wait_for(lambda: state_of(target.pid) == "T", "the target does not stop")
    err = gsprof("inject", target.pid, status=EXIT_NOPROC).err
    assert "the process is stopped" in err and f"kill -CONT {target.pid}" in err
    assert state_of(target.pid) == "T"
    os.kill(target.pid, signal.SIGCONT)
    assert eval_in(target.pid, "2 + 2") == "4\n"


def test_traced_by_another_process(start: StartTarget, some_python: Python) -> None:
    target = start("inject_states.py", python=some_python, env=ALONE)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, target.pid, None, None) != 0:
        pytest.skip("needs permission to trace (kernel.yama.ptrace_scope below 3)")
    err = gsprof("inject", target.pid, status=EXIT_NOPROC).err
    assert f"traced by process {os.getpid()}" in err and "ps -o" in err
    target.end()


FILTER = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
rule = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(rule)))
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, prog, 0, 0) != 0:
    raise OSError(ctypes.get_errno(), "seccomp")
"""


def test_a_program_that_restricts_itself(start: StartTarget, some_python: Python) -> None:
    """gsprof cannot read a seccomp filter, so it refuses without --force. This one allows all."""
    target = start("inject_states.py", python=some_python, env=ALONE)
    done = gsprof("eval", target.pid, FILTER, "--yes", status=None)
    if "OSError" in done.err:
        pytest.skip("needs seccomp")
    # A filter applies to the thread that sets it: TSYNC applies it to the whole process.
    sync = FILTER.replace("libc.prctl(22, 2, prog, 0, 0)", "libc.syscall(317, 1, 1, prog)")
    assert gsprof("eval", target.pid, sync, "--yes").status == 0
    err = gsprof("inject", target.pid, status=EXIT_NOPROC).err
    assert "seccomp filter" in err and "--force" in err
    assert "into process" in gsprof("inject", target.pid, "--force", *LONG).out


# Sets a filter and runs gsprof with it: on a given process, or on a child that inherits it.
FILTERED = (
    FILTER
    + """
import os, subprocess, sys
gsprof, pid = sys.argv[1], sys.argv[2]
code = "print('ready', flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1)
child.stdout.readline()
pid = pid if pid != "child" else str(child.pid)
status = subprocess.run([gsprof, "eval", pid, "1 + 1", "--yes"]).returncode
child.communicate(b"\\n")
sys.exit(status or child.returncode)
"""
)


def test_only_inherited_filters_are_shared(start: StartTarget, some_python: Python) -> None:
    """A process with as many filters as gsprof, but others, is refused."""

    def run(pid: object) -> "subprocess.CompletedProcess[str]":
        argv = [main_python(), "-c", FILTERED, str(GSPROF), str(pid)]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    target = start("inject_states.py", python=some_python, env=ALONE)
    code = FILTER.replace("libc.prctl(22, 2, prog, 0, 0)", "libc.syscall(317, 1, 1, prog)")
    if "OSError" in gsprof("eval", target.pid, code, "--yes", status=None).err:
        pytest.skip("needs seccomp")
    done = run(target.pid)
    assert done.returncode == EXIT_NOPROC and "seccomp filter" in done.stderr, done
    done = run("child")
    assert (done.returncode, done.stdout) == (0, "2\n"), done


@pytest.mark.needs_root
def test_other_users(start: StartTarget, some_python: Python, tmp_path: Path) -> None:
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    target = start("inject_states.py", python=some_python, env=ALONE)
    err = gsprof("inject", target.pid, before=as_nobody, status=EXIT_PERM).err
    assert "belongs to user root" in err
    err = gsprof("eval", target.pid, "1", "--yes", before=as_nobody, status=EXIT_PERM).err
    assert "only in your own processes" in err


@pytest.mark.needs_root
def test_root_injects_into_a_process_of_another_user(tmp_path: Path) -> None:
    """The rings belong to that user and are in that user's folder."""
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", main_python()]
    env = {**os.environ, **ALONE, "XDG_RUNTIME_DIR": ""}
    package = GSPROF.parent.parent.parent / "python"
    if any(not os.stat(folder).st_mode & 0o001 for folder in (package, *package.parents)):
        pytest.skip("needs a build folder that every user can read")
    process = subprocess.Popen(
        [*argv, "-c", "import sys; print('ready', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert "into process" in gsprof("inject", process.pid, *LONG).out
        folders = list(Path("/dev/shm/gsprof-65534").glob(f"{process.pid}-*"))
        assert len(folders) == 1 and folders[0].stat().st_uid == 65534
        assert "only in your own" in gsprof("eval", process.pid, "1", "-y", status=EXIT_PERM).err
    finally:
        process.kill()
        process.communicate()


# Holds the GIL: the script never runs, and gsprof waits for its answer.
HOLDER = "import re; print('ready', flush=True); re.match('(a+)+$', 'a' * 60 + 'b')"
# Puts what the first argument says in the place of the answer as soon as the script is there.
RACER = """
import glob, os, sys
kind, folder = sys.argv[1:]
print("ready", flush=True)
while True:
    for script in glob.glob(folder + "/script-*.py"):
        for end in (".outcome", ".answer"):
            path = script[:-3] + end
            if not os.path.lexists(path):
                os.mkfifo(path) if kind == "fifo" else os.symlink("/proc/kmsg", path)
"""


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_files_of_a_hostile_user(kind: str) -> None:
    """Root does not block on a FIFO, and does not follow a link, that the target's user puts in
    the place of an answer."""
    argv = ["setpriv", "--reuid=1501", "--regid=1501", "--clear-groups", main_python(), "-c"]
    env = {**os.environ, **ALONE, "XDG_RUNTIME_DIR": ""}
    started = []

    def begin(*args: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([*argv, *args], stdout=subprocess.PIPE, env=env)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        return process

    try:
        target = begin(HOLDER)
        begin(RACER, kind, f"/dev/shm/gsprof-1501/{target.pid}-*")
        # Not a timeout of this test: gsprof itself ends.
        result = gsprof("inject", target.pid, "--timeout", "2s", status=None, timeout_s=30)
        assert result.status > 0 and "Traceback" not in result.err, str(result)
        assert "not a file of the target" in result.err or "symbolic links" in result.err, result
    finally:
        for process in started:
            process.kill()
            process.communicate()
        shutil.rmtree("/dev/shm/gsprof-1501", ignore_errors=True)


@pytest.mark.needs_root
def test_a_target_that_does_not_see_the_library(check: StartChecker, tmp_path: Path) -> None:
    """In another mount namespace, the library is copied into the target (memfd)."""
    hidden = f"mount -t tmpfs none {TOOLS} && exec {main_python()} -u -c '{WAIT}'"
    process = subprocess.Popen(
        [*own_mounts(), "sh", "-c", hidden],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        result = call(process.pid, "probe_enter", tmp_path / "log", "far")
        assert result["value"] == 42 and result["by_memfd"], result
        fds = [os.readlink(path) for path in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert not [name for name in fds if "memfd" in name]
    finally:
        process.kill()
        process.communicate()


WAIT = 'import sys; print("ready"); sys.stdin.read()'


# --------------------------------------------------------------------- exiting targets


def test_targets_that_exit_during_injection(some_python: Python) -> None:
    """Whatever the result, the target exits with its own status and is not left stopped."""
    outcomes: Dict[int, int] = {}
    for number in range(6):
        # The target exits before, during or after the injection, depending on its sleep.
        script = f"import time; print('ready', flush=True); time.sleep({number * 0.01})"
        process = subprocess.Popen(
            [some_python.path, "-c", script], stdout=subprocess.PIPE, env={**os.environ, **ALONE}
        )
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        done = gsprof("inject", process.pid, status=None)
        outcomes[done.status] = outcomes.get(done.status, 0) + 1
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0, done
    assert set(outcomes) <= {0, EXIT_NOPROC, EXIT_TIMEOUT, EXIT_PERM}, outcomes


# ----------------------------------------------------------------------- eval, names


def test_eval_prints_output_and_result(start: StartTarget, some_python: Python) -> None:
    target = start("inject_states.py", python=some_python, env=ALONE)
    assert eval_in(target.pid, "print('a'); print('b'); {'k': 'ä'}") == "a\nb\n{'k': 'ä'}\n"
    assert eval_in(target.pid, "kept = [1]") == ""
    assert eval_in(target.pid, "kept.append(2); [x for x in kept]") == "[1, 2]\n"
    assert eval_in(target.pid, "STATES[0]") == "'sleep'\n"
    done = gsprof("eval", target.pid, "print('before'); 1 / 0", "--yes", status=EXIT_RAISED)
    assert done.out == "before\n" and "ZeroDivisionError" in done.err
    assert "script" not in done.err
    assert "SyntaxError" in gsprof("eval", target.pid, "1 +", "-y", status=EXIT_RAISED).err
    assert "SystemExit" in gsprof("eval", target.pid, "exit(3)", "-y", status=EXIT_RAISED).err
    done = gsprof(target.pid, "eval", "-", "--yes", stdin=b"for i in range(3):\n  print(i)\n")
    assert done.out == "0\n1\n2\n"
    assert "--yes" in gsprof("eval", target.pid, "1", status=EXIT_USAGE).err
    code = "import threading; threading.Event().wait()"
    err = gsprof("eval", target.pid, code, "-y", "--timeout", "0.3", status=EXIT_TIMEOUT).err
    assert "still running" in err
    assert target.go()["bad"] == []


def test_target_by_command_line(start: StartTarget, some_python: Python) -> None:
    word = f"unique-{os.getpid()}-{time.monotonic_ns()}"
    first = start("inject_states.py", "sleep", word, python=some_python, env=ALONE)
    assert eval_in_by_name(word) == f"{first.pid}\n"
    second = start("inject_states.py", "sleep", word, python=some_python, env=ALONE)
    err = gsprof("inject", word, status=EXIT_USAGE).err
    assert str(first.pid) in err and str(second.pid) in err and "2 Python processes" in err
    assert "no Python process" in gsprof("inject", word + "-not", status=EXIT_NOPROC).err


def eval_in_by_name(word: str) -> str:
    return gsprof("eval", word, "import os; os.getpid()", "-y").out


# A forked worker, a spawned worker, and a child that is not Python.
TREE = """
import os, subprocess, sys, time
def rest():
    time.sleep(600)
forked = os.fork()
if forked == 0:
    rest()
line = "import time; print(flush=True); time.sleep(600)"
spawned = subprocess.Popen([sys.executable, "-c", line], stdout=subprocess.PIPE)
other = subprocess.Popen(["sleep", "600"])
spawned.stdout.readline()
print('{"forked": %d, "spawned": %d, "other": %d}' % (forked, spawned.pid, other.pid), flush=True)
rest()
"""


def tree_states(*args: object, status: int = 0) -> Dict[int, str]:
    output = gsprof(*args, "-s", "--json", *LONG, status=status).out
    rows = [json.loads(line) for line in output.splitlines()]
    return {row["pid"]: row["state"] for row in rows}


def test_a_tree_of_processes(start: StartTarget, some_python: Python, tmp_path: Path) -> None:
    script = tmp_path / "tree.py"
    script.write_text(TREE)
    target = start(str(script), python=some_python, env=ALONE)
    forked, spawned, other = (target.facts[name] for name in ("forked", "spawned", "other"))
    # One failure does not affect the other processes, and the exit status reports it.
    os.kill(forked, signal.SIGSTOP)
    wait_for(lambda: state_of(forked) == "T")
    states = tree_states("inject", target.pid, status=EXIT_NOPROC)
    assert states == {target.pid: "in", forked: "failed", spawned: "in", other: "skipped"}
    os.kill(forked, signal.SIGCONT)
    states = tree_states("inject", target.pid)
    before = {target.pid: "already in", spawned: "already in"}
    assert states == {**before, forked: "in", other: "skipped"}
    said = gsprof("inject", "-s", target.pid).out
    assert f"Skipped process {other} (sleep 600): not Python." in said
    assert said.count("The agent is already in process") == 3
    states = tree_states("eject", target.pid)
    assert states == dict.fromkeys([target.pid, forked, spawned], "out of")
    # No agent is left.
    gsprof("eject", "-s", target.pid, status=EXIT_NOFILE)


def test_invalid_ring_size(start: StartTarget, some_python: Python) -> None:
    """In the environment of the process, and in that of the command."""
    target = start(
        "inject_states.py", "sleep", python=some_python, env={**ALONE, "GSPROF_RING_ROWS": "1e6"}
    )
    said = gsprof("inject", target.pid, env={"GSPROF_RING_ROWS": "-3"})
    own = "gsprof: GSPROF_RING_ROWS: ring.rows must be a whole number from 0 to 10000000, not -3"
    assert f"{own}; using the defaults\n" in said.err
    why = "gsprof.ring.rows must be a whole number, not '1e6'"
    begin = f"gsprof: process {target.pid} ignores GSPROF_RING_ROWS in its environment: {why}"
    assert f"{begin}; it keeps the default of 10000 rows\n" in said.err
    gsprof("eject", target.pid)
    said = gsprof("inject", target.pid, env={"GSPROF_RING_ROWS": "60"})
    assert f"{begin}; it keeps 60 rows\n" in said.err
    assert " 60 " in gsprof("config", target.pid, "ring").out


def test_settings_are_checked_first(some_python: Python) -> None:
    err = gsprof("inject", os.getpid(), "-D", "torch.rat=1", status=EXIT_USAGE).err
    assert "unknown setting 'torch.rat'" in err and "torch.rate=VALUE" in err
    assert "KEY=VALUE" in gsprof("inject", os.getpid(), "-D", "torch", status=EXIT_USAGE).err
    assert gsprof("inject", os.getpid(), "-D", "torch=perhaps", status=EXIT_USAGE).err
    assert "inject needs one process" in gsprof("inject", status=EXIT_USAGE).err
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    for command in ("inject", "eject"):
        gsprof(command, gone.stdout.strip(), status=EXIT_NOPROC)
