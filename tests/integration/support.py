# SPDX-License-Identifier: Apache-2.0
"""Shared code of the integration tests: the available interpreters, target programs that report
when they are ready, the profiler under test, and a reader of its JSON."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = HERE / "programs"
GSPROF = Path(os.environ.get("GSPROF_BIN", ROOT / "build" / "gsprof")).resolve()
# The rest of the same build: <build>/src/cli/gsprof is resolved above.
BUILD = GSPROF.parent.parent.parent
PACKAGE = BUILD / "python"
RING_WRITER = BUILD / "tests" / "tools" / "ring_writer"  # a program that writes rings

# Upper bound of every wait. Only a machine under heavy load comes near it.
PATIENCE_S = 60.0

# Exit statuses of the error table (src/base/err.h).
EXIT_EMPTY = 1
EXIT_USAGE = 64
EXIT_FORMAT = 65
EXIT_NOFILE = 66
EXIT_NOPROC = 69
EXIT_NOWRITE = 73
EXIT_PERM = 77
EXIT_NOEXEC = 127
EXIT_NOT_EXECUTABLE = 126

Json = Dict[str, Any]


# ---------------------------------------------------------------- interpreters


@dataclass(frozen=True)
class Python:
    """An interpreter to test against."""

    path: str
    version: Tuple[int, int, int]
    label: str

    def __str__(self) -> str:
        return self.label


def probe(path: str) -> Optional[Python]:
    """Returns an interpreter with its version; None if it does not run or is not supported."""
    script = (
        "import sys, sysconfig; print(*sys.version_info[:3], "
        "sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
    )
    try:
        answer = subprocess.run(
            [path, "-I", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=True,
        )
        major, minor, micro, free = (int(word) for word in answer.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    if not (3, 8) <= (major, minor) <= (3, 15):
        return None
    if ".pyenv" in path:
        origin = "pyenv"
    elif path.startswith("/usr/"):
        origin = "system"
    else:
        origin = "own"
    label = f"{major}.{minor}.{micro}{'t' if free else ''}-{origin}"
    return Python(path, (major, minor, micro), label)


def newer_pythons(*options: str) -> Tuple[List[str], str]:
    """Returns the interpreters that tools/get-pythons.sh provides, or why there are none."""
    tool = ROOT / "tools" / "get-pythons.sh"
    if os.environ.get("GSPROF_TEST_NO_DOWNLOAD"):
        return [], "GSPROF_TEST_NO_DOWNLOAD is set"
    try:
        done = subprocess.run(
            [str(tool), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=1800,
            check=False,
            text=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return [], f"tools/get-pythons.sh: {error}"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return [], f"tools/get-pythons.sh failed: {last}"
    return done.stdout.split(), ""


def find_pythons(*options: str) -> Tuple[List[Python], str]:
    """Returns every available interpreter, oldest first, and the reason if the newest ones are
    missing. The options are those of tools/get-pythons.sh."""
    paths = os.environ.get("GSPROF_TEST_PYTHONS", "").split()
    reason = ""
    if not paths:
        versions = Path.home() / ".pyenv" / "versions"
        paths = [str(path) for path in sorted(versions.glob("3.*/bin/python3"))]
        paths.append("/usr/bin/python3")
        newer, reason = newer_pythons(*options)
        paths += newer
    found: Dict[str, Python] = {}
    for path in paths:
        python = probe(path)
        if python:
            found.setdefault(python.label, python)
    return sorted(found.values(), key=lambda python: (python.version, python.label)), reason


# --------------------------------------------------------------------- targets


class Lines:
    """Reads lines from a pipe, each with a timeout."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.rest = b""
        self.ended = False

    def next(self, timeout_s: float = PATIENCE_S) -> Optional[str]:
        """Returns the next line without its newline; None at the end of the stream."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise TimeoutError(f"no line within {timeout_s} s, only {self.rest!r}")
            chunk = os.read(self.fd, 65536)
            if not chunk:
                self.ended = True
                if not self.rest:
                    return None
                line, self.rest = self.rest, b""
                return line.decode("utf-8", "replace")
            self.rest += chunk
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode("utf-8", "replace")

    def until(self, word: str, timeout_s: float = PATIENCE_S) -> List[str]:
        """Returns all lines up to and including the first that contains word."""
        seen: List[str] = []
        while True:
            line = self.next(timeout_s)
            if line is None:
                raise AssertionError(f"ended without {word!r}: {seen}")
            seen.append(line)
            if word in line:
                return seen


class Target:
    """A running program of programs/."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[Path] = None,
    ) -> None:
        whole = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=whole,
            cwd=cwd,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.lines = Lines(self.process.stdout.fileno())
        try:
            self.facts = self.read_facts()
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """As the program reports it: the child process may be a shell."""
        return int(self.facts.get("pid", self.process.pid))

    def read_facts(self) -> Json:
        """Reads the next line of JSON that the program prints."""
        line = self.lines.next()
        if line is None:
            raise AssertionError(f"the target printed nothing, status {self.process.wait()}")
        facts: Json = json.loads(line)
        return facts

    def go(self) -> Json:
        """Lets the program continue to its next station. Returns the facts that it prints there."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"x")
        self.process.stdin.flush()
        self.facts = self.read_facts()
        return self.facts

    def term(self) -> Json:
        """Sends SIGTERM. Returns the facts that the program prints before it exits."""
        os.kill(self.pid, signal.SIGTERM)
        return self.read_facts()

    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


def program(name: str) -> str:
    return str(PROGRAMS / name)


# ---------------------------------------------------------------- the profiler


@dataclass
class Result:
    """How a run of the profiler ended."""

    args: List[str]
    status: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"{' '.join(self.args)}\nstatus {self.status}\n{self.out}\n{self.err}"


def check_sane(result: Result, status: Optional[int] = None) -> Result:
    """Checks what holds for every run: no sanitizer report, and no death by a signal unless the
    recorded program dies by the same one."""
    assert result.status >= 0 or result.status == status, f"died by a signal\n{result}"
    assert "Sanitizer" not in result.err and "runtime error:" not in result.err, str(result)
    return result


def gsprof(
    *args: object,
    status: Optional[int] = 0,
    env: Optional[Mapping[str, str]] = None,
    before: Sequence[str] = (),
    timeout_s: float = PATIENCE_S,
    cwd: Optional[Path] = None,
    stdin: Optional[bytes] = None,
) -> Result:
    """Runs the profiler and waits for it. status None accepts every exit status, but no crash."""
    argv = [*before, str(GSPROF), *(str(arg) for arg in args)]
    done = subprocess.run(
        argv,
        input=stdin if stdin is not None else b"",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        timeout=timeout_s,
        cwd=cwd,
        check=False,
    )
    result = check_sane(
        Result(
            argv,
            done.returncode,
            done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
        ),
        status,
    )
    assert status is None or result.status == status, str(result)
    return result


class Running:
    """The profiler in the background, to be interrupted or killed."""

    def __init__(self, *args: object, env: Optional[Mapping[str, str]] = None) -> None:
        self.args = [str(GSPROF), *(str(arg) for arg in args)]
        self.process = subprocess.Popen(
            self.args,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        assert self.process.stderr is not None
        self.lines = Lines(self.process.stderr.fileno())

    def wait_until_recording(self) -> str:
        """Waits until it prints that it is recording. Returns all that it printed."""
        return "\n".join(self.lines.until("Recording"))

    def interim_profile(self) -> Optional["Profile"]:
        """Reads the interim file of a recording into .json; None if nothing is recorded yet."""
        self.signal(signal.SIGUSR1)
        line = self.lines.next() or ""
        if "no samples yet" in line:
            return None
        path = re.search(r"(\S+\.\d+\.json)", line)
        assert path, line
        return Profile.load(Path(path[1]))

    def wait_until_enough(self, enough: Callable[["Profile"], Any]) -> None:
        """Waits until enough() accepts the interim file of a recording into .json."""

        def is_enough() -> bool:
            profile = self.interim_profile()
            return profile is not None and bool(enough(profile))

        wait_for(is_enough, f"{' '.join(self.args)}: not enough samples")

    def wait_for_samples(self, count: int) -> None:
        """Waits until a recording into .json has at least count samples."""
        self.wait_until_enough(lambda profile: len(profile.samples) >= count)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def finish(self, timeout_s: float = PATIENCE_S) -> Result:
        out, err = self.process.communicate(timeout=timeout_s)
        text = self.lines.rest.decode("utf-8", "replace") + err.decode("utf-8", "replace")
        return Result(self.args, self.process.returncode, out.decode("utf-8", "replace"), text)

    def kill(self) -> None:
        """Kills it and all processes that it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()


