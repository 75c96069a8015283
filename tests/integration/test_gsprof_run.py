# SPDX-License-Identifier: Apache-2.0
"""gsprof run: a program with all recorders on, its children, its signals and its exit status."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set

import pytest
from conftest import NEEDS_EXTENSION, StartRunning, own_mounts
from support import (
    EXIT_NOEXEC,
    EXIT_NOT_EXECUTABLE,
    EXIT_NOWRITE,
    EXIT_USAGE,
    GSPROF,
    PACKAGE,
    PATIENCE_S,
    RING_WRITER,
    Result,
    gsprof,
    is_root,
    main_python,
    wait_for,
)


pytestmark = NEEDS_EXTENSION

BUSY = """
import os, subprocess, sys, time
import gsprof
def burn():
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        sum(range(1000))
with gsprof.span("burning"):
    burn()
print(os.environ.get("GSPROF"), gsprof.is_enabled(), os.getpid(), flush=True)
if len(sys.argv) > 2:
    sys.exit(subprocess.call([sys.executable, sys.argv[0], "0.1"]) or 7)
"""

WHOLE = {"meta.json", "manifest.json", "profile.gsp", "profile.json", "report.html"}


def files(folder: Path) -> Set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def ask(where: object, sql: str, env: Dict[str, str]) -> List[List[Any]]:
    text = gsprof("query", where, sql, "-f", "json", env=env).out
    return [list(row.values()) for row in json.loads(text)]


def test_output_in_missing_folders(runtime: Dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "run"
    argv = ["--output", folder, "--", main_python(), "-c", "print(sum(range(10**7)))"]
    gsprof("run", *argv, env=runtime)
    assert files(folder) >= {"meta.json", "manifest.json"}


def test_a_tree_of_processes(runtime: Dict[str, str], tmp_path: Path) -> None:
    """A shell, a program, a short-lived child: rows of all of them, the status, all files."""
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    command = f"{main_python()} {script} 0.7 again; exit $?"
    result = gsprof("run", "--", "sh", "-c", command, env=runtime, status=7, cwd=tmp_path)
    words = [line.split() for line in result.out.splitlines()]
    assert [line[:2] for line in words] == [["nested", "True"]] * 2, str(result)
    first, second = (int(line[2]) for line in words)
    assert "exited with status 7" in result.err and "burn" in result.err
    (folder,) = (tmp_path / "gsprof-runs").iterdir()
    assert folder.name.startswith("sh-") and f"gsprof-runs/{folder.name}" in result.err
    assert files(folder) >= WHOLE | {"python.span.parquet", "process.metrics.parquet"}
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["state"] == "complete" and meta["status"] == 7 and meta["signal"] is None
    assert meta["argv"] == ["sh", "-c", command] and meta["cwd"] == str(tmp_path)
    versions = {process["pid"]: process["python"] for process in meta["processes"]}
    assert versions[first] == versions[second] and versions[first].startswith("3.")
    assert 0 < meta["start_ns"] < meta["end_ns"]
    # The rings are removed: the folder has all rows.
    alone = {"XDG_RUNTIME_DIR": str(tmp_path)}
    spans = ask(folder, "SELECT pid, name FROM python.span ORDER BY ts_ns", alone)
    assert spans == [[first, "burning"], [second, "burning"]]
    hot = ask(folder, "SELECT func FROM gsprof.hot_functions() LIMIT 3", alone)
    assert ["burn"] in hot, hot
    assert ask(folder, f"SELECT count(*) > 0 FROM process.metrics WHERE pid = {first}", alone) == [
        [True]
    ]
    profile = json.loads((folder / "profile.json").read_text())
    assert len(profile["samples"]) == meta["samples"] > 20
    assert "burn" in (folder / "report.html").read_text()
    assert not list(tmp_path.glob("gsprof-run.*"))


@pytest.mark.needs_root
def test_sudo(tmp_path: Path) -> None:
    """The program writes its rings as its user, and gsprof those of what it measures as root."""
    owner = "1503"
    env = {"XDG_RUNTIME_DIR": "", "SUDO_UID": owner, "SUDO_GID": owner}
    script = (
        "import subprocess, sys, time\n"
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(0.1)'], check=True)\n"
        "end = time.monotonic() + 2\n"
        "while time.monotonic() < end: sum(range(1000))\n"
    )
    out = tmp_path / "run"
    try:
        gsprof("run", "-o", out, "--", "/usr/bin/python3", "-c", script, env=env)
    finally:
        shutil.rmtree(f"/dev/shm/gsprof-{owner}", ignore_errors=True)
    processes = json.loads((out / "meta.json").read_text())["processes"]
    pids = [process["pid"] for process in processes]
    assert len(pids) == len(set(pids)) == 2, processes
    assert all(process["python"].startswith("3.") for process in processes), processes
    for table in ("gsprof.setting", "python.allocation", "process.metrics", "python.stack_sample"):
        rows = ask(out, f"SELECT DISTINCT pid FROM {table}", env)
        assert [pids[0]] in rows, (table, rows)


@pytest.mark.needs_root
def test_killed_under_sudo(tmp_path: Path) -> None:
    """The rows that are still in the rings of the program belong to the run."""
    owner = "1503"
    env = {"XDG_RUNTIME_DIR": "", "SUDO_UID": owner, "SUDO_GID": owner}
    script = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
    out = tmp_path / "run"
    try:
        with subprocess.Popen(
            [str(GSPROF), "run", "-o", str(out), "--", "/usr/bin/python3", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **env},
        ) as run:
            assert run.stdin is not None and run.stdout is not None
            pid = int(run.stdout.readline())
            wait_for(lambda: (out / "manifest.json").exists(), "no rows", pause_s=0.1)
            run.kill()
            run.wait()
            run.stdin.close()
            wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the program stays", pause_s=0.1)
        for endpoint in (out, pid):
            assert ask(endpoint, "SELECT count(*) > 0 FROM gsprof.setting", env) == [[True]]
    finally:
        shutil.rmtree(f"/dev/shm/gsprof-{owner}", ignore_errors=True)


def test_signals_are_passed_on(
    runtime: Dict[str, str], tmp_path: Path, running: StartRunning
) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    code = (
        "import signal, sys\n"
        "def end(*_): sys.exit(9)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"open({str(ready)!r}, 'w').close()\n"
        "while True: signal.pause()\n"
    )
    run = ("run", "-o", tmp_path / "kept", "--", main_python(), "-c", code)
    one = running(*run, env=runtime)
    ready.read_text()
    one.signal(signal.SIGTERM)
    result = one.finish()
    assert result.status == 9 and "exited with status 9" in result.err


def test_names(runtime: Dict[str, str], tmp_path: Path) -> None:
    """A name belongs to one run. A second run is refused and changes nothing; --force replaces."""
    run = ("run", "-q", "--name", "base", "--no-metrics", "--no-stacks")
    quick = [main_python(), "-c", "pass"]
    gsprof(*run, "--", *quick, env=runtime, cwd=tmp_path)
    folder = tmp_path / "gsprof-runs" / "base"
    before = (folder / "meta.json").read_bytes()
    (folder / "notes.txt").write_text("mine")
    refused = gsprof(*run, "--", *quick, env=runtime, cwd=tmp_path, status=EXIT_NOWRITE)
    assert "gsprof-runs/base" in refused.err
    assert (folder / "meta.json").read_bytes() == before
    gsprof(*run, "--force", "--", *quick, env=runtime, cwd=tmp_path)
    assert (folder / "meta.json").read_bytes() != before
    assert files(folder) >= WHOLE | {"notes.txt"}
    # Two runs at once: one gets the name, and all files are from that run.
    both = [
        subprocess.Popen(
            [str(GSPROF), *run[:3], "pair", "--", *quick],
            cwd=tmp_path,
            env={**os.environ, **runtime},
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    assert sorted(one.wait() for one in both) == [0, EXIT_NOWRITE]
    meta = json.loads((tmp_path / "gsprof-runs" / "pair" / "meta.json").read_text())
    assert meta["state"] == "complete"
    # --force keeps the existing run if the program cannot be started.
    gone = ("run", "--force", "--name", "base", "--")
    gsprof(*gone, "no-such-program", status=EXIT_NOEXEC, env=runtime, cwd=tmp_path)
    gsprof(*gone, tmp_path, status=EXIT_NOT_EXECUTABLE, env=runtime, cwd=tmp_path)
    assert (tmp_path / "gsprof-runs" / "base" / "meta.json").exists()
    # A program that cannot be started leaves no files.
    gsprof("run", "--", "no-such-program", status=EXIT_NOEXEC, env=runtime, cwd=tmp_path)
    assert files(tmp_path / "gsprof-runs") == {"base", "pair"}


def test_a_program_that_fails_at_once(runtime: Dict[str, str], tmp_path: Path) -> None:
    for name in ("one", "two"):
        command = ("run", "--name", name, "--", sys.executable, "no_such_file.py")
        done = gsprof(*command, status=2, env=runtime, cwd=tmp_path)
        assert "The program failed with status 2 during startup" in done.err, str(done)
        assert "no_such_file.py" in done.err
        # No next commands, and no comparison of two failures.
        assert "Next:" not in done.err and "compare" not in done.err and "No data" not in done.err
        assert (tmp_path / "gsprof-runs" / name / "report.html").exists()
    killed = ("run", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    done = gsprof(*killed, status=-9, env=runtime, cwd=tmp_path)
    assert "The program failed with status 137 during startup" in done.err, str(done)
    both = gsprof("compare", "gsprof-runs/one", "gsprof-runs/two", status=None, cwd=tmp_path)
    assert "the program of the first recording failed with status 2" in both.out, str(both)


SPAWNS = """
import multiprocessing, time

