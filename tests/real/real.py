#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs that use well-known libraries under gsprof and checks that its reports are correct.

usage: real.py [--only JOB]... [--stage STAGE]... [--venvs DIR|--python PATH] [--keep DIR] [--list]

Each job of jobs.py runs alone, under `gsprof run`, and once more while `record -s`, `dump -s`,
`inject -s`, `query`, `eject` and `mem record -s` attach to it. It must end as it does alone, and
the recordings must contain its steps, processes, functions and allocations. --venvs creates an
environment with the libraries from PyPI in DIR and keeps it; --python uses an existing one. A job
is skipped if its libraries are not available. --keep keeps the recordings in DIR. Stages: run,
attach, more. The last line counts the checks; the exit status is 1 if one failed."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Tuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
sys.path.insert(0, str(HERE.parent / "exits"))
sys.path.insert(0, str(HERE))

from environment import Environment  # noqa: E402
from exits import HUNG, Ending, children_of, end_family, mask  # noqa: E402
from jobs import JOBS, MAIN, PROGRAMS, Job  # noqa: E402
from support import GSPROF, PACKAGE, Json, Profile, Running, gsprof, wait_for  # noqa: E402

# Longer than any job takes on a machine with a load of 20.
PATIENCE_S = 300.0
STAGES = ("run", "attach", "more")
MIB = 1 << 20
ROUNDS = 4  # rounds of a process while its memory is recorded
LATE_S = 60.0  # longest wait until all processes count


# ---------------------------------------------------------------------------------- counting


class Tally:
    """Counts and prints the results of checks."""

    def __init__(self) -> None:
        self.passed = 0
        self.failures: List[str] = []
        self.skipped = 0

    @contextlib.contextmanager
    def check(self, what: str) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            self.fail(what, str(error))
        except Exception:
            self.fail(what, traceback.format_exc())
        else:
            self.passed += 1
            print(f"ok      {what}", flush=True)

    def fail(self, what: str, why: str) -> None:
        self.failures.append(what)
        print(f"FAILED  {what}\n" + "\n".join(f"        {n}" for n in why.splitlines()), flush=True)

    def skip(self, what: str, why: str) -> None:
        self.skipped += 1
        print(f"skipped {what}: {why}", flush=True)

    def __str__(self) -> str:
        return f"{self.passed} passed, {len(self.failures)} failed, {self.skipped} skipped"


# ------------------------------------------------------------------------------ the programs

# Output that varies between two runs, in addition to what tests/exits masks.
MASKS = [(re.compile(r"in \d+\.\d+s"), "in TIME")]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def family_of(pid: int) -> List[int]:
    """Returns a process and all its descendants."""
    family = [pid]
    for parent in family:
        family += children_of(parent)
    return family


def small_shm(job: Job) -> List[str]:
    """Returns the prefix of the command for a job with a small /dev/shm."""
    # In a chroot the root is not a mount and cannot be made private.
    is_shared = " shared:" in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    way = "private" if is_shared else "unchanged"
    mount = f'mount -t tmpfs -o size={job.shm_mb}m tmpfs /dev/shm && exec "$0" "$@"'
    return ["unshare", "--mount", "--propagation", way, "sh", "-c", mount] * bool(job.shm_mb)


def reason_to_skip(job: Job) -> str:
    """Returns why the system cannot run a job, or an empty string."""
    if job.shm_mb:
        done = subprocess.run([*small_shm(job), "true"], stderr=subprocess.PIPE, check=False)
        if done.returncode:
            return "needs root and a mount namespace"
    return ""


