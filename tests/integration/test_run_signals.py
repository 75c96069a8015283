# SPDX-License-Identifier: Apache-2.0
"""gsprof run: the program starts, stops and receives signals as it would without gsprof."""

from __future__ import annotations

import ctypes
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Tuple

import pytest
from conftest import NEEDS_EXTENSION, own_mounts
from support import GSPROF, PATIENCE_S, Lines, gsprof, main_python, wait_for


pytestmark = NEEDS_EXTENSION

# Prints each signal that it receives, even two at once, and exits after the last of its list.
REPORTER = """
import os, signal, sys
reader, writer = os.pipe()
os.set_blocking(writer, False)
numbers = [int(word) for word in sys.argv[1:]]
for number in numbers:
    signal.signal(number, lambda *_: None)
signal.set_wakeup_fd(writer)
print("ready", os.getpid(), flush=True)
while True:
    for number in os.read(reader, 4096):
        print(number, flush=True)
        if number == numbers[-1]:
            sys.exit(3)
"""

STOPPER = """
import os, signal, sys
print("ready", os.getpid(), flush=True)
os.kill(os.getpid(), int(sys.argv[1]))
print("after", flush=True)
sys.exit(3)
"""


class Job:
    """A program in its own process group, as a shell starts it, with or without gsprof."""

    def __init__(
        self, before: Tuple[str, ...], code: str, *args: object, env: Dict[str, str], cwd: Path
    ) -> None:
        self.process = subprocess.Popen(
            [*before, main_python(), "-c", code, *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
            cwd=cwd,
            preexec_fn=os.setpgrp,
        )
        assert self.process.stdout is not None
        self.lines = Lines(self.process.stdout.fileno())
        self.program = int(self.lines.until("ready")[-1].split()[1])

    def settled(self) -> None:
        """Waits until no signal is pending: another one of the same kind would be lost."""
        status = Path(f"/proc/{self.process.pid}/status")
        wait_for(lambda: "ShdPnd:\t0000000000000000" in status.read_text(), "signals are pending")

    def rest(self) -> List[str]:
        """Returns the rest of the output."""
        output: List[str] = []
        while True:
            line = self.lines.next()
            if line is None:
                return output
            output.append(line)

    def status(self) -> int:
        return self.process.wait(PATIENCE_S)

    def children(self) -> Dict[str, int]:
        """Returns the children of the started process by name."""
        pid = self.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return {Path(f"/proc/{one}/comm").read_text().strip(): int(one) for one in found}

    def end(self) -> None:
        for kill, pid in ((os.killpg, self.process.pid), (os.kill, self.program)):
            try:
                kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


StartJob = Callable[..., Job]


@pytest.fixture(params=["alone", "run"])
def job(
    request: pytest.FixtureRequest, runtime: Dict[str, str], tmp_path: Path
) -> Iterator[StartJob]:
    """Starts programs with and without gsprof: each test must pass both ways."""
    started: List[Job] = []
    before = (str(GSPROF), "run", "-q", "-o", str(tmp_path / "kept"), "--")

    def begin(code: str, *args: object) -> Job:
        chosen = before if request.param == "run" else ()
        started.append(Job(chosen, code, *args, env=runtime, cwd=tmp_path))
        return started[-1]

    yield begin
    for one in started:
        one.end()


def marker(number: int) -> int:
    """Returns a signal that the kernel delivers after number if both are pending."""
    return signal.SIGUSR2 if number < signal.SIGUSR2 else signal.SIGRTMAX


GROUP = [
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGUSR1,
    signal.SIGTERM,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGWINCH,
    signal.SIGRTMIN,
]


@pytest.mark.parametrize("number", GROUP)
def test_a_signal_to_the_group(job: StartJob, number: int) -> None:
    """A signal to the group arrives once."""
    last = marker(number)
    one = job(REPORTER, number, last)
    for _ in range(3):
        os.killpg(one.process.pid, number)
        assert one.lines.next() == str(int(number))
    one.process.send_signal(last)
    assert one.rest() == [str(int(last))]
    assert one.status() == 3


def test_the_group_and_the_process(job: StartJob) -> None:
    """After a signal to the group, a signal to gsprof alone is still forwarded."""
    one = job(REPORTER, signal.SIGTERM, signal.SIGRTMAX)
    for send in [os.killpg, os.kill, os.kill, os.killpg, os.kill]:
        send(one.process.pid, signal.SIGTERM)
        assert one.lines.next() == "15"
        one.settled()
    one.process.send_signal(signal.SIGRTMAX)
    assert one.rest() == ["64"]
    assert one.status() == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_from_the_program_to_its_group(job: StartJob, number: int) -> None:
    """A program that signals its own group gets the signal once, before the call returns."""
    last = marker(number)
    call = f"os.killpg(0, {int(number)})\nwhile True:\n"
    one = job(REPORTER.replace("while True:\n", call), number, last)
    one.lines.until(str(int(number)))
    one.process.send_signal(last)
    assert one.rest() == [str(int(last))]
    assert one.status() == 3


def test_queued_signals(job: StartJob) -> None:
    """Real-time signals are not merged: all that are sent to the group or to gsprof arrive."""
    one = job(REPORTER, signal.SIGRTMIN, signal.SIGRTMAX)
    for send in [os.killpg, os.kill] * 10:
        send(one.process.pid, signal.SIGRTMIN)
    for _ in range(20):
        assert one.lines.next() == "34"
    one.process.send_signal(signal.SIGRTMAX)
    assert one.rest() == ["64"]
    assert one.status() == 3


# Faults of the process itself, and signals about its children or its pipes.
OWN = {"KILL", "STOP", "CHLD", "SEGV", "BUS", "ILL", "FPE", "TRAP", "SYS", "ABRT", "PIPE"}


def test_each_signal(job: StartJob) -> None:
    """Every signal sent to gsprof reaches the program once; a second SIGINT is not special."""
    own = {getattr(signal, f"SIG{name}") for name in OWN}
    numbers = sorted(int(number) for number in signal.valid_signals() - own)
    assert numbers[-1] == signal.SIGRTMAX and len(numbers) > 40
    one = job(REPORTER, *numbers)
    for number in [signal.SIGINT, *numbers]:
        one.process.send_signal(number)
        assert one.lines.next() == str(int(number))
    assert one.rest() == []
    assert one.status() == 3


VALUES = """
import ctypes, os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
print("ready", os.getpid(), flush=True)
libc = ctypes.CDLL(None)
mask, info = (ctypes.c_uint64 * 16)(1 << 33), (ctypes.c_int * 32)()
for _ in range(3):
    assert libc.sigwaitinfo(mask, info) == signal.SIGRTMIN
    print(info[6], flush=True)
"""


def test_values_of_queued_signals(job: StartJob) -> None:
    one = job(VALUES)
    for value in (7, 8, 9):
        assert ctypes.CDLL(None).sigqueue(one.process.pid, signal.SIGRTMIN, value) == 0
    assert one.rest() == ["7", "8", "9"]
    assert one.status() == 0


# ----------------------------------------------------------------------------- stopped programs


def wait_until_stopped(one: Job) -> int:
    """Waits until the parent sees the stop; returns the signal."""

    def stop_signal() -> Optional[int]:
        pid, status = os.waitpid(one.process.pid, os.WUNTRACED | os.WNOHANG)
        if pid == 0:
            return None
        assert os.WIFSTOPPED(status), status
        return os.WSTOPSIG(status)

    number: int = wait_for(stop_signal, "the process is not stopped")
    return number


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN])
def test_a_stop(job: StartJob, number: int) -> None:
    """The parent sees that the program wait_until_stopped itself, and continues it."""
    one = job(STOPPER, int(number))
    assert wait_until_stopped(one) == number
    one.process.send_signal(signal.SIGCONT)
    assert one.rest() == ["after"]
    assert one.status() == 3