def work():
    end = time.monotonic() + 3
    while time.monotonic() < end:
        sum(range(1000))

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    while child.is_alive():
        sum(range(1000))
"""


def test_resource_tracker_is_not_counted(runtime: Dict[str, str], tmp_path: Path) -> None:
    """multiprocessing starts a process that only waits. The other two work all the time."""
    (tmp_path / "job.py").write_text(SPAWNS)
    run = ("run", "--no-torch", "--no-memory", "-o", tmp_path / "run", "--")
    done = gsprof(*run, main_python(), tmp_path / "job.py", env=runtime)
    found = re.search(r"Main threads: .* ([\d.]+) % waiting", done.err)
    assert found and float(found.group(1)) < 20, done.err  # 33 with the tracker
    sql = "SELECT count(DISTINCT pid) FROM python.stack_sample"
    assert ask(tmp_path / "run", sql, {}) == [[3]]


def test_misuse(runtime: Dict[str, str], tmp_path: Path) -> None:
    gsprof("run", status=EXIT_USAGE, env=runtime)
    gsprof("run", "--name", "../x", "--", "true", status=EXIT_USAGE, env=runtime, cwd=tmp_path)
    both = ("run", "--torch", "on", "--no-torch", "--", "true")
    gsprof(*both, status=EXIT_USAGE, env=runtime, cwd=tmp_path)
    missing = gsprof("run", "--", "no-such-program", status=EXIT_NOEXEC, env=runtime, cwd=tmp_path)
    assert "no-such-program" in missing.err
    none = gsprof("run", "--name", "x", "--", "true", env=runtime, cwd=tmp_path)
    assert "No data: stacks" in none.err, str(none)
    nowhere = {**runtime, "GSPROF_PYTHON_DIR": str(tmp_path)}
    lost = gsprof("run", "--", "true", env=nowhere, status=None, cwd=tmp_path)
    assert "GSPROF_PYTHON_DIR" in lost.err


def test_a_program_that_cannot_be_recorded(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The program keeps its environment and limits, and its exit status is passed on."""
    code = "import os, resource, sys\n"
    code += "print(resource.getrlimit(resource.RLIMIT_NOFILE), os.environ.get('PYTHONPATH'))\n"
    code += "sys.exit(any(name.startswith('GSPROF_RUN') for name in os.environ) or 3)\n"
    run = (GSPROF, "run", "-q", "-o", tmp_path / "run", "--")
    env = {**os.environ, **runtime, "PYTHONPATH": "own"}

    def ends(shell: str, *program: object) -> "subprocess.CompletedProcess[str]":
        words = ["bash", "-c", f'{shell} && exec "$@"', "limited", *map(str, (*run, *program))]
        return subprocess.run(words, env=env, capture_output=True, text=True)

    few = ends("ulimit -n 6", main_python(), "-c", code)
    assert (few.returncode, few.stdout) == (3, "(6, 6) own\n"), str(few)
    assert "running the program without recording: cannot make a pipe" in few.stderr
    assert not (tmp_path / "run").exists()
    missing = ends("ulimit -n 6", "no-such-program")
    assert missing.returncode == EXIT_NOEXEC and "no-such-program" in missing.stderr, str(missing)