class Started:
    """A job that runs, alone or under a command."""

    def __init__(self, job: Job, python: str, folder: Path, under: Sequence[str] = ()) -> None:
        self.job, self.python = job, python
        self.folder = folder
        self.facts = folder / "facts"
        self.work = folder / "work"
        for place in (self.facts, self.work):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
        self.port = free_port()
        self.env = {
            **os.environ,
            "REAL_FACTS": str(self.facts),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "2",
        }
        words = {"{here}": str(PROGRAMS), "{port}": str(self.port), "{facts}": str(self.facts)}
        argv = [self.python]
        for word in job.argv:
            for name, text in words.items():
                word = word.replace(name, text)
            argv.append(word)
        self.out = (folder / "out").open("w+b")
        self.err = (folder / "err").open("w+b")
        self.is_over = threading.Event()
        self.clients: List[threading.Thread] = []
        self.argv = [*small_shm(job), *under, *argv]
        if job.shm_mb:
            self.env.pop("XDG_RUNTIME_DIR", None)

    def begin(self, stay: bool = False) -> "Started":
        if stay:
            (self.facts / "stay").touch()
        self.process = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.err,
            env=self.env,
            cwd=self.work,
            start_new_session=True,
        )
        if self.job.is_server:
            self.clients = [
                threading.Thread(target=self.send_requests, args=(n,)) for n in range(3)
            ]
        for client in self.clients:
            client.start()
        return self

    # ---- load on a server

    def send_requests(self, number: int) -> None:
        """Sends requests until there were enough and each process had some."""
        sent = 0
        url = f"http://127.0.0.1:{self.port}/{number}"
        while not self.is_over.is_set():
            enough = sent >= 20 and len(self.pids(self.job.role)) >= self.job.processes
            if enough and not (self.facts / "stay").exists():
                return
            try:
                with urllib.request.urlopen(url, timeout=60) as answer:
                    json.load(answer)
                sent += 1
            except OSError:
                self.is_over.wait(0.1)  # the server has not started yet

    # ---- facts that it reports

    def rounds(self, role: str) -> Dict[int, int]:
        """Returns the rounds of each process of a role."""
        found = {}
        for path in self.facts.glob(f"{role}-*"):
            with contextlib.suppress(OSError, ValueError):
                found[int(path.name.rsplit("-", 1)[1])] = int(path.read_text() or 0)
        return found

    def pids(self, role: str) -> List[int]:
        return sorted(self.rounds(role))

    def workers(self) -> List[int]:
        return self.pids(self.job.role)

    def wait_until_at_work(self) -> None:
        """Waits until each working process has finished a round."""

        def are_at_work() -> bool:
            assert self.process.poll() is None, self.text_output()
            rounds = self.rounds(self.job.role)
            return len(rounds) >= self.job.processes and min(rounds.values()) >= 1

        wait_for(
            are_at_work, f"{self.job.name} does not begin: {self.text_output()}", PATIENCE_S, 0.05
        )

    def wait_for_rounds(self, count: int) -> None:
        """Waits until each working process has done count more rounds."""
        before = self.rounds(self.job.role)

        def have_done() -> bool:
            assert self.process.poll() is None, self.text_output()
            now = self.rounds(self.job.role)
            return all(now[pid] - before[pid] >= count for pid in before)

        wait_for(have_done, f"no {count} rounds after {before}", PATIENCE_S, 0.05)

    def text_output(self) -> str:
        texts = [
            p.read_text(errors="replace")[-3000:]
            for p in (self.folder / "out", self.folder / "err")
        ]
        return f"status {self.process.poll()}\n--- stdout\n{texts[0]}\n--- stderr\n{texts[1]}"

    # ---- its exit

    def finish(self) -> Ending:
        """Waits for the exit; sends SIGTERM to a server."""
        (self.facts / "stay").unlink(missing_ok=True)
        if self.clients:
            for client in self.clients:
                client.join(PATIENCE_S)
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            end_family(self.process.pid)
            status = HUNG
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            text = mask(file.read().decode("utf-8", "replace"))
            for place in (self.work, self.facts, self.folder):
                text = text.replace(str(place), "FOLDER")
            for pattern, word in MASKS:
                text = pattern.sub(word, text)
            texts.append(text)
        # Libraries log times and progress; only errors and warnings are compared.
        complaints = re.compile(r"(?i)error|exception|traceback|warn|fault|abort|gsprof")
        errors = {line for line in texts[1].splitlines() if complaints.search(line)}
        return Ending(status, texts[0], "\n".join(sorted(errors)))

    def end(self) -> None:
        """Kills all processes of the job."""
        self.is_over.set()
        process = getattr(self, "process", None)
        if process and process.poll() is None:
            for pid in family_of(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        self.out.close()
        self.err.close()


@contextlib.contextmanager
def started(
    job: Job, python: str, folder: Path, under: Sequence[str] = (), stay: bool = False
) -> Iterator[Started]:
    one = Started(job, python, folder, under)
    try:
        yield one.begin(stay)
    finally:
        one.end()


# ---------------------------------------------------------------------------- queries of gsprof


def query(endpoint: object, sql: str) -> List[Json]:
    done = gsprof("query", endpoint, sql, "-f", "json", timeout_s=PATIENCE_S)
    rows: List[Json] = json.loads(done.out)
    return rows


def by_process(rows: Sequence[Json]) -> Dict[int, Json]:
    return {row["pid"]: row for row in rows}


def held_bytes(endpoint: object, job: Job) -> Dict[int, int]:
    """Returns the bytes allocated at the line "# held", by process."""
    sql = f"""SELECT a.pid, sum(a.bytes) AS bytes FROM python.allocation a
        WHERE a.kind IN ('alloc', 'live', 'peak') AND a.stack_id IN (SELECT stack_id
        FROM python.stack WHERE file LIKE '%{job.held}' AND lineno = {job.held_line})
        GROUP BY a.pid"""
    return {row["pid"]: int(row["bytes"]) for row in query(endpoint, sql)}


def check_all_held(found: Mapping[int, int], pids: Sequence[int], least: int) -> None:
    short = {pid: found.get(pid, 0) for pid in pids if found.get(pid, 0) < least}
    assert not short, f"less than {least} bytes at the line of these processes: {short} ({found})"


# -------------------------------------------------------------------------------- gsprof run


class RunChecks:
    """Checks the folder written by `gsprof run` for a job."""

    def __init__(self, tally: Tally, one: Started, output: Path) -> None:
        self.tally, self.one, self.job, self.output = tally, one, one.job, output

    def check(self, what: str) -> Any:
        return self.tally.check(f"{self.job.name}: run: {what}")

    def all(self) -> None:
        with self.check("every process is recorded"):
            self.processes()
        with self.check("each frame of a stack is stored once"):
            self.stacks()
        with self.check(f"{self.job.hot} is the hottest function"):
            self.hot()
        with self.check("losses have a cause"):
            self.losses()
        with self.check("allocations have their process and line"):
            check_all_held(held_bytes(self.output, self.job), self.one.workers(), 1)
        with self.check("CPU time is accounted for"):
            self.cpu()
        if self.job.steps is not None:
            with self.check(f"{self.job.steps} steps"):
                self.steps()
        if self.job.modules:
            with self.check("modules have their names"):
                self.modules()
        if self.job.collectives:
            with self.check("collectives"):
                self.collectives()
        if self.job.straggler is not None:
            with self.check("the slow rank is named"):
                self.straggler()
        with self.check("a report can be created"):
            text = self.report()
            assert "main thread" in text.lower() or "verdict" in text.lower(), text

    def report(self) -> str:
        text: str = gsprof("report", self.output, "-f", "md", timeout_s=PATIENCE_S).out
        return text

    def processes(self) -> None:
        sql = "SELECT pid, count(*) AS n FROM python.stack_sample GROUP BY pid"
        found = by_process(query(self.output, sql))
        expected = {pid for role in (MAIN, self.job.role) for pid in self.one.pids(role)}
        assert expected and expected <= set(
            found
        ), f"missing: {expected - set(found)} of {expected}"

    def stacks(self) -> None:
        sql = """SELECT count(*) AS n, count(DISTINCT (stack_id, depth)) AS distinct_n
            FROM python.stack"""
        row = query(self.output, sql)[0]
        assert row["n"] > 0 and row["n"] == row["distinct_n"], row
        sql = """SELECT (SELECT sum(weight_ns) FROM python.stack_sample) AS alone,
            (SELECT sum(weight_ns) FROM python.stack_sample JOIN python.stack USING (stack_id)
             WHERE depth = 0) AS joined"""
        row = query(self.output, sql)[0]
        assert row["joined"] == row["alone"], row

    def hot(self) -> None:
        files = "', '".join(path.name for path in PROGRAMS.glob("*.py"))
        sql = f"""SELECT func, self_s, total_s FROM gsprof.hot_functions()
            WHERE parse_filename(file::VARCHAR) IN ('{files}') AND func <> '<module>'
            ORDER BY self_s DESC, total_s DESC"""
        rows = query(self.output, sql)
        if self.job.is_native:  # the time is in the native code that it calls
            assert any(self.job.hot == row["func"] for row in rows), rows[:8]
        else:
            hottest = rows[0]["func"].split(".")[-1] if rows else ""
            assert hottest == self.job.hot, rows[:8]

    def losses(self) -> None:
        rows = query(self.output, "SELECT pid, source, cause, count FROM gsprof.loss")
        bad = [row for row in rows if not row["cause"] or not row["source"]]
        assert not bad, bad
        for line in self.report().splitlines():
            if re.search(r"\b(Missing|Lost): ", line):
                assert re.search(r"\(.+\)|not Python", line), f"without a cause: {line}"

    def cpu(self) -> None:
        """Also checks that the report has a line for native threads."""
        sql = """SELECT sum(s) AS s FROM
            (SELECT max(user_s + system_s) AS s FROM process.metrics GROUP BY pid)"""
        row = query(self.output, sql)[0]
        assert row["s"], row
        if self.job.is_native:
            text = self.report()
            assert "Threads without Python used" in text, text[:600]
            sql = """SELECT count(DISTINCT thread_id) AS n FROM process.thread
                WHERE thread_id NOT IN (SELECT thread_id FROM python.stack_sample)"""
            assert query(self.output, sql)[0]["n"] > 0

    def steps(self) -> None:
        sql = """SELECT pid, count(*) AS n, count(DISTINCT step) AS distinct_n
            FROM python.torch_step GROUP BY pid"""
        found = by_process(query(self.output, sql))
        for pid in self.one.pids(self.job.trains):
            row = found.get(pid)
            assert row and row["n"] == row["distinct_n"] == self.job.steps, (pid, found)
        assert set(found) == set(self.one.pids(self.job.trains)), found

    def modules(self) -> None:
        rows = query(
            self.output, "SELECT DISTINCT module::VARCHAR AS module FROM python.torch_trace"
        )
        names = {row["module"] for row in rows}
        missing = set(self.job.modules) - names
        assert not missing, f"missing: {missing} of {sorted(map(str, names))}"
        assert "" not in names and None not in names, "a module without a name"

    def collectives(self) -> None:
        sql = "SELECT pid, list(DISTINCT op::VARCHAR) AS ops FROM python.collective GROUP BY pid"
        found = by_process(query(self.output, sql))
        for pid in self.one.workers():
            ops = found.get(pid, {"ops": []})["ops"]
            missing = [n for n in self.job.collectives if not any(n in op for op in ops)]
            assert not missing, f"process {pid}: no {missing}, only {ops}"

    def straggler(self) -> None:
        sql = """SELECT DISTINCT rank FROM python.stack_sample WHERE stack_id IN
            (SELECT stack_id FROM python.stack WHERE func = 'straggle')"""
        ranks = [row["rank"] for row in query(self.output, sql)]
        assert ranks == [self.job.straggler], ranks
        text = self.report()
        if self.job.waits_are_hooked:
            assert f"wait for rank {self.job.straggler}" in text, text[:600]
        else:
            # The report must not blame another rank.
            blamed = re.findall(r"wait for rank (\d+)|Rank (\d+) is the slowest", text)
            assert all(str(self.job.straggler) in pair for pair in blamed), text[:600]


def check_run(tally: Tally, job: Job, python: str, folder: Path, alone: Ending) -> None:
    output = folder / "run"
    under = [str(GSPROF), "run", "-q", "--force", "-o", str(output), "--"]
    with started(job, python, folder / "under", under) as one:
        with tally.check(f"{job.name}: run: same ending as alone"):
            ending = one.finish()
            assert ending == alone, f"== alone: {alone}\n== under gsprof: {ending}"
        RunChecks(tally, one, output).all()


# ------------------------------------------------------------------------------- attaching


class AttachChecks:
    """Checks commands that attach to a running job."""

    def __init__(self, tally: Tally, one: Started, folder: Path) -> None:
        self.tally, self.one, self.job, self.folder = tally, one, one.job, folder
        self.pid = one.process.pid

    def check(self, what: str) -> Any:
        return self.tally.check(f"{self.job.name}: attach: {what}")

    def all(self) -> None:
        with self.check("record -s"):
            self.record()
        with self.check("dump -s"):
            self.dump()
        if self.job.is_native:
            with self.check("record --native --threads"):
                self.native()
        with self.check("inject -s"):
            self.inject()
        with self.check("mem record -s"):
            self.mem()

    def record(self) -> None:
        """Every working process is seen in its function."""
        missing = set(self.one.workers())
        path = self.folder / "record.json"
        deadline = time.monotonic() + PATIENCE_S
        options = ["--idle"] if self.job.is_native else []
        while missing:
            assert time.monotonic() < deadline, f"{self.job.hot} is not seen in {missing}"
            command = ("record", "-s", "-p", self.pid, "-o", path, "-d", "2", "--force", *options)
            done = gsprof(*command, status=None, timeout_s=PATIENCE_S)
            assert done.status in (0, 1), str(done)  # 1: no samples
            if done.status == 0:
                for sample in Profile.load(path).samples:
                    if any(name.split(".")[-1] == self.job.hot for name in sample.names):
                        missing.discard(sample.pid)

    def dump(self) -> None:
        missing = set(self.one.workers())
        deadline = time.monotonic() + PATIENCE_S
        while missing:
            assert time.monotonic() < deadline, f"{self.job.hot} is not in the dump of {missing}"
            done = gsprof("dump", "-s", "-p", self.pid, "--json", timeout_s=PATIENCE_S)
            threads = json.loads(done.out)
            lost = set(self.one.workers()) - {thread["pid"] for thread in threads}
            assert not lost, f"not in the dump: {lost}"
            for thread in threads:
                names = [frame["name"].split(".")[-1] for frame in thread["frames"]]
                if self.job.hot in names:
                    missing.discard(thread["pid"])
        text = gsprof("dump", "-s", "-p", self.pid, timeout_s=PATIENCE_S).out
        lost = {pid for pid in self.one.workers() if str(pid) not in text}
        assert not lost, f"not in the text: {lost}\n{text}"

    def native(self) -> None:
        """Samples include working threads without Python frames."""
        path = self.folder / "native.json"
        deadline = time.monotonic() + PATIENCE_S
        while True:
            command = ("record", "--native", "--threads", "-p", self.pid, "-o", path, "-d", "2")
            done = gsprof(*command, "--force", status=None, timeout_s=PATIENCE_S)
            assert done.status in (0, 1), str(done)
            if done.status == 0:
                profile = Profile.load(path)
                native = [s for s in profile.samples if all(f.kind != "python" for f in s.frames)]
                if native:
                    return
            assert time.monotonic() < deadline, f"only threads with Python frames\n{done}"

    def inject(self) -> None:
        options = ["-D", "torch=on"] if self.job.steps is not None else []
        gsprof("inject", "-s", self.pid, *options, "--timeout", "120s", timeout_s=PATIENCE_S)
        try:
            for pid in self.one.workers():
                self.query_until(pid, "gsprof.hot_functions()", f"func LIKE '%{self.job.hot}'")
            if self.job.steps is not None:
                for pid in self.one.pids(self.job.trains):
                    self.query_until(pid, "python.torch_step", "true")
        finally:
            gsprof("eject", "-s", self.pid, "--timeout", "120s", timeout_s=PATIENCE_S)
        self.one.wait_for_rounds(2)

    def query_until(self, pid: int, table: str, which: str) -> None:
        sql = f"SELECT count(*) AS n FROM {table} WHERE {which}"
        wait_for(
            lambda: query(pid, sql)[0]["n"] > 0,
            f"process {pid}: no row in {table} where {which}",
            PATIENCE_S,
            0.2,
        )

    def mem(self) -> None:
        path = self.folder / "mem.gspm"
        path.unlink(missing_ok=True)
        options = ("--exact", "--interval", "200ms", "--timeout", "120s")
        recorder = Running("mem", "record", "-s", "-p", self.pid, "-o", path, *options)
        try:
            wait_for(path.exists, "no recording file", PATIENCE_S)
            self.one.wait_for_rounds(ROUNDS)
            # The agent is injected into one process after another.
            with contextlib.suppress(AssertionError):
                wait_for(lambda: self.has_held(path), timeout_s=LATE_S, pause_s=0.5)
            recorder.signal(signal.SIGINT)
            done = recorder.finish(PATIENCE_S)
            assert done.status == 0, str(done)
        finally:
            recorder.kill()
        check_all_held(held_bytes(path, self.job), self.one.workers(), 2 * MIB)
        text = gsprof("mem", "report", path, timeout_s=PATIENCE_S).out
        assert f"({self.job.held}:{self.job.held_line})" in text, text
        own = [line for line in text.splitlines() if re.search(r"[(/](_torch|_agent)\.py:", line)]
        assert not own, f"lines of gsprof itself: {own}"
        self.one.wait_for_rounds(1)

    def has_held(self, path: Path) -> bool:
        found = held_bytes(path, self.job)
        return all(found.get(pid, 0) >= 2 * MIB for pid in self.one.workers())


def check_attach(tally: Tally, job: Job, python: str, folder: Path, alone: Ending) -> None:
    with started(job, python, folder / "attached", stay=True) as one:
        with tally.check(f"{job.name}: attach: the job works"):
            one.wait_until_at_work()
        if not one.workers():
            return
        AttachChecks(tally, one, folder).all()
        with tally.check(f"{job.name}: attach: same ending as alone"):
            ending = one.finish()
            assert ending == alone, f"== alone: {alone}\n== after it: {ending}"


# ---------------------------------------------------------------------------- further checks


def run_plain(argv: Sequence[str], folder: Path, **env: str) -> Tuple[int, str]:
    facts = folder / "facts"
    facts.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "REAL_FACTS": str(facts), "PYTHONDONTWRITEBYTECODE": "1", **env},
        cwd=folder,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    return done.returncode, done.stdout


