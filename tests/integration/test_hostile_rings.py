# SPDX-License-Identifier: Apache-2.0
"""Rings that other users made, or that lie: queries stay quick and small, and touch only what they
may."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import pytest
from measure import Measured, become, measure
from serving import Daemon
from support import GSPROF, gsprof, is_root, wait_for

PAGE = 4096
# The SQL engine alone takes about half of it.
PEAK_MB = 300
TIME_S = 20.0
OWNER, VICTIM = 1501, 1502

pytestmark = pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs /dev/shm")


def start_time(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(text.rpartition(")")[2].split()[19])


def ring_bytes(table: str, pid: int, bytes_max: int, string_max: int) -> Tuple[bytes, int, int]:
    """Returns the head of a ring with one text column, the start of its dictionary's texts, and the
    size of the file."""
    slots = 1024
    strings = 64 + 8 * slots + 8 * string_max + bytes_max
    strings_bytes = (strings + PAGE - 1) // PAGE * PAGE
    lane_bytes = PAGE
    lanes_off = 2 * PAGE + strings_bytes
    head = struct.pack(
        "<8sIIIIIIQQQQQQqQqiI64s64s64sIIQQQ",
        b"GSPRING1",
        1,
        0x01020304,
        2,
        PAGE,
        16,
        1,
        lanes_off,
        lane_bytes,
        0,
        0,
        2 * PAGE,
        strings_bytes,
        time.time_ns(),
        start_time(pid),
        0,
        pid,
        1,
        b"user",
        table.encode(),
        b"here",
        1,
        0,
        0,
        0,
        0,
    ).ljust(PAGE, b"\0")
    columns = struct.pack("<64sIIQ", b"ts_ns", 1, 8, 128)
    columns += struct.pack("<64sIIQ", b"name", 4, 4, 256)
    dictionary = struct.pack("<IIIIQQ", string_max, string_max, slots, 0, bytes_max, bytes_max)
    front = head + columns.ljust(PAGE, b"\0") + dictionary
    return front, lanes_off - strings_bytes + 64 + 8 * slots, lanes_off + lane_bytes


def make_ring(
    folder: Path,
    table: str,
    bytes_max: int,
    string_max: int,
    is_sparse: bool = False,
    pid: int = 0,
) -> Path:
    """Writes a ring with one row."""
    front, refs_off, size = ring_bytes(table, pid or os.getpid(), bytes_max, string_max)
    path = folder / f"user.{table}.ring"
    with path.open("wb") as file:
        if not is_sparse:
            os.posix_fallocate(file.fileno(), 0, size)
        file.truncate(size)
        file.write(front)
        file.seek(refs_off)
        file.write(struct.pack("<Q", 8 << 24 | 4))
        file.seek(refs_off + 8 * string_max + 8)
        file.write(b"good")
        lane = bytearray(PAGE)
        struct.pack_into("<Q", lane, 0, 1)
        struct.pack_into("<q", lane, 128, 1)
        struct.pack_into("<I", lane, 256, 1)
        file.seek(size - PAGE)
        file.write(lane)
    return path


@pytest.fixture(name="runtime_dir")
def fixture_runtime_dir() -> Iterator[Path]:
    """A folder in shared memory for XDG_RUNTIME_DIR."""
    path = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="test-gsprof-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def own_folder(runtime_dir: Path) -> Path:
    folder = runtime_dir / "gsprof" / f"{os.getpid()}-{start_time(os.getpid())}"
    folder.mkdir(mode=0o700, parents=True)
    (runtime_dir / "gsprof").chmod(0o700)
    return folder


def env_of(runtime_dir: Path) -> Dict[str, str]:
    return {**os.environ, "XDG_RUNTIME_DIR": str(runtime_dir)}


def blocks(paths: List[Path]) -> int:
    return sum(path.stat().st_blocks for path in paths)


def query(env: Mapping[str, str], sql: str, *args: object) -> Tuple[Measured, Any]:
    done = measure(GSPROF, "query-worker", "--format", "object", *args, env=env, given=sql)
    assert done.status == 0, done
    assert done.peak_mb < PEAK_MB and done.time_s < TIME_S, done
    return done, json.loads(done.out)


def test_sparse_rings(runtime_dir: Path, tmp_path: Path) -> None:
    """Files that only claim to have large dictionaries are left out, and stay as small."""
    folder = own_folder(runtime_dir)
    rings = [make_ring(folder, f"t{i}", 1 << 28, 1 << 20, is_sparse=True) for i in range(8)]
    make_ring(folder, "good", 4096, 16)
    before = blocks(rings)
    env = env_of(runtime_dir)
    _, answer = query(env, "SELECT 1 AS one", "--memory", "64M", "--timeout", "10s")
    assert answer["rows"] == [{"one": 1}]
    _, answer = query(env, "SELECT name FROM user.good")
    assert answer["rows"] == [{"name": "good"}]
    assert any("left out" in line and "has holes" in line for line in answer["warnings"]), answer
    daemon = Daemon(tmp_path, env={"XDG_RUNTIME_DIR": str(runtime_dir)}, owner=True)
    try:
        answer = daemon.post("/query", {"sql": "SELECT name FROM user.good"})
        assert answer == [{"name": "good"}]
        status = Path(f"/proc/{daemon.pid}/status").read_text(encoding="utf-8")
        peak_mb = int(status.split("VmHWM:")[1].split()[0]) / 1024
        assert peak_mb < PEAK_MB, peak_mb
    finally:
        daemon.end()
    assert blocks(rings) == before


def test_large_dictionaries(runtime_dir: Path) -> None:
    """Strings that exceed the memory of the query are left out; other tables are not affected."""
    folder = own_folder(runtime_dir)
    make_ring(folder, "large", 40 << 20, 1 << 10)
    make_ring(folder, "good", 4096, 16)
    env = env_of(runtime_dir)
    _, answer = query(env, "SELECT name FROM user.good", "--memory", "64M")
    assert answer["rows"] == [{"name": "good"}] and not answer["warnings"], answer
    _, answer = query(
        env, "SELECT name FROM user.good UNION ALL SELECT name FROM user.large", "--memory", "64M"
    )
    assert answer["rows"] == [{"name": "good"}]
    assert any("user.large" in line and "left out" in line for line in answer["warnings"]), answer
    _, answer = query(env, "SELECT count(*) AS n FROM user.large")
    assert answer["rows"] == [{"n": 1}] and not answer["warnings"], answer


def test_hard_links(runtime_dir: Path) -> None:
    """Thousands of directories with the same file."""
    folder = own_folder(runtime_dir)
    ring = make_ring(folder, "good", 4096, 16)
    for i in range(4000):
        other = runtime_dir / "gsprof" / f"{i + 1}-77"
        other.mkdir(mode=0o700)
        os.link(ring, other / ring.name)
    _, answer = query(env_of(runtime_dir), "SELECT 1 AS one")
    assert answer["rows"] == [{"one": 1}]


def bare_env() -> Dict[str, str]:
    """Without XDG_RUNTIME_DIR."""
    return {name: text for name, text in os.environ.items() if name != "XDG_RUNTIME_DIR"}


def run_as(uid: int, *args: object) -> Measured:
    return measure(GSPROF, *args, env=bare_env(), uid=uid)


def start_as(uid: int, *args: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [str(arg) for arg in args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=bare_env(),
        preexec_fn=lambda: become(uid),
        cwd="/",
    )


@pytest.fixture(name="taken")
def fixture_taken() -> Iterator[Path]:
    """Another user has made the folder of VICTIM."""
    if not is_root():
        pytest.skip("needs root to act as two users")
    taken = Path(f"/dev/shm/gsprof-{VICTIM}")
    roots = [taken, *Path("/dev/shm").glob(f"gsprof-{VICTIM}-*")]
    for root in roots:
        shutil.rmtree(root, ignore_errors=True)
    taken.mkdir(mode=0o755)
    os.chown(taken, OWNER, OWNER)
    yield taken
    for root in [taken, *Path("/dev/shm").glob(f"gsprof-{VICTIM}-*")]:
        shutil.rmtree(root, ignore_errors=True)


def test_taken_root(taken: Path) -> None:
    """A folder of another user does not switch gsprof off, and root reads it only when asked."""
    listed = run_as(VICTIM, "list")
    assert listed.status == 0 and "skipped" in listed.err and "sudo" not in listed.err, listed
    program = "import sys; print('up', flush=True); sys.stdin.read()"
    target = start_as(VICTIM, "/usr/bin/python3", "-c", program)
    assert target.stdout is not None and target.stdin is not None
    assert target.stdout.readline() == b"up\n"
    follower = start_as(VICTIM, GSPROF, "follow", target.pid)

    def listed_pids(*args: object) -> List[int]:
        return [row["pid"] for row in json.loads(run_as(VICTIM, "list", "--json", *args).out)]

    wait_for(lambda: listed_pids() == [target.pid], "no rings", pause_s=0.1)
    roots = list(taken.parent.glob(f"gsprof-{VICTIM}-*"))
    assert len(roots) == 1 and roots[0].stat().st_uid == VICTIM, roots
    assert roots[0].stat().st_mode & 0o777 == 0o700
    sql = "SELECT count(*) AS n FROM process.metrics"
    assert run_as(VICTIM, "query", target.pid, sql).status == 0
    check_root(target.pid)
    target.stdin.close()
    assert target.wait() == 0 and follower.wait() == 0
    assert run_as(VICTIM, "report", target.pid).status == 0
    cleaned = run_as(VICTIM, "list", "--clean")
    assert cleaned.status == 0 and not list(roots[0].iterdir()), cleaned


def check_root(pid: int) -> None:
    """Root reads the rings of another user only when it asks for them."""
    cases: List[Tuple[List[str], bool]] = [([], False), (["--all-users"], True)]
    for args, is_seen in cases:
        done = measure(GSPROF, "list", "--json", *args, env=bare_env())
        assert done.status == 0, done
        assert (pid in [row["pid"] for row in json.loads(done.out)]) == is_seen, done
        done = measure(
            GSPROF,
            "query-worker",
            *args,
            env=bare_env(),
            given=f"SELECT count(*) AS n FROM process.metrics WHERE pid = {pid}",
        )
        count = json.loads(done.out)[0]["n"] if done.status == 0 else 0
        assert (count > 0) == is_seen, done
    # A process that root names is asked for.
    gsprof("query", pid, "SELECT count(*) AS n FROM process.metrics", env={"XDG_RUNTIME_DIR": ""})


def make_rings_of(pid: int, uid: int) -> None:
    """Makes a ring directory for a process as this user."""
    root = Path(f"/dev/shm/gsprof-{uid}")
    folder = root / f"{pid}-{start_time(pid)}"
    root.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700)
    ring = make_ring(folder, "good", 4096, 16, pid=pid)
    for path in (root, folder, ring):
        os.chown(path, uid, uid)


@pytest.fixture(name="users")
def fixture_users() -> Iterator[None]:
    """OWNER and VICTIM, without rings."""
    if not is_root():
        pytest.skip("needs root to act as other users")

    def remove() -> None:
        for uid in (OWNER, VICTIM):
            shutil.rmtree(f"/dev/shm/gsprof-{uid}", ignore_errors=True)

    remove()
    yield
    remove()


@pytest.mark.parametrize("owner", [0, OWNER])
def test_rings_for_a_process_of_another_user(owner: int, users: None) -> None:
    """Root reads only those of the user who runs the process."""
    target = start_as(owner, "/usr/bin/sleep", "60")
    try:
        make_rings_of(target.pid, VICTIM)
        sql = "SELECT name FROM user.good"
        done = measure(GSPROF, "query", target.pid, sql, env=bare_env())
        assert done.status != 0 and "user.good" in done.err, done
        if owner:
            make_rings_of(target.pid, owner)
            done = measure(GSPROF, "query", target.pid, sql, "-f", "json", env=bare_env())
            assert json.loads(done.out) == [{"name": "good"}], done
    finally:
        target.kill()
        target.wait()


def test_a_run_has_no_rings_of_others(users: None, tmp_path: Path) -> None:
    """The program names processes of other users in its run file, and another user makes rings for
    the program."""
    victims = [start_as(uid, "/usr/bin/sleep", "60") for uid in (0, VICTIM)]
    own = Path(f"/dev/shm/gsprof-0/{victims[0].pid}-{start_time(victims[0].pid)}")
    pids = [victim.pid for victim in victims]
    program = (
        "import os, sys\n"
        "with open(os.environ['GSPROF_RUN_FILE'], 'a') as file:\n"
        f"    for pid in {pids}: print(pid, file=file)\n"
        "print(os.getpid(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    out = tmp_path / "run"
    env = {**bare_env(), "SUDO_UID": str(OWNER), "SUDO_GID": str(OWNER)}
    argv = [GSPROF, "run", "-o", out, "--", "/usr/bin/python3", "-c", program]
    try:
        make_rings_of(pids[0], 0)
        make_rings_of(pids[1], VICTIM)
        with subprocess.Popen(
            [str(arg) for arg in argv],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as run:
            assert run.stdin is not None and run.stdout is not None
            pid = int(run.stdout.readline())
            make_rings_of(pid, VICTIM)
            run.stdin.close()
            assert run.wait() == 0
    finally:
        for victim in victims:
            victim.kill()
            victim.wait()
        shutil.rmtree(own, ignore_errors=True)
    meta = json.loads((out / "meta.json").read_text(encoding="utf-8"))
    assert [process["pid"] for process in meta["processes"]] == [pid], meta
    assert not list(out.glob("user.*")), list(out.iterdir())
    assert list(out.glob("gsprof.setting.parquet")), list(out.iterdir())


def test_unreadable_ring_is_a_loss(runtime_dir: Path, tmp_path: Path) -> None:
    """A file that never becomes a readable ring is counted when a run is finished."""
    program = (
        "import glob, os, time\n"
        "pattern = os.environ['XDG_RUNTIME_DIR'] + f'/gsprof/{os.getpid()}-*'\n"
        "end = time.monotonic() + 20\n"
        "while not glob.glob(pattern) and time.monotonic() < end: pass\n"
        "with open(glob.glob(pattern)[0] + '/user.bad.ring', 'wb') as file:\n"
        "    file.write(b'x' * 5000)\n"
    )
    run = tmp_path / "run"
    env = {"XDG_RUNTIME_DIR": str(runtime_dir)}
    gsprof("run", "--output", run, "--", "/usr/bin/python3", "-c", program, env=env)
    sql = "SELECT source, cause, count FROM gsprof.loss WHERE cause = 'ring not readable'"
    rows = json.loads(gsprof("query", run, sql, "--format", "json").out)
    assert [(row["source"], row["count"]) for row in rows] == [("user.bad", 1)], rows


# Truncates the rings of its process once they are written.
CUT = """
import glob, os, sys, time
pattern = f"/dev/shm/{sys.argv[1]}/{os.getpid()}-*"
end = time.monotonic() + 20
while not glob.glob(pattern + "/*.ring") and time.monotonic() < end:
    time.sleep(0.01)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    sum(range(10000))
