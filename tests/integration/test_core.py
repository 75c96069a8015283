# SPDX-License-Identifier: Apache-2.0
"""dump --core: the stacks of a crashed process, equal to those of the live process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, List

import pytest

from conftest import StartTarget
from support import (
    EXIT_FORMAT,
    EXIT_NOFILE,
    EXIT_NOPROC,
    EXIT_USAGE,
    PATIENCE_S,
    PROGRAMS,
    Json,
    Python,
    Target,
    gsprof,
    wait_for,
)

IN_FOLDER = 'cd "$0" && ulimit -c unlimited && exec "$@"'


def why_no_core() -> str:
    """Returns why a crash leaves no core file in the current directory; "" if it does."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
    if pattern.startswith("|") or "/" in pattern:
        return f"needs a kernel.core_pattern that is a plain name, not {pattern!r}"
    return ""


def start_in(start: StartTarget, folder: Path, name: str, *args: object, **kwargs: Any) -> Target:
    return start(name, *args, before=["/bin/sh", "-c", IN_FOLDER, str(folder)], **kwargs)


def crash(target: Target, folder: Path) -> Path:
    """Aborts the target and returns its core file."""
    os.kill(target.pid, signal.SIGABRT)
    target.process.wait(PATIENCE_S)
    cores = list(folder.glob("core*"))
    if not cores:
        pytest.skip("needs a core size limit that can be raised (ulimit -c)")
    return cores[0]


def threads_of(*args: object) -> List[Json]:
    threads: List[Json] = json.loads(gsprof("dump", "--json", *args).out)
    return threads