def check_magic(tally: Tally, job: Job, python: str, folder: Path) -> None:
    """%%gsprof in a kernel reports the cell's function, not the threads of the kernel."""
    cells = ["%load_ext gsprof", "import notebook_work"]
    cells += ["%%gsprof\nnotebook_work.run(40)", "%%gsprof\nx = 1"]
    argv = [python, str(PROGRAMS / "notebook.py"), *cells]
    with tally.check(f"{job.name}: %%gsprof: runs"):
        status, text_output = run_plain(argv, folder / "more", PYTHONPATH=str(PACKAGE))
        assert status == 0, text_output
        shown_cells = json.loads(text_output.splitlines()[-1])
        long, short = (
            "\n".join(text for kind, text in cell if kind != "text/html")
            for cell in shown_cells[-2:]
        )
    with tally.check(f"{job.name}: %%gsprof: the cell's function leads"):
        shares = dict(re.findall(r"(\w+) \(\w+\.py[^)]*\) +([\d.]+) ?%", long))
        assert "clean_rows" in long, long
        assert re.search(r"threads +\d+ threads in 1 process, samples of 1\n", long), long
        for idle in ("select", "_watch_pipe_fd", "Condition.wait", "Thread."):
            assert idle not in long, (idle, shares, long)
    with tally.check(f"{job.name}: %%gsprof: a short cell gets the right warning"):
        assert "too short" in short and "\x1b" not in short, short