@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGKILL])
def test_a_stopped_program_is_continued_or_killed(job: StartJob, number: int) -> None:
    """Another process continues or kills the program, but not gsprof."""
    one = job(STOPPER, int(signal.SIGSTOP))
    assert wait_until_stopped(one) == signal.SIGSTOP
    os.kill(one.program, number)
    assert one.rest() == (["after"] if number == signal.SIGCONT else [])
    assert one.status() == (3 if number == signal.SIGCONT else -signal.SIGKILL)


def test_a_stop_of_the_group(job: StartJob) -> None:
    """Batch systems stop the group; SIGCONT arrives once, sent to the group or to the process
    alone."""
    one = job(REPORTER, signal.SIGCONT, signal.SIGRTMAX)
    for send in [os.killpg, os.kill, os.killpg] * 6:
        os.killpg(one.process.pid, signal.SIGSTOP)
        assert wait_until_stopped(one) == signal.SIGSTOP
        send(one.process.pid, signal.SIGCONT)
        assert one.lines.next() == str(int(signal.SIGCONT))
    one.process.send_signal(signal.SIGRTMAX)
    assert one.rest() == ["64"]
    assert one.status() == 3


# ---------------------------------------------------------------------- the parent, the terminal

# A parent whose child signals it, closes its streams and dies of a signal.
PARENT = """
import os, signal, subprocess, sys
child = '''
import os, signal, sys
os.kill(os.getppid(), signal.SIGUSR1)
os.close(1)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGTERM)
'''
got = []
signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
program = [*sys.argv[1:], sys.executable, "-c", child]
process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print("ready", process.pid, flush=True)
print("end of output", process.stdout.read(), process.poll(), flush=True)
while not got:
    signal.sigtimedwait([], 0.01)
print("signal", got, flush=True)
process.stdin.write(b"end\\n")
process.stdin.flush()
print("status", process.wait(), flush=True)
"""