def stacks(threads: List[Json]) -> List[Json]:
    """Returns what must be equal for the live process and for the core: the identity of the threads
    and their frames below station(), which a target may still be executing."""
    keys = ("thread_id", "os_thread_id", "thread_name", "is_main", "interpreter_id")
    rows = [{key: thread[key] for key in keys} for thread in threads]
    for row, thread in zip(rows, threads):
        names = [frame["name"] for frame in thread["frames"]]
        row["frames"] = thread["frames"][names.index("station") + 1 :]
    return rows


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_same_as_alive(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Stacks, lines, thread names and values of locals are equal."""
    target = start_in(start, tmp_path, "locals.py", python=python)
    alive = threads_of("-p", target.pid, "--locals")
    core = crash(target, tmp_path)
    dead = threads_of("--core", core, "--locals")
    assert stacks(dead) == stacks(alive)
    info = dead[0]["process_info"]
    assert info["signal"] == signal.SIGABRT and info["missing_bytes"] == 0
    assert info["pid"] == target.pid
    assert info["python_version"] == alive[0]["process_info"]["python_version"]
    assert dead[0]["active"] is None


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_threads(python: Python, start: StartTarget, tmp_path: Path) -> None:
    target = start_in(start, tmp_path, "threads8.py", python=python)
    alive = {thread["thread_name"]: thread for thread in threads_of("-p", target.pid)}
    dead = {t["thread_name"]: t for t in threads_of("--core", crash(target, tmp_path))}
    assert set(dead) == set(alive) and len(dead) == 8
    for name, thread in dead.items():
        assert thread["os_thread_id"] == alive[name]["os_thread_id"]
        if name.startswith("wait_"):
            assert thread["frames"] == alive[name]["frames"]
    text = gsprof("dump", "--core", next(iter(tmp_path.glob("core*")))).out
    assert f"Core of process {target.pid}" in text and "signal 6" in text


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_tasks(python: Python, start: StartTarget, tmp_path: Path) -> None:
    target = start_in(start, tmp_path, "tasks.py", python=python)
    alive = [thread["tasks"] for thread in threads_of("-p", target.pid)]
    dead = [thread["tasks"] for thread in threads_of("--core", crash(target, tmp_path))]
    assert dead == alive and len(dead[0]) >= 10


def test_gcore(start: StartTarget, some_python: Python, tmp_path: Path) -> None:
    """A snapshot by gdb: the process still runs, and the core has other segments."""
    if not shutil.which("gcore"):
        pytest.skip("needs gcore (gdb)")
    target = start("locals.py", python=some_python)
    alive = threads_of("-p", target.pid, "--locals")
    done = subprocess.run(
        ["gcore", "-o", str(tmp_path / "core"), str(target.pid)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    core = tmp_path / f"core.{target.pid}"
    if done.returncode or not core.exists():
        pytest.skip(f"gcore failed: {done.stdout.decode()[-200:]}")
    assert stacks(threads_of("--core", core, "--locals")) == stacks(alive)


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_truncated(start: StartTarget, tmp_path: Path) -> None:
    """A truncated core is read as far as possible or refused, always with a message."""
    whole = crash(start_in(start, tmp_path, "locals.py"), tmp_path).read_bytes()
    core = tmp_path / "cut"
    refused = 0
    for share in (0.0001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999):
        core.write_bytes(whole[: int(len(whole) * share)])
        done = gsprof("dump", "--core", core, "--json", status=None)
        assert done.status in (0, EXIT_FORMAT, EXIT_NOPROC, 75), str(done)
        assert "cut" in done.err, str(done)
        refused += done.status != 0
    assert refused >= 2
    for share in (0.1, 0.5, 0.9):
        core.write_bytes(whole[: int(len(whole) * share)])
        done = gsprof("dump", "--core", core, "--json", "--native", "--locals")
        assert "cut" in done.err, str(done)
        assert json.loads(done.out)[0]["process_info"]["missing_bytes"] > 0


CHAIN = ["<module>", "main", "go_down", "chain_outer", "chain_middle", "chain_inner"]
CHAIN += ["called_back", "station"]


def build_chain(folder: Path) -> Path:
    path = folder / "libchain.so"
    flags = ["-O2", "-g", "-fomit-frame-pointer", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", path, PROGRAMS / "chain.c"], check=True)
    return path


def outermost_first(thread: Json, kind: str = "") -> List[str]:
    frames = [frame for frame in reversed(thread["frames"]) if kind in ("", frame["kind"])]
    return [frame["name"].rsplit(".", 1)[-1] for frame in frames]


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_native(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """Native frames are inserted between Python frames, which stay the same, with their locals."""
    target = start_in(start, tmp_path, "native_station.py", build_chain(tmp_path), python=python)
    core = crash(target, tmp_path)
    plain = threads_of("--core", core, "--locals")[0]
    mixed = threads_of("--core", core, "--locals", "--native")[0]
    frames = [frame for frame in mixed["frames"] if frame["kind"] == "python"]
    assert frames == plain["frames"]
    names = outermost_first(mixed)
    assert [name for name in names if name in CHAIN] == CHAIN, names
    assert mixed["process_info"]["missing_files"] == []
    assert mixed["process_info"]["signal_os_thread_id"] == target.pid


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_native_threads(start: StartTarget, some_python: Python, tmp_path: Path) -> None:
    """Every thread has native frames, and the same Python frames as without --native."""
    target = start_in(start, tmp_path, "threads8.py", python=some_python)
    core = crash(target, tmp_path)
    plain = {t["os_thread_id"]: outermost_first(t) for t in threads_of("--core", core)}
    mixed = threads_of("--core", core, "--native")
    assert {t["os_thread_id"]: outermost_first(t, "python") for t in mixed} == plain
    waiting = [t for t in mixed if (t["thread_name"] or "").startswith("wait_")]
    assert waiting and all(outermost_first(t, "native") for t in waiting)


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_native_file_is_gone(start: StartTarget, tmp_path: Path) -> None:
    """If a library is missing or another build, its frames are shown as addresses."""
    library = build_chain(tmp_path)
    core = crash(start_in(start, tmp_path, "native_station.py", library), tmp_path)
    for change in ("gone", "another build"):
        if change == "gone":
            library.unlink()
        else:
            source = tmp_path / "other.c"
            source.write_text("int other(void) { return 1; }")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        done = gsprof("dump", "--core", core, "--native", "--json")
        assert f"{library} is missing or another build" in done.err
        thread = json.loads(done.out)[0]
        assert thread["process_info"]["missing_files"] == [str(library)]
        python = [name for name in CHAIN if not name.startswith("chain_")]
        names = outermost_first(thread, "python")
        assert [name for name in names if name in CHAIN] == python
        unnamed = [f["name"] for f in thread["frames"] if f["filename"] == str(library)]
        assert unnamed and all(name.startswith("0x") for name in unnamed)


def crash_c(folder: Path) -> Path:
    """Creates the core of a program without Python."""
    program = folder / "crash"
    flags = ["-O1", "-g", "-fno-optimize-sibling-calls", "-fno-inline", "-fno-ipa-cp", "-pthread"]
    subprocess.run(["cc", *flags, "-o", program, PROGRAMS / "crash.c"], check=True)
    done = subprocess.run(
        ["/bin/sh", "-c", IN_FOLDER, str(folder), program], timeout=PATIENCE_S, check=False
    )
    assert done.returncode == -signal.SIGABRT
    cores = list(folder.glob("core*"))
    if not cores:
        pytest.skip("needs a core size limit that can be raised (ulimit -c)")
    return cores[0]


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_native_only(tmp_path: Path) -> None:
    core = crash_c(tmp_path)
    refused = gsprof("dump", "--core", core, status=EXIT_NOPROC)
    assert "no Python interpreter" in refused.err and "--native" in refused.err
    done = gsprof("dump", "--core", core, "--native", "--json")
    assert done.err == ""
    threads = json.loads(done.out)
    assert len(threads) == 2 and threads[0]["is_main"]
    calls = ("main", "outer", "middle", "innermost", "abort", "waits")
    main, other = ([n for n in outermost_first(t) if n in calls] for t in threads)
    assert main == ["main", "outer", "middle", "innermost", "abort"] and other == ["waits"]
    info = threads[0]["process_info"]
    assert info["python_version"] is None and info["python_problem"] is None
    assert info["signal_os_thread_id"] == threads[0]["os_thread_id"]
    assert "No Python (" in gsprof("dump", "--core", core, "--native").out
    for share in (0.05, 0.3, 0.6, 0.95):
        cut = tmp_path / "cut"
        cut.write_bytes(core.read_bytes()[: int(core.stat().st_size * share)])
        done = gsprof("dump", "--core", cut, "--native", "--json", status=None)
        assert done.status in (0, EXIT_FORMAT) and "cut" in done.err, str(done)


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_core_without_file_list(start: StartTarget, tmp_path: Path) -> None:
    core = crash(start_in(start, tmp_path, "locals.py"), tmp_path)
    whole = core.read_bytes()
    at = whole.index(b"ELIFCORE\0")  # NT_FILE and the name of the note
    core.write_bytes(whole[:at] + b"\1\2\3\4" + whole[at + 4 :])
    done = gsprof("dump", "--core", core, status=None)
    assert done.status != 0 and "does not list the mapped files" in done.err, str(done)
    done = gsprof("dump", "--core", core, "--native")
    assert "native frames only" in done.err and "does not list the mapped files" in done.err


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_filtered(start: StartTarget, tmp_path: Path) -> None:
    """A core without the memory of the process (coredump_filter)."""
    shell = "echo 0 >/proc/self/coredump_filter && " + IN_FOLDER
    target = start("locals.py", before=["/bin/sh", "-c", shell, str(tmp_path)])
    done = gsprof("dump", "--core", crash(target, tmp_path), status=None)
    assert done.status != 0 and "coredump_filter" in done.err, str(done)


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_other_machine(tmp_path: Path) -> None:
    core = crash_c(tmp_path)
    whole = bytearray(core.read_bytes())
    whole[18:20] = (243).to_bytes(2, "little")
    core.write_bytes(whole)
    done = gsprof("dump", "--core", core, status=None)
    assert done.status == EXIT_NOPROC and "RISC-V" in done.err, str(done)


@pytest.mark.skipif(bool(why_no_core()), reason=why_no_core())
def test_not_python(tmp_path: Path) -> None:
    child = subprocess.Popen(
        ["/bin/sh", "-c", IN_FOLDER, str(tmp_path), "/bin/sleep", "60"], start_new_session=True
    )
    comm = Path(f"/proc/{child.pid}/comm")
    wait_for(lambda: comm.read_text(encoding="utf-8") == "sleep\n", "the shell does not run sleep")
    child.send_signal(signal.SIGABRT)
    child.wait(PATIENCE_S)
    cores = list(tmp_path.glob("core*"))
    if not cores:
        pytest.skip("needs a core size limit that can be raised (ulimit -c)")
    done = gsprof("dump", "--core", cores[0], status=EXIT_NOPROC)
    assert "no Python interpreter" in done.err


def test_errors(tmp_path: Path) -> None:
    gsprof("dump", "--core", tmp_path / "none", status=EXIT_NOFILE)
    gsprof("dump", "--core", "/bin/sh", status=EXIT_FORMAT)
    gsprof("dump", "--core", __file__, status=EXIT_FORMAT)
    gsprof("dump", "--core", tmp_path, status=EXIT_FORMAT)
    packed = tmp_path / "core.zst"
    packed.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    assert f"zstd -dc {packed}" in gsprof("dump", "--core", packed, status=EXIT_FORMAT).err
    gsprof("dump", "--core", packed, "-p", 1, status=EXIT_USAGE)