# CPU time: a busy machine reaches it too, only later.
SHORT = "import time\nwhile time.process_time() < 1: sum(range(999))\n"


@pytest.mark.parametrize("kib", [200_000, 120_000])
def test_little_address_space(kib: int, runtime: Dict[str, str], tmp_path: Path) -> None:
    """gsprof refuses to start the SQL engine, which would crash, and keeps the exit status."""
    limit = ("sh", "-c", f'ulimit -v {kib}; exec "$0" "$@"')
    code = "import sys; kept = bytearray(20 << 20); print('done'); sys.exit(3)"
    run = ("run", "-o", tmp_path / "r", "--", main_python(), "-c", code)
    done = gsprof(*run, status=3, env=runtime, before=limit)
    assert done.out == "done\n" and "512 MiB of address space" in done.err, str(done)


def test_missing_rows_are_reported(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The program runs without the package, and gsprof reports the missing rows."""
    start = tmp_path / "start"
    start.mkdir()
    hook = PACKAGE / "start" / "sitecustomize.py"
    (start / "sitecustomize.py").write_text(hook.read_text())
    (tmp_path / "gsprof").mkdir()
    (tmp_path / "gsprof" / "__init__.py").write_text("raise OSError('two\\nlines')\n")
    python = main_python()
    program = [python, "-c", "print('ran')"]
    run = ("run", "--no-metrics", "--")
    env = {**runtime, "GSPROF_PYTHON_DIR": str(tmp_path)}
    broken = gsprof(*run, *program, env=env, cwd=tmp_path)
    assert broken.out == "ran\n"
    assert "no spans, steps or modules of process" in broken.err, str(broken)
    assert f"OSError: two lines; try: PYTHONPATH={tmp_path} {python} -c" in broken.err
    # With -I Python does not load the package: there are stacks, but no rows from the agent.
    alone = gsprof(*run, python, "-I", "-c", SHORT, env=runtime, cwd=tmp_path)
    assert "gsprof inject PID" in alone.err, str(alone)
    own = {**runtime, "GSPROF": "other.py"}
    chosen = gsprof(*run, *program, env=own, cwd=tmp_path)
    fine = gsprof(*run, *program, env=runtime, cwd=tmp_path)
    for result in (chosen, fine):
        assert "no spans" not in result.err, str(result)


def test_killed_program(runtime: Dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    code = SHORT + "import os\nkept = bytearray(64 << 20)\nos.kill(os.getpid(), 9)\n"
    run = ("run", "-o", folder, "--", main_python(), "-c", code)
    result = gsprof(*run, env=runtime, status=-signal.SIGKILL)
    assert "exited with status 137" in result.err
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["state"] == "complete" and meta["signal"] == signal.SIGKILL
    assert meta["samples"] > 0 and files(folder) >= WHOLE
    held = "SELECT sum(bytes)::BIGINT FROM python.allocation WHERE kind = 'peak'"
    assert ask(folder, held, runtime)[0][0] >= 64 << 20


def test_killed_gsprof(runtime: Dict[str, str], tmp_path: Path, running: StartRunning) -> None:
    """The program keeps running. The files and the rings are enough for a report."""
    folder = tmp_path / "half"
    ready, more = tmp_path / "ready", tmp_path / "more"
    os.mkfifo(ready)
    os.mkfifo(more)
    code = (
        f"{SHORT}import gsprof, os\nwith gsprof.span('seen'): pass\n"
        f"open({str(ready)!r}, 'w').write(str(os.getpid()))\n"
        f"open({str(more)!r}, 'w').write('still here')\n"
        "while True: sum(range(999))\n"
    )
    one = running("run", "-o", folder, "--", main_python(), "-c", code, env=runtime)
    pid = int(ready.read_text())
    manifest = folder / "manifest.json"

    def has_span() -> bool:
        assert one.process.poll() is None
        return manifest.exists() and '"span"' in manifest.read_text()

    wait_for(has_span, "no span in the manifest")
    one.signal(signal.SIGKILL)
    one.process.wait()
    assert more.read_text() == "still here"
    assert json.loads((folder / "meta.json").read_text())["state"] == "running"
    assert ask(folder, "SELECT name FROM python.span", runtime) == [["seen"]]
    page = tmp_path / "late.html"
    gsprof("report", folder, "-o", page, env=runtime)
    assert "late.html" not in files(folder) and page.stat().st_size > 1000
    os.kill(pid, signal.SIGKILL)
    # Only --force can use the name again.
    quick = ("-q", "-o", folder, "--no-metrics", "--", "true")
    gsprof("run", *quick, env=runtime, status=EXIT_NOWRITE)
    gsprof("run", "--force", *quick, env=runtime)
    assert json.loads((folder / "meta.json").read_text())["state"] == "complete"


OWN = """
import atexit, sys, threading
atexit.register(lambda: print("atexit", flush=True))
worker = threading.Thread(target=lambda: print("thread", sys.stdin.readline().strip(), flush=True))
worker.start()
worker.join()
print(__import__("sitecustomize").MINE)
raise RuntimeError("the program's own")
"""


def test_program_behaves_as_without_gsprof(runtime: Dict[str, str], tmp_path: Path) -> None:
    """sitecustomize, atexit, threads, stdin and an exception work as without gsprof."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("MINE = 'site'\nprint('customized', flush=True)\n")
    env = {**runtime, "PYTHONPATH": str(mine)}
    run = ("run", "-o", tmp_path / "own", "--", main_python(), "-c", OWN)
    result = gsprof(*run, env=env, stdin=b"words\n", status=1)
    assert result.out.split("\n") == ["customized", "thread words", "site", "atexit", ""]
    assert "RuntimeError: the program's own" in result.err


def test_unwritable_or_full_disk(runtime: Dict[str, str], tmp_path: Path) -> None:
    """If the folder is not writable, the program still runs, but nothing is saved."""
    (tmp_path / "file").write_text("")
    program = (main_python(), "-c", "print('ran'); raise SystemExit(3)")
    nowhere = gsprof("run", "-o", tmp_path / "file" / "x", "--", *program, env=runtime, status=3)
    assert nowhere.out == "ran\n" and "the run is not saved" in nowhere.err
    assert "gsprof report" in nowhere.err
    # A disk with hardly more space than the folder itself needs.
    small = tmp_path / "small"
    small.mkdir()
    mount = f'mount -t tmpfs -o size=16k none {small} && exec "$0" "$@"'
    before = (*own_mounts(*([] if is_root() else ["--map-root-user"])), "sh", "-c", mount)
    full = gsprof("run", "-o", small / "x", "--", *program, env=runtime, before=before, status=3)
    assert full.out == "ran\n" and "the run is incomplete" in full.err, str(full)


# Eight workers that use most of 64 MB of shared memory at once, or none.
WORKERS = """
import os, sys, time
from multiprocessing import shared_memory
import gsprof
each = int(sys.argv[1])
blocks = [shared_memory.SharedMemory(create=True, size=each) for i in range(8)] if each else []
children = []
for i in range(8):
    child = os.fork()
    if child == 0:
        for k in range(20):
            with gsprof.span("work"):
                if each:
                    blocks[i].buf[:] = bytes(each)
        os._exit(0)
    children.append(child)
ends = [os.waitpid(child, 0)[1] for child in children]
for block in blocks:
    block.close()
    block.unlink()
print("ran", sum(ends))
"""

SMALL = "mount -t tmpfs -o size=64m none /dev/shm"
# How /dev/shm is mounted, and the expected message.
SHM_MOUNTS = {
    "64 MB": (SMALL, "/dev/shm/gsprof-{uid} has 16 MB of space for tables, 128 MB are needed"),
    "full": (f"{SMALL}; fallocate -l 64m /dev/shm/full", "has 0 MB of space for tables"),
    "missing": (
        "mount -t tmpfs none /dev; for n in null:3 zero:5 urandom:9; do "
        "mknod -m 666 /dev/${n%:*} c 1 ${n#*:}; done",
        "/dev/shm/gsprof-{uid}: No such file",
    ),
    # No other folder is writable: rings are smaller.
    "nowhere else": (
        f"{SMALL}; mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o ro none /var/tmp",
        "keep fewer rows than usual: little space is left",
    ),
}


def run_with_shm(mount: str, tmp_path: Path, *command: object) -> Result:
    """Runs a command with shared memory as in a container. Its folder is /run/out."""
    script = f"""set -e
mount -t tmpfs none /run
mkdir /run/out
mount --bind {tmp_path} /run/out
cd /run/out
{SHM_MOUNTS[mount][0]}
exec "$@"
"""
    argv = [*own_mounts(), "sh", "-c", script, "sh", *map(str, command)]
    env = {name: text for name, text in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    done = subprocess.run(
        argv,
        env={**env, "TMPDIR": "/run/out"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    return Result(argv, done.returncode, done.stdout, done.stderr)


@pytest.mark.needs_root
@pytest.mark.parametrize("mount", SHM_MOUNTS)
def test_little_shared_memory(mount: str, tmp_path: Path) -> None:
    """Shared memory is left to the program. Rings go elsewhere or are smaller, with a message, and
    all workers are recorded."""
    each = (6 << 20) if mount == "64 MB" else 0
    (tmp_path / "job.py").write_text(WORKERS)
    run = (GSPROF, "run", "--no-torch", "--no-memory", "--no-metrics", "-o", "run", "--")
    done = run_with_shm(mount, tmp_path, *run, main_python(), "job.py", each)
    assert (done.status, done.out) == (0, "ran 0\n"), str(done)
    assert SHM_MOUNTS[mount][1].format(uid=os.getuid()) in done.err, str(done)
    # The next commands come last, in one block.
    after = done.err[done.err.index("Next: ") :].splitlines()
    assert all(line.startswith("      ") for line in after[1:]), str(done)
    spans = "SELECT count(DISTINCT pid), count(*) FROM python.span"
    assert ask(tmp_path / "run", spans, {}) == [[8, 160]]
    assert ask(tmp_path / "run", "SELECT count(*) FROM python.stack_sample", {})[0][0] > 0


EVERYWHERE = "for d in /dev/shm /tmp /var/tmp; do mount -t tmpfs -o {} none $d; done"
TINY = {
    "16 MB": (EVERYWHERE.format("size=16m"), ""),
    "2 MB": (EVERYWHERE.format("size=2m"), "not recorded: no space"),
    "read-only": (EVERYWHERE.format("ro"), "gsprof: stacks and metrics not recorded: /"),
}


@pytest.mark.needs_root
@pytest.mark.parametrize("mount", TINY)
def test_hardly_any_shared_memory(
    mount: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stacks are kept, or a message has the reason and a remedy."""
    monkeypatch.setitem(SHM_MOUNTS, mount, TINY[mount])
    message = TINY[mount][1]
    code = "import time; end = time.time() + 1\nwhile time.time() < end: pass\nprint('ran')"
    done = run_with_shm(
        mount, tmp_path, GSPROF, "run", "-o", "run", "--", main_python(), "-c", code
    )
    assert (done.status, done.out) == (0, "ran\n"), str(done)
    for what in (message, "--shm-size") if message else ("Main thread", "hot_lines()"):
        assert what in done.err, str(done)
    for what in ("Nothing was lost", "hot_lines()") if message else ("not recorded",):
        assert what not in done.err, str(done)


@pytest.mark.needs_root
def test_folder_of_tables_is_reported(tmp_path: Path) -> None:
    """By doctor in advance, and by list while the tables exist."""
    doctor = run_with_shm("64 MB", tmp_path, GSPROF, "doctor", "--json")
    machine = json.loads(doctor.out)["machine"]
    assert machine["tables"].startswith("/tmp/gsprof-")
    assert "16 MB of space" in machine["tables_note"]
    code = '"$1" < /dev/null > wrote; "$0" list --json; "$0" list --clean -q'
    listed = run_with_shm("64 MB", tmp_path, "sh", "-c", code, GSPROF, RING_WRITER)
    pid = json.loads((tmp_path / "wrote").read_text().splitlines()[0])["pid"]
    (row,) = [row for row in json.loads(listed.out) if row["pid"] == pid]
    assert "16 MB of space" in row["note"] and row["path"].startswith("/tmp/gsprof-")


SIZE = """
import gsprof
for i in range(300):
    with gsprof.span("x"):
        pass
print(gsprof.config()["ring.rows"], len(gsprof.query("FROM python.span")))
"""


def test_ring_size(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The option overrides the environment, which overrides config.toml."""
    (tmp_path / "gsprof").mkdir()
    (tmp_path / "gsprof" / "config.toml").write_text("[ring]\nrows = 60\n")
    env = {**runtime, "XDG_CONFIG_HOME": str(tmp_path)}

    less = ("--force", "--no-stacks", "--no-metrics", "--no-memory", "--no-torch")

    def rows_of(*options: str, **more: str) -> Result:
        run = ("run", *less, *options, "-o", tmp_path / "run", "--", main_python(), "-c", SIZE)
        return gsprof(*run, env={**env, **more})

    assert rows_of().out == "60 60\n"
    assert rows_of("--ring-rows", "80", GSPROF_RING_ROWS="70").out == "80 80\n"
    # The program still runs, and a message names the invalid value.
    wrong = rows_of(GSPROF_RING_ROWS="many")
    assert wrong.out == "0 300\n"
    assert "ring.rows must be a whole number from 0 to 10000000, not many" in wrong.err
    gsprof("run", "--ring-rows", "0", "--", "true", status=EXIT_USAGE)


def test_rings_are_removed_after_the_run(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The folder of the run has all rows."""
    code = "import os; pid = os.fork(); pid and os.waitpid(pid, 0)"
    gsprof("run", "-q", "-o", tmp_path / "run", "--", main_python(), "-c", code, env=runtime)
    left = Path(runtime["XDG_RUNTIME_DIR"]).glob("gsprof/*/*.ring")
    assert list(left) == []


TALKER = """
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"caught\\n"))
print("got " + input("name? "), flush=True)
end = time.monotonic()
while True:
    sum(range(1000))
    if time.monotonic() > end:
        end += 0.1
        os.write(1, b"a line\\n")
"""

# The escape sequences of the status line: from saved to restored cursor, and scrolling.
DRAWN = re.compile(r"\x1b7.*?\x1b8|\x1bD|\x1b\[A", re.S)


class Shell:
    """A shell on a new terminal."""

    def __init__(self, cwd: Path, env: Dict[str, str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            whole = {**os.environ, **env, "TERM": "xterm", "PS1": "$ ", "HISTFILE": ""}
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], whole)
        size = struct.pack("HHHH", 24, 80, 0, 0)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, size)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait(self, pattern: str) -> str:
        """Waits for the pattern and returns the output up to its end."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = re.search(pattern, self.seen, re.S)
            if found:
                text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
                return text
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], self.seen[-2000:]
            self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")

    def end(self) -> None:
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def shell(runtime: Dict[str, str], tmp_path: Path) -> Iterator[Shell]:
    one = Shell(tmp_path, runtime)
    yield one
    one.end()


def test_at_a_terminal(runtime: Dict[str, str], tmp_path: Path, shell: Shell) -> None:
    """The program reads from the terminal, Ctrl-Z and fg work, every Ctrl-C reaches the program,
    and the status line does not disturb its output."""
    (tmp_path / "talker.py").write_text(TALKER)
    shell.wait(r"\$ ")
    shell.type(f"{GSPROF} run --name tty -- {main_python()} talker.py\n")
    shell.wait(r"name\? ")
    shell.type("Ada\n")
    shell.wait("got Ada")
    text = shell.wait(r"gsprof 00:\d\d  CPU \d+ %  RSS [^ ]+ [KMG]iB  [\d,]+ samples")
    text += shell.wait("a line\r\n")
    assert set(DRAWN.sub("", text).split()) == {"a", "line"}, text
    shell.type("\x1a")
    shell.wait(r"\x1b\[r.*Stopped")
    shell.type("echo $((6 * 7))\n")
    shell.wait("42")
    shell.type("fg\n")
    shell.wait(r"a line\r\n[^\x07]*gsprof 00:\d\d")
    for _ in range(3):
        shell.type("\x03")
        shell.wait("caught")
    shell.wait("a line\r\n")
    shell.type("\x1c")  # Ctrl-\
    assert "\x1b[r" in shell.wait("exited with status 131")
    shell.wait("report.html")
    shell.type("echo status $?\n")
    shell.wait("status 131")
    meta = json.loads((tmp_path / "gsprof-runs" / "tty" / "meta.json").read_text())
    assert meta["state"] == "complete" and meta["signal"] == signal.SIGQUIT
    assert ask(tmp_path / "gsprof-runs" / "tty", "SELECT count(*) FROM gsprof.run", runtime) == [
        [1]
    ]
