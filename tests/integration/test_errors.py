# SPDX-License-Identifier: Apache-2.0
"""Error messages: what happened, why, and what to type next."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator

import pytest

from conftest import StartTarget
from support import (
    EXIT_NOPROC,
    EXIT_NOWRITE,
    EXIT_PERM,
    EXIT_USAGE,
    GSPROF,
    PATIENCE_S,
    Result,
    check_sane,
    gsprof,
    has_any,
    record_longer,
    record_until,
    state_of,
    wait_for,
)

NO_PID = 2**22 - 3


def check_message(result: Result) -> None:
    """Checks that a message names the program and fits on a screen."""
    assert result.err.startswith("gsprof: "), result.err
    assert 1 <= len(result.err.splitlines()) <= 12


def test_no_such_process(tmp_path: Path) -> None:
    for args in (["record", "-o", str(tmp_path / "p.json")], ["dump"]):
        done = gsprof(*args, "-p", NO_PID, status=EXIT_NOPROC)
        check_message(done)
        assert str(NO_PID) in done.err
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize("pid", ["0", "-1", "x", "1x", "99999999999999999999", ""])
def test_not_a_pid(pid: str, tmp_path: Path) -> None:
    done = gsprof("record", f"--pid={pid}", "-o", tmp_path / "p.json", status=EXIT_USAGE)
    check_message(done)


def test_not_python(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "3600"]) as sleep:
        try:
            # gsprof does not wait for Python for the whole duration.
            for args in (["record", "-o", str(tmp_path / "p.json"), "-d", "3600"], ["dump"]):
                done = gsprof(*args, "-p", sleep.pid, status=EXIT_NOPROC)
                check_message(done)
                assert "Python" in done.err
        finally:
            sleep.kill()
    assert not (tmp_path / "p.json").exists()


def test_never_starts_python(tmp_path: Path) -> None:
    """A launched program that is not Python: a message, and its status is still passed on."""
    done = gsprof(
        "record", "-o", tmp_path / "p.json", "--", "/bin/sh", "-c", "sleep 0.5; exit 9", status=None
    )
    assert done.status in (9, EXIT_NOPROC), done
    assert "Python" in done.err


def test_zombie(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as child:
        wait_for(lambda: state_of(child.pid) == "Z", "no zombie")
        done = gsprof("record", "-p", child.pid, "-o", tmp_path / "p.json", status=EXIT_NOPROC)
        check_message(done)


def test_kernel_thread(tmp_path: Path) -> None:
    """pid 2 has no user memory."""
    comm = Path("/proc/2/comm")
    if not comm.exists() or comm.read_text().strip() != "kthreadd":
        pytest.skip("needs kernel threads in its pid namespace")
    done = gsprof("record", "-p", 2, "-o", tmp_path / "p.json", status=None)
    assert done.status in (EXIT_NOPROC, EXIT_PERM), done
    check_message(done)


def test_unwritable_output_fails_before_recording(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    for path in ("/nonexistent/p.json", "/proc/p.json", tmp_path):
        args = ("record", "-p", target.pid, "-o", path, "-d", "3600", "-f", "json")
        done = gsprof(*args, status=None)
        assert done.status in (EXIT_NOWRITE, 66, 74), done
        check_message(done)


def test_existing_file_is_kept(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    path = tmp_path / "p.json"
    path.write_text("precious")
    done = gsprof("record", "-p", target.pid, "-o", path, "-d", "3600", status=EXIT_NOWRITE)
    check_message(done)
    assert "--force" in done.err
    assert path.read_text() == "precious"
    assert record_until(has_any, target.pid, path, duration_s=0.2).samples


def test_nothing_is_left_behind(start: StartTarget, tmp_path: Path) -> None:
    """No temporary files, neither after success nor after failure."""
    target = start("spin.py")
    record_longer(Path.exists, target.pid, tmp_path / "p.svg", duration_s=0.2)
    gsprof("record", "-p", NO_PID, "-o", tmp_path / "q.svg", status=EXIT_NOPROC)
    assert [path.name for path in tmp_path.iterdir()] == ["p.svg"]


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["record"],
        ["record", "-p"],
        ["record", "--no-such-flag"],
        ["recrod", "-p", "1"],
        ["record", "-p", "1", "--", "true"],
        ["convert"],
        ["convert", "-i", "x"],
        ["flamegraph"],
        ["report"],
        ["dump"],
        ["completions"],
        ["completions", "tcsh"],
        ["record", "-p", "1", "-o", "x.unknown"],
        ["record", "-p", "1", "-f", "nonsense"],
        ["record", "-p", "1", "-d", "soon"],
        ["record", "-p", "1", "-d", "-1"],
    ],
)
def test_wrong_usage(args: list[str], tmp_path: Path) -> None:
    done = gsprof(*args, status=EXIT_USAGE, cwd=tmp_path)
    assert done.err.strip()
    assert not list(tmp_path.iterdir())


def test_suggestions() -> None:
    assert "record" in gsprof("recrod", "-p", "1", status=EXIT_USAGE).err
    assert "--duration" in gsprof("record", "--duraton=3", status=EXIT_USAGE).err


@pytest.fixture
def reachable() -> Iterator[str]:
    """A folder with the profiler, where an unprivileged user can run it."""
    folder = Path(tempfile.mkdtemp(prefix="gsprof-test-"))
    folder.chmod(0o755)
    shutil.copy(GSPROF, folder / "gsprof")
    (folder / "gsprof").chmod(0o755)
    (folder / "out").mkdir()
    (folder / "out").chmod(0o777)
    yield str(folder)
    shutil.rmtree(folder)


@pytest.mark.needs_root
def test_another_users_process(start: StartTarget, reachable: str) -> None:
    """Not permitted: the message has the cause and a remedy that works."""
    target = start("spin.py")
    for args in (["record", "-o", f"{reachable}/out/p.json"], ["dump"]):
        argv = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            f"{reachable}/gsprof",
            *args,
            "-p",
            str(target.pid),
        ]
        run = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False
        )
        done = check_sane(Result(argv, run.returncode, run.stdout.decode(), run.stderr.decode()))
        assert done.status == EXIT_PERM, done
        check_message(done)
        assert "permitted" in done.err and "why" in done.err
        assert "sudo" in done.err or "root" in done.err
    assert target.alive()


@pytest.mark.needs_root
def test_root_without_ptrace(start: StartTarget) -> None:
    """Root in a container without SYS_PTRACE: sudo would not help."""
    target = start("spin.py")
    # As in a container, gsprof cannot read a target that has a capability it lacks itself.
    done = gsprof(
        "dump",
        "-p",
        target.pid,
        status=EXIT_PERM,
        before=["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-all"],
    )
    check_message(done)
    assert "SYS_PTRACE" in done.err