def test_what_the_parent_sees(runtime: Dict[str, str], tmp_path: Path) -> None:
    run = (str(GSPROF), "run", "-q", "-o", str(tmp_path / "kept"), "--")
    output = []
    for before in ((), run):
        one = Job((), PARENT, *before, env=runtime, cwd=tmp_path)
        try:
            output.append(one.rest())
        finally:
            one.end()
    assert output[0] == ["end of output b'' None", "signal [10]", "status -15"]
    assert output[1] == output[0]


def at_terminal(command: List[str], env: Dict[str, str], ready: Callable[[int], bool]) -> int:
    """Presses Ctrl-C once ready() is true for the process; returns its status."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, {**os.environ, **env})
    try:
        wait_for(lambda: ready(pid), "not ready for Ctrl-C")
        os.write(fd, b"\x03")
        status: int = wait_for(lambda: ended(pid), "Ctrl-C was lost")
    finally:
        os.close(fd)
    return status


def ended(pid: int) -> Optional[int]:
    """Returns the exit status plus 1000, because wait_for() would not accept 0; None while it
    runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return 1000 + os.waitstatus_to_exitcode(status) if found else None


def has_blocked(pid: int) -> bool:
    """Signals are blocked, so gsprof is just about to start the program."""
    status = Path(f"/proc/{pid}/status").read_text().split()
    return bool(int(status[status.index("SigBlk:") + 1], 16) & 1 << (signal.SIGINT - 1))


def test_an_interrupt_at_the_start(runtime: Dict[str, str], tmp_path: Path) -> None:
    for number in range(10):
        run = [
            str(GSPROF),
            "run",
            "-q",
            "-o",
            str(tmp_path / f"kept{number}"),
            "--",
            "sleep",
            "600",
        ]
        assert at_terminal(run, runtime, has_blocked) == 1000 - signal.SIGINT


def test_an_interrupt_of_a_program_in_its_own_group(
    runtime: Dict[str, str], tmp_path: Path
) -> None:
    """The program leads its own group already when it runs alone, so setpgrp() changes nothing
    there.

    It sleeps for short times, because signal.pause() can miss a signal that arrives just before
    it."""
    ready_file = tmp_path / "ready_file"
    code = f"import os, time; os.setpgrp(); open({str(ready_file)!r}, 'w')\n"
    code += "while True: time.sleep(0.01)"
    program = [main_python(), "-c", f"import sys; sys.excepthook = lambda *_: None; {code}"]
    run = [str(GSPROF), "run", "-q", "-o", str(tmp_path / "kept"), "--"]
    ways = []
    shell = [
        "bash",
        "-c",
        'set -m; "$@"; exit $?',
        "bash",
    ]  # each job is a foreground process group
    prefixes: List[List[str]] = [[], run]
    for before in prefixes:
        ways.append(
            at_terminal([*shell, *before, *program], runtime, lambda _: ready_file.exists())
        )
        ready_file.unlink()
    assert ways[0] == ways[1] != 1000


