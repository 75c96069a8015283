# SPDX-License-Identifier: Apache-2.0
"""Fault injection: the call sites of a build with -Dfault_injection=true (tests/tools/fault.c), and
commands that reach them.

A site is a call of the C library in our code. A call in src/base/ (or in a library that is linked
statically) counts once for each caller outside of it. The first run of a command lists the sites
that it reaches. Then it runs once per site, and the first call from there fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Set, Tuple

from served import Served
from support import GSPROF, RING_WRITER, ROOT, Target, gsprof, main_python

FAULT_BUILD = ROOT / "build-asan"  # gsprof with ASan and UBSan
AGENT_BUILD = ROOT / "build-fault-agent"  # the agent and the Python extension
PROGRAM = FAULT_BUILD / "src" / "cli" / "gsprof"
PACKAGE = AGENT_BUILD / "python"
MODULES = {
    "gsprof": PROGRAM,
    "agent": PACKAGE / "gsprof" / "libgsprof_agent.so",
    "extension": PACKAGE / "gsprof" / "_gsprof.abi3.so",
}

# A command takes less than a second; under load, ASan and a debugger make it slower.
PATIENCE_S = 60.0
MANIFEST = "manifest.json"  # of a run
# A failure of these leaves a file behind, and there is no way to remove it.
REMOVERS = ("unlink", "unlinkat", "rmdir")
# The agent counts these calls of the program and passes them on: if one fails, so does the program.
PASSED_ON = re.compile(r"py_(malloc|calloc|realloc)")
# What the agent calls inside of these folders belongs to the caller.
HELPERS = ("/src/base/", "/yyjson", "/libiberty")


@dataclass(frozen=True)
class Site:
    """A call of a C library function."""

    module: str
    function: str
    chain: Tuple[str, ...]  # return addresses, innermost first
    place: str  # for people

    @property
    def key(self) -> str:
        return f"{self.module}:{self.function} {','.join(self.chain)}"


class Symbols:
    """Source lines of addresses."""

    def __init__(self) -> None:
        self.known: Dict[Tuple[str, str], str] = {}

    def learn(self, module: str, addresses: Set[str]) -> None:
        new = sorted(a for a in addresses if (module, a) not in self.known)
        if not new:
            return
        # A return address is behind the call.
        asked = "".join(f"{int(address, 16) - 1:#x}\n" for address in new)
        argv = ["addr2line", "-f", "-e", str(MODULES[module])]
        done = subprocess.run(argv, input=asked, stdout=subprocess.PIPE, text=True, check=True)
        answer = done.stdout.splitlines()
        for number, address in enumerate(new):
            function, line = answer[2 * number], answer[2 * number + 1].split(" ")[0]
            self.known[module, address] = f"{function} {line}"

    def sites(self, log: Path) -> List[Site]:
        """Returns the sites of a log, each once."""
        rows = []
        wanted: Dict[str, Set[str]] = {}
        for line in log.read_text().splitlines() if log.exists() else []:
            name, _, addresses = line.partition(" ")
            module, function = name.split(":")
            chain = addresses.split(",")
            rows.append((module, function, chain))
            wanted.setdefault(module, set()).update(chain)
        for module, needed in wanted.items():
            self.learn(module, needed)
        found: Dict[str, Site] = {}
        for module, function, chain in rows:
            depth, place = self.own_part(module, chain)
            site = Site(module, function, tuple(chain[:depth]), place)
            if module == "agent" and PASSED_ON.match(place):
                continue
            found.setdefault(site.key, site)
        return list(found.values())

    def own_part(self, module: str, chain: Sequence[str]) -> Tuple[int, str]:
        """Returns the number of addresses up to the first outside of the helpers."""
        names = []
        for depth, address in enumerate(chain, 1):
            name = self.known[module, address]
            function, _, line = name.partition(" ")
            short = re.sub(r".*/(src|tests|subprojects)/", "", line)
            names.append(f"{function} ({short})")
            if not any(helper in line for helper in HELPERS):
                return depth, " < ".join(names)
        return len(chain), " < ".join(names)


def count_call_sites(path: Path) -> int:
    """Returns the number of calls of wrapped functions in a file."""
    done = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    calls = re.compile(r"\b(?:call|jmp|bl|b)\s.*<__wrap_\w+>$", re.MULTILINE)
    return len(calls.findall(done.stdout))


# ---------------------------------------------------------------------------------- material


class Material:
    """What the commands read: processes, profiles, runs, sessions."""

    def __init__(self, folder: Path, is_small: bool = False) -> None:
        self.folder = folder
        self.runtime = folder / "runtime"
        self.runtime.mkdir(mode=0o700, parents=True)
        env = {"XDG_RUNTIME_DIR": str(self.runtime), "XDG_STATE_HOME": str(folder / "state")}
        self.env = env
        self.targets: List[Target] = []
        try:
            self.make(env)
            if not is_small:
                self.make_more(env)
        except BaseException:
            self.end()
            raise

    def make(self, env: Dict[str, str]) -> None:
        (self.folder / "steady.py").write_text(STEADY)
        self.target = Target([main_python(), str(self.folder / "steady.py")], env=env)
        self.targets.append(self.target)
        self.writer = Target([str(RING_WRITER), "--threads", "2"], env=env)
        self.targets.append(self.writer)
        dead = Target([str(RING_WRITER)], env=env)
        dead.end()
        self.values = {
            "pid": str(self.target.pid),
            "writer": str(self.writer.pid),
            "python": main_python(),
            "tiny": str(self.folder / "tiny.py"),
        }
        (self.folder / "tiny.py").write_text(TINY)
        pid = self.target.pid
        for name in ("a.gsp", "b.gsp"):
            how = ("-p", pid, "-d", "0.5", "-r", "200", "-t", "-i")
            gsprof("-q", "record", *how, "-o", self.folder / name, env=env)
        for name in ("a.json", "a.folded", "a.pb.gz", "a.prof"):
            gsprof("-q", "convert", "-i", self.folder / "a.gsp", "-o", self.folder / name)
        for name in ("a.gsp", "b.gsp", "a.json", "a.folded", "a.pb.gz", "a.prof"):
            self.values[name.replace(".", "_")] = str(self.folder / name)

    def make_more(self, env: Dict[str, str]) -> None:
        """Creates a run, a memory recording and a session."""
        run = ("-q", "run", "-o", self.folder / "run", "--", main_python(), self.values["tiny"])
        gsprof(*run, env=env, status=3)
        self.values["run"] = str(self.folder / "run")
        memory = self.folder / "a.gspm"
        recorded = ("-q", "mem", "record", "-o", memory, "--", main_python(), self.values["tiny"])
        gsprof(*recorded, env=env, status=3)
        self.values["a_gspm"] = str(memory)
        self.values["session"] = str(self.make_session(env))

    def make_session(self, env: Dict[str, str]) -> Path:
        daemon = Served([str(GSPROF)], self.folder / "made", env)
        try:
            daemon.ask("POST", "/profiling/start", {"name": "made"})
            daemon.frames(10)
            daemon.ask("POST", "/profiling/stop", {"name": "made"})
        finally:
            daemon.end()
        return self.folder / "made" / "out" / "made.json"

    def end(self) -> None:
        for target in self.targets:
            target.end()


# A program that works some of the time.
STEADY = """
import json, os, threading, time
def work():
    return sum(i * i for i in range(10000))