def check_plugin(tally: Tally, job: Job, python: str, folder: Path) -> None:
    """pytest --gsprof, with the package of the build on PYTHONPATH."""
    argv = [python, "-m", "pytest", "--gsprof", "-p", "no:cacheprovider"]
    argv.append(str(PROGRAMS / "suite_test.py"))
    with tally.check(f"{job.name}: --gsprof: the table names the function"):
        status, text_output = run_plain(argv, folder / "more", PYTHONPATH=str(PACKAGE))
        assert status == job.status, text_output
        assert "1 failed, 4 passed, 1 skipped" in text_output, text_output
        rows = [line for line in text_output.splitlines() if "test_slow" in line and "%" in line]
        assert rows and job.hot in rows[-1], text_output
        assert "(?)" not in text_output, text_output


MORE: Dict[str, Callable[[Tally, Job, str, Path], None]] = {
    "check_magic": check_magic,
    "check_plugin": check_plugin,
}


# ------------------------------------------------------------------------------------- all


def run_job(tally: Tally, job: Job, python: str, folder: Path, stages: Sequence[str]) -> None:
    if "run" in stages or "attach" in stages:
        with started(job, python, folder / "alone") as one:
            alone = one.finish()
            with tally.check(f"{job.name}: alone"):
                assert alone.status == job.status, one.text_output()
                assert len(one.workers()) == job.processes, one.rounds(job.role)
        if alone.status != job.status:
            return
        if "run" in stages:
            check_run(tally, job, python, folder, alone)
        if "attach" in stages and not job.shm_mb:
            check_attach(tally, job, python, folder, alone)
    if "more" in stages and job.more:
        MORE[job.more](tally, job, python, folder)