@pytest.mark.parametrize("most", [10, 12, 13, 14, 20])
def test_few_descriptors(runtime: Dict[str, str], tmp_path: Path, most: int) -> None:
    limit = ("sh", "-c", f'ulimit -n {most}; exec "$0" "$@"')
    run = ("run", "-q", "-o", tmp_path / "kept", "--", main_python(), "-c", "print('ran')")
    assert gsprof(*run, env=runtime, before=limit).out == "ran\n"


# ----------------------------------------------------------------------------- the sentry process


def test_the_sentry(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The sentry keeps no file of the program open, has its own name, and ends with gsprof."""
    before = (str(GSPROF), "run", "-q", "-o", str(tmp_path / "kept"), "--")
    one = Job(before, REPORTER, signal.SIGRTMAX, env=runtime, cwd=tmp_path)
    try:
        sentry = wait_for(lambda: one.children().get("gsp-sentry"), "gsprof has no sentry")
        proc = Path(f"/proc/{sentry}")
        wait_for(lambda: (proc / "cmdline").read_bytes().startswith(b"gsp-sentry\0"))
        words = (proc / "cmdline").read_bytes().split(b"\0")
        assert words[1:3] == [main_python().encode(), b"-c"] and b"run" not in words
        assert len(list((proc / "fd").iterdir())) == 2
        one.process.kill()
        assert one.status() == -signal.SIGKILL
        wait_for(lambda: not proc.exists() or "Z (" in (proc / "status").read_text())
    finally:
        one.end()


def test_without_a_sentry(runtime: Dict[str, str], tmp_path: Path) -> None:
    """If the sentry is killed, signals are still forwarded."""
    before = (str(GSPROF), "run", "-q", "-o", str(tmp_path / "kept"), "--")
    one = Job(before, REPORTER, signal.SIGUSR1, signal.SIGRTMAX, env=runtime, cwd=tmp_path)
    try:
        os.kill(
            wait_for(lambda: one.children().get("gsp-sentry"), "gsprof has no sentry"),
            signal.SIGKILL,
        )
        for number in (signal.SIGUSR1, signal.SIGRTMAX):
            one.process.send_signal(number)
            assert one.lines.next() == str(int(number))
        assert one.rest() == [] and one.status() == 3
    finally:
        one.end()


# ------------------------------------------------------------------------- how a program starts


def prepare() -> None:
    """Sets signal dispositions and a mask that children inherit."""
    ignored = (signal.SIGCHLD, signal.SIGUSR1, signal.SIGPIPE, signal.SIGHUP, signal.SIGBUS)
    for number in (*ignored, signal.SIGABRT, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGALRM])


# Commands that start a program; -o is followed by a file or folder.
STARTERS = {"run": ("-q", "-o"), "record": ("-q", "-o"), "mem record": ("-o",), "top": ("--once",)}


@pytest.mark.parametrize("command", STARTERS)
@pytest.mark.parametrize("before_exec", [None, prepare])
def test_inherited_signal_state(
    runtime: Dict[str, str],
    tmp_path: Path,
    before_exec: Optional[Callable[[], None]],
    command: str,
) -> None:
    """The program inherits the mask and ignored signals of gsprof's parent."""

    shown = tmp_path / "shown"

    def signals(*before: str) -> str:
        show = "exec grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status > \"$0\""
        subprocess.run(
            [*before, "sh", "-c", show, str(shown)],
            env={**os.environ, **runtime},
            preexec_fn=before_exec,
            timeout=PATIENCE_S,
            check=False,  # some commands fail if the program is not Python
        )
        return shown.read_text()

    options = STARTERS[command]
    kept = (str(tmp_path / "kept.gsp"),) if "-o" in options else ()
    under = signals(str(GSPROF), *command.split(), *options, *kept, "--")
    assert under == signals() and len(under.splitlines()) == 3


def test_status_of_a_failure(runtime: Dict[str, str], tmp_path: Path) -> None:
    """gsprof exits with the program's status, even if its parent ignores SIGCHLD."""
    for before_exec in (None, prepare):
        done = subprocess.run(
            [str(GSPROF), "run", "-q", "-o", str(tmp_path / "kept"), "--force", "--"]
            + ["sh", "-c", "exec grep -c '' /proc/self/status /proc/self/none"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **runtime},
            preexec_fn=before_exec,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 2


@pytest.mark.parametrize("blocks", [0, 40])
def test_file_size_limit(runtime: Dict[str, str], tmp_path: Path, blocks: int) -> None:
    """A file size limit ends neither gsprof nor the program, even if the program does not ignore
    SIGXFSZ."""
    limit = ("sh", "-c", f'ulimit -f {blocks}; exec "$0" "$@"')
    code = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
    code += "print('ran', flush=True); raise SystemExit(3)"
    run = ("run", "-q", "-o", tmp_path / "kept", "--", main_python(), "-c", code)
    done = gsprof(*run, env=runtime, before=limit, status=3)
    assert done.out == "ran\n", str(done)
    output = "the run is incomplete" if blocks else "the run is not saved"
    assert output in done.err, str(done)
    # The program still gets the signal, as without gsprof.
    big = f"head -c 100000 /dev/zero > {tmp_path}/big"
    run = ("run", "-q", "-o", tmp_path / "other", "--", "sh", "-c", f"{big}; exit $?")
    gsprof(*run, env=runtime, before=limit, status=128 + signal.SIGXFSZ)


@pytest.mark.parametrize("command", ["record", "mem record"])
def test_recording_above_the_file_size_limit(
    runtime: Dict[str, str], tmp_path: Path, command: str
) -> None:
    """If the limit prevents the recording, gsprof prints an error and is not killed by a signal."""
    limit = ("sh", "-c", 'ulimit -f 0; exec "$0" "$@"')
    record = (*command.split(), "-o", tmp_path / "kept.gsp", "--", main_python(), "-c", "pass")
    done = gsprof(*record, env=runtime, before=limit, status=None)
    assert done.status > 0 and "File too large" in done.err, str(done)


# Has many threads to sample, until a file exists.
THREADS = """
import os, sys, threading, time
for _ in range(30):
    threading.Thread(target=lambda: time.sleep(3600), daemon=True).start()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("ran", flush=True)
os._exit(3)
"""


def test_cpu_time_limit(runtime: Dict[str, str], tmp_path: Path) -> None:
    """A limit on CPU time ends the recording; gsprof outlives its program."""
    go = tmp_path / "go"
    run = (str(GSPROF), "run", "-q", "-r", "8000", "-o", str(tmp_path / "kept"), "--")
    with subprocess.Popen(
        ["sh", "-c", 'ulimit -t 4; exec "$@"', "sh", *run, main_python(), "-c", THREADS, str(go)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **runtime},
        text=True,
    ) as process:
        assert process.stdout and process.stderr
        try:
            assert "recording stopped, the program continues" in process.stderr.readline()
        finally:
            go.touch()
        assert process.stdout.read() == "ran\n"
        assert process.wait(PATIENCE_S) == 3
    gsprof("report", tmp_path / "kept", env=runtime)


@pytest.mark.parametrize("options", [(), ("-q",)])
def test_without_a_temporary_folder(
    runtime: Dict[str, str], tmp_path: Path, options: Tuple[str, ...]
) -> None:
    """The program runs. Its processes are recorded through another folder or not at all."""
    code = "import os; print('ran', bool(os.environ['GSPROF_RUN_FILE'])); raise SystemExit(3)"
    program = ("--", main_python(), "-c", code)
    env = {**runtime, "TMPDIR": str(tmp_path / "missing")}
    done = gsprof("run", *options, "-o", tmp_path / "a", *program, env=env, status=3, cwd=tmp_path)
    assert done.out == "ran True\n" and "no temporary file" not in done.err, str(done)
    places = f"/tmp /dev/shm {tmp_path}"
    mount = (
        f"for place in {places}; do mount --bind $place $place && "
        'mount -o remount,ro,bind $place || exit 99; done; exec "$0" "$@"'
    )
    before = (*own_mounts(), "sh", "-c", mount)
    run = ("run", *options, "-o", tmp_path / "b", *program)
    none = gsprof(*run, env=env, before=before, status=3, cwd=tmp_path)
    assert none.out == "ran False\n", str(none)
    assert ("no temporary file" in none.err) == (not options), str(none)


def test_programs_that_cannot_be_started(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The exit status is the one a shell would return."""
    plain = tmp_path / "plain"
    plain.write_text("")
    for program in (plain, tmp_path, plain / "below", tmp_path / "missing"):
        shell = subprocess.run(
            ["env", str(program)], stderr=subprocess.DEVNULL, check=False
        ).returncode
        assert shell in (126, 127)
        done = gsprof("run", "-q", "--", program, env=runtime, status=shell, cwd=tmp_path)
        assert str(program) in done.err