# ------------------------------------------------------------------ recordings


@dataclass
class Frame:
    name: str
    file: str
    line: int
    first_line: int
    kind: str


GC_MARK = "(garbage collection)"


@dataclass
class Sample:
    pid: int
    thread_id: int
    thread_name: str
    timestamp: float
    on_cpu: bool
    gil: bool
    stack: List[str]
    frames: List[Frame]

    @property
    def leaf(self) -> Frame:
        return self.frames[-1]

    @property
    def names(self) -> List[str]:
        """Function names, without the mark of the garbage collector, which runs in any function."""
        return [frame.name for frame in self.frames if frame.name != GC_MARK]


@dataclass
class Profile:
    """A recording in .json."""

    raw: Json
    samples: List[Sample] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> "Profile":
        raw: Json = json.loads(path.read_text(encoding="utf-8"))
        frames = [
            Frame(
                row["name"] or "",
                row["file"] or "",
                row["line"] or 0,
                row["first_line"] or 0,
                row["kind"],
            )
            for row in raw["frames"]
        ]
        profile = cls(raw)
        for row in raw["samples"]:
            profile.samples.append(
                Sample(
                    row["pid"],
                    row["thread_id"],
                    row["thread_name"] or "",
                    row["timestamp"],
                    row["on_cpu"],
                    row["gil"],
                    row["stack"],
                    [frames[index] for index in row["frames"]],
                )
            )
        return profile

    @property
    def losses(self) -> Dict[str, int]:
        losses: Dict[str, int] = self.raw["losses"]
        return losses

    def add(self, other: "Profile") -> None:
        """Adds the samples and losses of a later recording of the same target."""
        self.samples += other.samples
        for name, count in other.losses.items():
            self.losses[name] = self.losses.get(name, 0) + count

    def names(self) -> List[str]:
        return sorted({name for sample in self.samples for name in sample.names})

    def shares(self, names: Sequence[str]) -> Tuple[Dict[str, float], int]:
        """Returns the share of each name among the samples whose leaf is one of names, and the
        number of these samples."""
        counts = dict.fromkeys(names, 0)
        for sample in self.samples:
            if sample.frames and sample.leaf.name in counts:
                counts[sample.leaf.name] += 1
        total = sum(counts.values())
        return {name: count / (total or 1) for name, count in counts.items()}, total