rings = glob.glob(pattern + "/*.ring")
for path in rings:
    os.truncate(path, 0)
print("cut", len(rings), flush=True)
time.sleep(3)
print("end", flush=True)
"""


def cut_rings(run: Path, root: str, env: Mapping[str, str]) -> None:
    """Runs a program that truncates rings. gsprof ends as the program does and reports the loss."""
    program = (GSPROF, "run", "-o", run, "--", "/usr/bin/python3", "-c", CUT, root)
    done = measure(*program, env=env)
    lines = done.out.splitlines()
    assert done.status == 0 and "end" in lines and "cut 0" not in lines, done
    rows = json.loads(gsprof("query", run, "SELECT cause FROM gsprof.loss", "-f", "json").out)
    assert "file cut" in {row["cause"] for row in rows}, (rows, done)


@pytest.mark.needs_root
def test_a_program_of_another_user_cuts_its_rings(tmp_path: Path) -> None:
    """The thread that reads them blocks other signals, but not SIGBUS."""
    env = {**bare_env(), "SUDO_UID": str(OWNER), "SUDO_GID": str(OWNER)}
    cut_rings(tmp_path / "run", f"gsprof-{OWNER}", env)


def test_a_program_cuts_the_rings_that_gsprof_writes(runtime_dir: Path, tmp_path: Path) -> None:
    """A program of the same user. Metrics and stacks are in its ring directory, too."""
    root = str((runtime_dir / "gsprof").relative_to("/dev/shm"))
    cut_rings(tmp_path / "run", root, env_of(runtime_dir))