@contextlib.contextmanager
def own_runtime() -> Iterator[None]:
    """Uses a new folder for rings, separate from other processes."""
    place = tempfile.mkdtemp(prefix="gsprof-real-", dir="/dev/shm")
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = place
    try:
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1])
    parser.add_argument("--only", action="append", default=[], metavar="JOB")
    parser.add_argument("--stage", action="append", default=[], choices=STAGES)
    parser.add_argument("--venvs", type=Path, metavar="DIR")
    parser.add_argument("--python", metavar="PATH")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def main() -> int:
    options = parse()
    jobs = [job for job in JOBS if not options.only or job.name in options.only]
    if options.list:
        for job in jobs:
            print(f"{job.name:<16} {' '.join(job.packages)}")
        return 0
    # A shell starts background jobs with SIGINT ignored, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tally = Tally()
    environment = Environment(options.venvs, options.python)
    with own_runtime(), tempfile.TemporaryDirectory(prefix="gsprof-real-") as name:
        for job in jobs:
            why = reason_to_skip(job) or environment.reason_to_skip(job.packages)
            if why:
                tally.skip(job.name, why)
                continue
            folder = (options.keep or Path(name)) / job.name
            folder.mkdir(parents=True, exist_ok=True)
            try:
                run_job(tally, job, environment.python, folder, options.stage or STAGES)
            except Exception:
                tally.fail(job.name, traceback.format_exc())
    for failure in tally.failures:
        print(f"failed: {failure}")
    print(tally, flush=True)
    return 1 if tally.failures or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