def record(
    pid: int, path: Path, *args: object, duration_s: float = 0.6, rate_hz: int = 500
) -> Profile:
    """Records a target into a .json file and reads it."""
    gsprof("record", "-p", pid, "-o", path, "-d", duration_s, "-r", rate_hz, "--force", *args)
    return Profile.load(path)


def record_until(
    enough: Callable[[Profile], Any],
    pid: int,
    path: Path,
    *args: object,
    duration_s: float = 0.6,
    rate_hz: int = 500,
) -> Profile:
    """Records a target repeatedly until enough() accepts the sum of all recordings. On a busy
    machine a recording has fewer samples, or none, and long runs of equal ones, which carry less
    information."""
    deadline = time.monotonic() + 10 * PATIENCE_S
    whole: Optional[Profile] = None
    command = ("record", "-p", pid, "-o", path, "-d", duration_s, "-r", rate_hz, "--force", *args)
    while whole is None or not enough(whole):
        assert time.monotonic() < deadline, f"not enough: {whole and len(whole.samples)} samples"
        done = gsprof(*command, status=None)
        if done.status == EXIT_EMPTY:
            continue
        assert done.status == 0, str(done)
        part = Profile.load(path)
        if whole:
            whole.add(part)
        whole = whole or part
    return whole


def record_longer(
    enough: Callable[[Path], Any],
    pid: int,
    path: Path,
    *args: object,
    duration_s: float = 0.5,
    rate_hz: int = 100,
) -> Result:
    """Records a target into a file of any format, each time twice as long, until enough() accepts
    the file. For formats whose recordings cannot be added up as in record_until()."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        command = ("record", "-p", pid, "-o", path, "-d", duration_s, "-r", rate_hz, "--force")
        done = gsprof(*command, *args, status=None, timeout_s=2 * PATIENCE_S)
        assert done.status in (0, EXIT_EMPTY), str(done)
        if done.status == 0 and enough(path):
            return done
        assert time.monotonic() < deadline, f"not enough in {duration_s} s: {done}"
        duration_s *= 2


def profile_of(path: Path) -> Profile:
    """Reads a recording of any format."""
    converted = path.with_name(path.name + ".converted.json")
    gsprof("convert", "-i", path, "-o", converted, "--force")
    return Profile.load(converted)


# ------------------------------------------------------------------ statistics

# The probability that a statistical check fails although the code is correct.
FALSE_ALARM = 5e-7


def binomial_tail(count: int, share: float, at_least: int) -> float:
    """Returns the probability of at_least or more successes in count draws, each with the
    probability share."""
    if at_least <= 0:
        return 1.0
    if share <= 0 or at_least > count:
        return 0.0
    total = 0.0
    for k in range(at_least, count + 1):
        log = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        term = math.exp(log + k * math.log(share) + (count - k) * math.log1p(-share))
        total += term
        # Beyond the mean, terms fall faster and faster.
        if k > count * share and term < total * 1e-12:
            break
    return min(total, 1.0)


def most_by_chance(count: int, share: float, rate: float = FALSE_ALARM) -> int:
    """Returns the smallest number above the mean that is exceeded with a probability of at most
    rate, exactly."""
    k = int(count * share)
    while k < count and binomial_tail(count, share, k + 1) > rate:
        k += 1
    return k


def check_rare(bad: Sequence[object], count: int, share: float) -> None:
    """Checks that on average at most share of count independent observations is bad. Probability
    of a false alarm: FALSE_ALARM, by the exact binomial tail."""
    assert count > 0
    allowed = most_by_chance(count, share)
    assert len(bad) <= allowed, (len(bad), allowed, count, list(bad)[:5])


def observations(samples: Iterable[Sample]) -> List[Sample]:
    """Returns the independent samples. A thread that waits for a CPU does not move: a sample that
    equals the previous one of its thread is not new information."""
    last: Dict[int, object] = {}
    kept = []
    for sample in samples:
        seen = (sample.frames, sample.on_cpu, sample.gil)
        if last.get(sample.thread_id) != seen:
            kept.append(sample)
        last[sample.thread_id] = seen
    return kept


def apart(samples: Iterable[Sample], apart_s: float) -> List[Sample]:
    """Returns independent samples of a property that lasts less than apart_s: no two samples of
    a thread within that time."""
    last: Dict[int, float] = {}
    kept = []
    for sample in samples:
        if sample.timestamp - last.get(sample.thread_id, -math.inf) >= apart_s:
            kept.append(sample)
            last[sample.thread_id] = sample.timestamp
    return kept


def moments(samples: Iterable[Sample]) -> List[Sample]:
    """Returns independent samples of threads whose calls take microseconds. Three or more equal
    samples in a row mean that the thread waits for a CPU; they count as one. Two can be chance."""
    kept: List[Sample] = []
    for _, run in itertools.groupby(samples, lambda s: (s.thread_id, s.frames)):
        same = list(run)
        kept += same if len(same) < 3 else same[:1]
    return kept


def has_any(profile: Profile) -> bool:
    """For record_until(): at least one sample."""
    return bool(profile.samples)


def has_samples(count: int) -> Callable[[Profile], bool]:
    """For record_until(): at least count independent samples."""
    return lambda profile: len(observations(profile.samples)) >= count


def has_weight(count: int) -> Callable[[Profile], bool]:
    """For record_until(): an effective sample size of at least count."""
    return lambda profile: weight_of(profile.samples) >= count


def weight_of(samples: Sequence[Sample]) -> float:
    """Returns Kish's effective sample size, from the lengths of the runs of equal samples: the
    number of independent samples that would give a mean of the same precision."""
    runs = [
        len(list(run)) for _, run in itertools.groupby(samples, lambda s: (s.thread_id, s.frames))
    ]
    return sum(runs) ** 2 / sum(n * n for n in runs) if runs else 0


def check_shares(profile: Profile, truth: Mapping[str, float], slack: float = 0.02) -> None:
    """Checks each share of time, as precisely as the number of samples allows. slack covers the
    time of the calls themselves. Probability of a false alarm: at most FALSE_ALARM for all shares
    together."""
    found, _ = profile.shares(list(truth))
    seen = observations(profile.samples)
    check_rare([s for s in seen if s.leaf.name not in truth], len(seen), 0.05)
    count = int(weight_of(profile.samples))
    rate = FALSE_ALARM / (2 * len(truth))
    for name, share in truth.items():
        high = most_by_chance(count, share, rate) / count + slack
        low = 1 - most_by_chance(count, 1 - share, rate) / count - slack
        assert low <= found[name] <= high, (name, share, low, high, found, count)


def check_distribution(profile: Profile, truth: Mapping[str, float], slack: float) -> None:
    """Checks the shares of time as a whole: their total variation distance from the truth.
    Probability of a false alarm: FALSE_ALARM, because one of n samples changes the distance by at
    most 1 / n (McDiarmid)."""
    found, _ = profile.shares(list(truth))
    count = weight_of(profile.samples)
    distance = sum(abs(found[name] - truth[name]) for name in truth) / 2
    mean = sum(math.sqrt(share * (1 - share) / count) for share in truth.values()) / 2
    bound = mean + math.sqrt(-math.log(FALSE_ALARM) / (2 * count)) + slack
    assert distance <= bound, (distance, bound, count, found)


def wait_for(
    condition: Callable[[], Any],
    what: str = "",
    timeout_s: float = PATIENCE_S,
    pause_s: float = 0.005,
) -> Any:
    """Returns the first true value of condition(). The only place where tests sleep."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, what or f"{condition} is not true in {timeout_s} s"
        time.sleep(pause_s)