def wait():
    threading.Event().wait()
threading.Thread(target=wait, daemon=True).start()
print(json.dumps({"ready": True, "pid": os.getpid()}), flush=True)
while True:
    work()
    time.sleep(0.01)
"""

# A program with an end, some work and some memory.
TINY = """
import threading
def work(n):
    return sum(i * i for i in range(n))
def other():
    kept.append([bytearray(1000) for _ in range(100)])
    work(20000)
kept = []
for _ in range(5):
    work(20000)
    thread = threading.Thread(target=other, name="other")
    thread.start()
    thread.join()
print("sum", work(1000), len(kept))
raise SystemExit(3)
"""


# ---------------------------------------------------------------------------------- workloads


@dataclass
class Outcome:
    """How a run of a command ended."""

    status: int = 0
    out: str = ""
    err: str = ""
    problems: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """A command. {name} is a value of Material or the folder for output."""

    name: str
    argv: str
    outputs: Tuple[str, ...] = ()  # files that exist if it succeeds
    is_stable: bool = False  # the output is the same each time
    statuses: Tuple[int, ...] = (0,)  # of success
    serves: bool = False
    is_inside: bool = False  # the agent in a program

    @property
    def is_alone(self) -> bool:
        """Whether only one such command runs at a time: a process has one tracer, and one server
        has the sessions of all."""
        return self.serves or "{pid}" in self.argv


def formats() -> List[Work]:
    kinds = ("gsp", "json", "speedscope.json", "folded", "svg", "prof", "pb.gz", "trace.json")
    return [
        Work(f"convert to {kind}", "convert -i {a_gsp} -o {out}/c." + kind, (f"c.{kind}",), True)
        for kind in kinds
    ]


WORKS: List[Work] = [
    Work("version", "--version", (), True),
    Work("help", "help", (), True),
    Work("doctor", "doctor"),
    Work("doctor json", "doctor --json"),
    Work("list", "list"),
    Work("list json", "list --json"),
    Work("tables", "tables {writer}"),
    Work("tables columns", "tables {writer} --columns --json"),
    Work("query rings", "query {writer} SELECT_count(*)_FROM_python.torch_trace", (), True),
    Work(
        "query to parquet",
        "query {writer} SELECT_*_FROM_python.torch_step -o {out}/q.parquet",
        ("q.parquet",),
    ),
    Work("query csv", "query {a_gsp} SELECT_*_FROM_python.stack_sample --format csv"),
    Work("query run", "query {run} SHOW_TABLES", (), True),
    Work("query pid", "query {pid} SELECT_*_FROM_python.backtrace"),
    Work("dump", "dump -p {pid}"),
    Work("dump json native", "dump -p {pid} --native --locals --json"),
    Work("dump blocking", "dump -p {pid} --blocking"),
    Work("backtrace", "backtrace {pid} --locals"),
    Work("top once", "top -p {pid} --once"),
    Work("top json", "top -p {pid} -n 2 --json -d 0.2"),
    Work("top replay", "top --input {a_gsp} --once", (), True),
    Work("record gsp", "record -p {pid} -i -d 0.2 -r 100 -o {out}/r.gsp", ("r.gsp",)),
    Work("record json", "record -p {pid} -d 0.2 -r 100 -t -i -o {out}/r.json", ("r.json",)),
    Work("record svg", "record -p {pid} -i -d 0.2 -r 100 -o {out}/r.svg", ("r.svg",)),
    Work("record native", "record -p {pid} -d 0.2 -r 50 --native -i -o {out}/r.gsp", ("r.gsp",)),
    Work(
        "record blocking", "record -p {pid} -d 0.2 -r 50 --blocking -i -o {out}/r.gsp", ("r.gsp",)
    ),
    Work("record children", "record -p {pid} -d 0.2 -i -s -o {out}/r.speedscope.json"),
    Work("record run", "record -p {pid} -i -d 0.2 -o {out}/folder/", ("folder",)),
    Work(
        "record command",
        "record -r 100 -o {out}/r.pb.gz -- {python} {tiny}",
        ("r.pb.gz",),
        statuses=(0, 3),
    ),
    *formats(),
    Work("convert json", "convert -i {a_json} -o {out}/c.gsp", ("c.gsp",), True),
    Work("convert folded", "convert -i {a_folded} -o {out}/c.json", ("c.json",), True),
    Work("convert pprof", "convert -i {a_pb_gz} -o {out}/c.json", ("c.json",), True),
    Work("convert pstats", "convert -i {a_prof} -o {out}/c.json", ("c.json",), True),
    Work("flamegraph", "flamegraph -i {a_gsp} -o {out}/f.svg -t", ("f.svg",), True),
    Work("report", "report {a_gsp}", (), True),
    Work("report tree", "report {a_json} --tree", (), True),
    Work("report json", "report {a_gsp} --json", (), True),
    Work("report csv", "report {a_gsp} --csv", (), True),
    Work("report run", "report {run}", ()),
    Work("report html", "report {run} -o {out}/r.html", ("r.html",)),
    Work("report session", "report {session} -o {out}/s.html", ("s.html",)),
    Work("compare profiles", "compare {a_gsp} {b_gsp} -o {out}/c.html", ("c.html",)),
    Work("compare runs", "compare {run} {run} -f json"),
    Work("stat", "stat {session}", (), True),
    Work("stat plot", "stat {session} --plot {out}/p.html", ("p.html",), True),
    Work("stat png", "stat {session} --plot {out}/p.png", ("p.png",), True),
    Work("mem report", "mem report {a_gspm}", (), True),
    Work("mem leaks", "mem report --leaks {a_gspm} -f json", (), True),
    Work("mem svg", "mem report {a_gspm} -o {out}/m.svg", ("m.svg",), True),
    Work("mem timeline", "mem report --timeline {a_gspm} -f csv", (), True),
    Work(
        "mem record",
        "mem record -o {out}/m.gspm -- {python} {tiny}",
        ("m.gspm",),
        statuses=(0, 3),
    ),
    Work("inject", "inject {pid}"),
    Work("config pid", "config {pid}"),
    Work("config set", "config {pid} sample_rate=5"),
    Work("eval", "eval {pid} 1+1 --yes"),
    Work("eject", "eject {pid}"),
    Work("run", "run -o {out}/run -- {python} {tiny}", ("run",), statuses=(3,)),
    Work("http-status", "http-status unix:{socket}", serves=True),
    Work("http-sessions", "http-sessions unix:{socket}", serves=True),
    Work("http-profile", "http-profile unix:{socket} --name {fresh}", serves=True),
    Work("http-config", "config unix:{socket}", serves=True),
    Work("http-query", "query unix:{socket} SELECT_1_AS_x", serves=True),
    Work("http-stop", "http-stop unix:{socket}", serves=True),
    Work("serve start", "serve"),
    Work("serve sessions", "serve"),
    Work("serve query", "serve"),
    Work("agent", "run -o {out}/run -- {python} {tiny}", (), statuses=(3,), is_inside=True),
]

# Requests for each route of the daemon, in this order. Any clear answer is accepted. "serve start"
# makes only the last one, and only "serve query" runs queries: a site fails in the first command
# that reaches it.
REQUESTS: List[Tuple[str, str, object]] = [
    ("GET", "/", None),
    ("GET", "/health", None),
    ("GET", "/ready", None),
    ("GET", "/status", None),
    ("GET", "/openapi.json", None),
    ("GET", "/clients", None),
    ("GET", "/config", None),
    ("POST", "/login/code", {}),
    ("POST", "/login", {"code": "0000-0000-0000-0000"}),
    ("PUT", "/config", {"query_timeout": 30}),
    ("POST", "/profiling/start", {"name": "one", "labels": {"phase": "1"}}),
    ("POST", "/profiling/start", {"name": "two", "pids": ["{pid}"], "stacks": True}),
    ("GET", "/metrics/latest", None),
    ("GET", "/metrics", None),
    ("POST", "/query", {"sql": "SELECT name FROM session.list"}),
    ("POST", "/query", {"sql": "SELECT count(*) FROM memory.system.memory", "format": "csv"}),
    ("POST", "/query", {"sql": "SELECT broken", "format": "arrow"}),
    ("POST", "/targets/{pid}/attach", {}),
    ("GET", "/targets", None),
    ("POST", "/targets/{pid}/dump", {}),
    ("POST", "/targets/{pid}/record", {"duration": 0.1, "name": "short"}),
    ("POST", "/targets/{pid}/detach", {}),
    ("GET", "/profiling/sessions", None),
    ("GET", "/profiling/sessions/one", None),
    ("POST", "/profiling/stop", {"name": "two"}),
    ("POST", "/profiling/stop", {"name": "one"}),
    ("GET", "/profiling/sessions/one/download", None),
    ("GET", "/flamegraph?session=two", None),
    ("DELETE", "/profiling/sessions/one", None),
    ("GET", "/health", None),
]


def requests_of(work: Work) -> List[Tuple[str, str, object]]:
    if work.name == "serve start":
        return REQUESTS[-1:]
    is_query = work.name == "serve query"
    return [one for one in REQUESTS if is_query or one[1] != "/query"]


class Bench:
    """Runs the commands, whole or with a fault."""

    def __init__(self, folder: Path, is_small: bool = False) -> None:
        self.folder = folder
        self.material = Material(folder / "material", is_small)
        self.symbols = Symbols()
        self.number = 0
        self.lock = threading.Lock()
        self.server: Optional[Served] = None
        self.baselines: Dict[str, Outcome] = {}
        self.files: Dict[str, Set[str]] = {}
        self.contents: Dict[str, Dict[str, bytes]] = {}

    def end(self) -> None:
        if self.server:
            self.server.end()
        self.material.end()

    def socket(self) -> str:
        if self.server is None:
            self.server = Served([str(GSPROF)], self.folder / "server", self.material.env)
        return str(self.server.socket)

    def environment(self, folder: Path, work: Work, site: Optional[Site]) -> Dict[str, str]:
        options = f"log_path={folder}/sanitizer:exitcode=99"
        env = {
            **self.material.env,
            "TMPDIR": str(folder / "tmp"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:" + options,
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:" + options,
            "GSPROF_PYTHON_DIR": str(PACKAGE),
            "GSPROF_PROGRAM": str(GSPROF if work.is_inside else PROGRAM),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GSPROF_FAULT_DONE": str(folder / "done"),
        }
        if work.argv == "serve" or work.name in ("run", "mem record", "agent", "record command"):
            # Rings of its own, so that leftover files can be found.
            (folder / "runtime").mkdir(mode=0o700)
            env["XDG_RUNTIME_DIR"] = str(folder / "runtime")
        if site:
            env["GSPROF_FAULT_SITE"] = site.key
        else:
            env["GSPROF_FAULT_LOG"] = str(folder / "log")
        return env

    def argv(self, work: Work, folder: Path) -> List[str]:
        values = dict(self.material.values, out=str(folder / "out"), fresh=folder.name)
        if work.serves:
            values["socket"] = self.socket()
        words = [word.replace("_FROM_", " FROM ") for word in work.argv.split(" ")]
        words = [re.sub(r"^(SELECT|SHOW)_", r"\1 ", word).replace("_AS_", " AS ") for word in words]
        return [word.format(**values) for word in words]

    def fresh(self) -> Path:
        with self.lock:
            self.number += 1
            folder = self.folder / f"t{self.number}"
        for name in ("out", "tmp", "config"):
            (folder / name).mkdir(parents=True)
        return folder

    def execute(self, work: Work, site: Optional[Site]) -> Tuple[Outcome, Path]:
        folder = self.fresh()
        env = self.environment(folder, work, site)
        if work.argv == "serve":
            return self.serve(work, folder, env), folder
        command = str(GSPROF if work.is_inside else PROGRAM)
        outcome = Outcome()
        process = subprocess.Popen(
            [command, *self.argv(work, folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
            cwd=folder / "out",
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            outcome.problems.append("hangs")
            os.killpg(process.pid, signal.SIGABRT)
            out, err = process.communicate()
        outcome.status = process.returncode
        outcome.out = out.decode("utf-8", "replace")
        outcome.err = err.decode("utf-8", "replace")
        return outcome, folder

    def serve(self, work: Work, folder: Path, env: Dict[str, str]) -> Outcome:
        outcome = Outcome()
        env = {**env, "XDG_STATE_HOME": str(folder / "state")}
        try:
            daemon = Served([str(PROGRAM)], folder, env, ["--allow-control"])
        except TimeoutError:
            return Outcome(1, "", "", ["the daemon hangs at its start"])
        try:
            pid = self.material.values["pid"]
            statuses = []
            started = not daemon.lines.ended and daemon.process.poll() is None
            for method, path, body in requests_of(work) if started else []:
                given = json.loads(json.dumps(body).replace('"{pid}"', pid))
                status, answer = daemon.ask(method, path.replace("{pid}", pid), given)
                statuses.append(status)
                if status == 0 and daemon.process.poll() is not None:
                    break
                if status >= 400 and not (answer or {}).get("error", {}).get("message"):
                    outcome.problems.append(f"{method} {path}: {status} without a message")
            # A request whose own call fails gets an error, or no answer without memory.
            if statuses and statuses[-1] != 200:
                statuses.append(daemon.ask(*REQUESTS[-1])[0])
            if statuses and statuses[-1] != 200:
                outcome.problems.append(f"the daemon does not answer any more: {statuses}")
            if statuses.count(0) > 1:
                outcome.problems.append(f"more than one request was not answered: {statuses}")
            outcome.status = daemon.stop()
            if started and outcome.status not in (0,):
                outcome.problems.append(f"the daemon ended with status {outcome.status}")
        except subprocess.TimeoutExpired:
            outcome.problems.append("the daemon does not end")
        finally:
            daemon.end()
        outcome.err = "\n".join(daemon.said)
        return outcome

    # ---------------------------------------------------------------------------- checks

    def left(self, folder: Path) -> Set[str]:
        """Returns the names of all files, without numbers. A segment that its manifest lists is a
        part of a run: at the end they are merged, but not if the run is incomplete."""
        found = set()
        for path in folder.rglob("*"):
            name = str(path.relative_to(folder))
            if path.is_dir() or name.startswith(("sanitizer", "log", "done")):
                continue
            if is_listed_segment(path):
                continue
            name = re.sub(r"profiling_[\w]*", "profiling_#", name)
            found.add(re.sub(r"\d+", "#", name))
        return found

    def baseline(self, work: Work) -> List[Site]:
        """Runs a command without a fault. Returns the sites that it reaches."""
        outcome, folder = self.execute(work, None)
        problems = self.common(work, outcome, folder)
        if outcome.status not in work.statuses:
            problems.append(f"status {outcome.status} without a fault: {outcome.err[-300:]}")
        if problems:
            raise AssertionError(f"{work.name}: {problems}")
        self.baselines[work.name] = outcome
        self.files[work.name] = self.left(folder)
        if work.is_stable:
            self.contents[work.name] = {
                name: (folder / "out" / name).read_bytes() for name in work.outputs
            }
        sites = self.symbols.sites(folder / "log")
        shutil.rmtree(folder, ignore_errors=True)
        return sites

    def common(self, work: Work, outcome: Outcome, folder: Path) -> List[str]:
        """Returns what is wrong with any run."""
        problems = list(outcome.problems)
        if outcome.status < 0 or outcome.status > 128:
            problems.append(f"died by a signal (status {outcome.status})")
        for report in sorted(folder.glob("sanitizer*")):
            problems.append("sanitizer: " + summary(report.read_text(errors="replace")))
        if not self.material.target.alive() or not self.material.writer.alive():
            problems.append("a target died")
        return problems

    def attempt(self, work: Work, site: Site) -> Tuple[bool, List[str]]:
        """Runs a command with a fault. Returns whether the site was reached, and the problems."""
        outcome, folder = self.execute(work, site)
        reached = (folder / "done").exists()
        problems = self.common(work, outcome, folder)
        good = outcome.status in work.statuses
        says = bool(outcome.err.strip()) or work.name.startswith("doctor")  # prints what fails
        base = self.baselines[work.name]
        if work.is_inside and (outcome.status != base.status or outcome.out != base.out):
            problems.append(f"the program behaves differently: {outcome.status} {outcome.out!r}")
        if not good and not says and work.argv != "serve":
            problems.append(f"status {outcome.status} without a message")
        if good:
            problems += self.compare(work, outcome, folder, says)
        extra = self.left(folder) - self.files[work.name]
        # A recording that could not be converted is kept, and the message names it.
        extra = {name for name in extra if Path(name).name not in outcome.err}
        extra = {name for name in extra if not is_allowed(name)}
        if extra and site.function not in REMOVERS:
            problems.append(f"leftover files: {sorted(extra)[:4]}")
        if problems:
            problems.append(f"stderr: {outcome.err.strip()[-400:]}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        return reached, problems

    def compare(self, work: Work, outcome: Outcome, folder: Path, says: bool) -> List[str]:
        """Returns what is wrong with the result of a run that claims success."""
        problems = []
        for name in work.outputs:
            path = folder / "out" / name
            if not path.exists():
                # The status of a program that gsprof started comes before that of the output.
                if "gsprof: " not in outcome.err:
                    problems.append(f"success without {name}")
            elif work.is_stable and path.read_bytes() != self.contents[work.name][name]:
                if not says:
                    problems.append(f"success, but {name} differs, without a message")
        base = self.baselines[work.name]
        if work.is_stable and outcome.out != base.out and outcome.err == base.err:
            problems.append(f"success, but the output differs: {difference(base.out, outcome.out)}")
        return problems


def is_listed_segment(path: Path) -> bool:
    """Returns whether a file has rows of the run whose folder it is in."""
    manifest = path.parent / MANIFEST
    return path.suffix == ".parquet" and manifest.exists() and path.name in segments(manifest)


def segments(manifest: Path) -> List[str]:
    """Returns the names of the files of a run."""
    listed = json.loads(manifest.read_text(encoding="utf-8"))["segments"]
    return [str(segment["file"]) for segment in listed]


def is_allowed(name: str) -> bool:
    """Returns whether a file may appear only in some runs. A sample can be lost in any of them."""
    return name.startswith(("runtime/", "state/")) or name.endswith(
        (".log", "/gsprof.loss.parquet")
    )


def difference(old: str, new: str) -> str:
    for before, after in zip(old.splitlines() + [""], new.splitlines() + [""]):
        if before != after:
            return f"{before!r} became {after!r}"
    return f"{len(old)} bytes became {len(new)}"


def summary(text: str) -> str:
    """Returns the lines of a sanitizer report that name the place."""
    lines = text.splitlines()
    first = [line for line in lines if "ERROR" in line or "runtime error" in line][:1]
    ours = [re.sub(r"^\s*#\d+ \w+ in ", "", line) for line in lines if "/src/" in line][:4]
    return " | ".join(first + [re.sub(r" \S*/src/", " src/", line) for line in ours])