def illegal_pairs(profile: Profile, pairs: Sequence[Sequence[str]]) -> List[Tuple[str, str]]:
    """Returns a call (caller, callee) that the program never makes for each torn stack."""
    legal = {(caller, callee) for caller, callee in pairs}
    found = []
    for sample in profile.samples:
        caller = ""
        for name in sample.names:
            if (caller, name) == ("<module>", "ready"):
                break  # on a busy machine ready() may not have returned yet
            if (caller, name) not in legal:
                found.append((caller, name))
                break
            caller = name
    return found


def state_of(pid: int) -> str:
    """Returns the kernel's letter for the state of a process."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rsplit(")", 1)[1].split()[0]


def wait_until_sleeping(pid: int) -> None:
    """Waits until a process sleeps: a program reports that it is ready just before."""
    wait_for(lambda: state_of(pid) == "S", f"process {pid} does not sleep")


def switches_at_rest(pid: int) -> Dict[str, int]:
    """Returns the number of context switches of each sleeping thread."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text(encoding="utf-8", errors="replace")
        if "\nState:\tS" in status:
            found[task.name] = sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", status)))
    return found


def wait_until_at_rest(pid: int, count: int) -> None:
    """Waits until count threads sleep, and not for the GIL: that wait ends every 5 ms."""

    last: Dict[str, int] = {}
    since = time.monotonic()

    def are_at_rest() -> bool:
        nonlocal last, since
        now = switches_at_rest(pid)
        if now != last:
            last, since = now, time.monotonic()
        return len(now) == count and time.monotonic() - since > 0.1

    wait_for(are_at_rest, f"process {pid} does not have {count} sleeping threads")


def walk(facts: Json) -> Iterator[Json]:
    """Returns the frames that a station reports, outermost first."""
    stack: List[Json] = facts["stack"]
    return reversed(stack)


def is_root() -> bool:
    return os.geteuid() == 0


def main_python() -> str:
    """Returns an interpreter that every user can run."""
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
