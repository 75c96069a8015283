# SPDX-License-Identifier: Apache-2.0
"""gsprof run: the program gets the signals that it would get alone, and starts and stops so."""

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

# Says each signal that reaches it, also when two come at once; ends after the last of its list.
TELLER = """
import os, signal, sys
told, tell = os.pipe()
os.set_blocking(tell, False)
numbers = [int(word) for word in sys.argv[1:]]
for number in numbers:
    signal.signal(number, lambda *_: None)
signal.set_wakeup_fd(tell)
print("ready", os.getpid(), flush=True)
while True:
    for number in os.read(told, 4096):
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
    """A program in a process group of its own, as a shell starts it, alone or under gsprof."""

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
        """Until it has taken what was sent to it: the next one of a kind would be lost."""
        status = Path(f"/proc/{self.process.pid}/status")
        wait_for(lambda: "ShdPnd:\t0000000000000000" in status.read_text(), "signals are pending")

    def rest(self) -> List[str]:
        """What it says up to its end."""
        said: List[str] = []
        while True:
            line = self.lines.next()
            if line is None:
                return said
            said.append(line)

    def status(self) -> int:
        return self.process.wait(PATIENCE_S)

    def children(self) -> Dict[str, int]:
        """By name, those of the process that was started."""
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
    """Each test passes without gsprof too: this is what the program would see."""
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
    """One that is taken after the other when both are there."""
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
def test_the_group(job: StartJob, number: int) -> None:
    """A signal to all of the group comes once."""
    last = marker(number)
    one = job(TELLER, number, last)
    for _ in range(3):
        os.killpg(one.process.pid, number)
        assert one.lines.next() == str(int(number))
    one.process.send_signal(last)
    assert one.rest() == [str(int(last))]
    assert one.status() == 3


def test_the_group_and_the_process(job: StartJob) -> None:
    """A signal to the group says nothing about the next one, which is sent to gsprof alone."""
    one = job(TELLER, signal.SIGTERM, signal.SIGRTMAX)
    for send in [os.killpg, os.kill, os.kill, os.killpg, os.kill]:
        send(one.process.pid, signal.SIGTERM)
        assert one.lines.next() == "15"
        one.settled()
    one.process.send_signal(signal.SIGRTMAX)
    assert one.rest() == ["64"]
    assert one.status() == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_its_own_group(job: StartJob, number: int) -> None:
    """A program that signals its group gets that once, before its call returns."""
    last = marker(number)
    call = f"os.killpg(0, {int(number)})\nwhile True:\n"
    one = job(TELLER.replace("while True:\n", call), number, last)
    one.lines.until(str(int(number)))
    one.process.send_signal(last)
    assert one.rest() == [str(int(last))]
    assert one.status() == 3


def test_a_queue(job: StartJob) -> None:
    """Real-time signals are not merged: each one of the group's and of its own arrives."""
    one = job(TELLER, signal.SIGRTMIN, signal.SIGRTMAX)
    for send in [os.killpg, os.kill] * 10:
        send(one.process.pid, signal.SIGRTMIN)
    for _ in range(20):
        assert one.lines.next() == "34"
    one.process.send_signal(signal.SIGRTMAX)
    assert one.rest() == ["64"]
    assert one.status() == 3


# Faults of a process itself, and what concerns it as a parent or a writer.
OWN = {"KILL", "STOP", "CHLD", "SEGV", "BUS", "ILL", "FPE", "TRAP", "SYS", "ABRT", "PIPE"}


def test_each_signal(job: StartJob) -> None:
    """What is sent to gsprof reaches the program, once; SIGINT twice is nothing special."""
    own = {getattr(signal, f"SIG{name}") for name in OWN}
    numbers = sorted(int(number) for number in signal.valid_signals() - own)
    assert numbers[-1] == signal.SIGRTMAX and len(numbers) > 40
    one = job(TELLER, *numbers)
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


def test_values(job: StartJob) -> None:
    one = job(VALUES)
    for value in (7, 8, 9):
        assert ctypes.CDLL(None).sigqueue(one.process.pid, signal.SIGRTMIN, value) == 0
    assert one.rest() == ["7", "8", "9"]
    assert one.status() == 0


# ----------------------------------------------------------------------------- stopped programs


def stopped(one: Job) -> int:
    """Waits until its parent sees that it is stopped, and by which signal."""

    def look() -> Optional[int]:
        pid, status = os.waitpid(one.process.pid, os.WUNTRACED | os.WNOHANG)
        if pid == 0:
            return None
        assert os.WIFSTOPPED(status), status
        return os.WSTOPSIG(status)

    number: int = wait_for(look, "it is not stopped")
    return number


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN])
def test_a_stop(job: StartJob, number: int) -> None:
    """The parent of a program that stops itself sees it, and continues it."""
    one = job(STOPPER, int(number))
    assert stopped(one) == number
    one.process.send_signal(signal.SIGCONT)
    assert one.rest() == ["after"]
    assert one.status() == 3


@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGKILL])
def test_an_end_of_a_stop(job: StartJob, number: int) -> None:
    """Another process continues or kills the program, and not gsprof."""
    one = job(STOPPER, int(signal.SIGSTOP))
    assert stopped(one) == signal.SIGSTOP
    os.kill(one.program, number)
    assert one.rest() == (["after"] if number == signal.SIGCONT else [])
    assert one.status() == (3 if number == signal.SIGCONT else -signal.SIGKILL)


def test_a_stop_of_the_group(job: StartJob) -> None:
    """Batch systems do this; SIGCONT comes once, to the group or to the process alone."""
    one = job(TELLER, signal.SIGCONT, signal.SIGRTMAX)
    for send in [os.killpg, os.kill, os.killpg] * 6:
        os.killpg(one.process.pid, signal.SIGSTOP)
        assert stopped(one) == signal.SIGSTOP
        send(one.process.pid, signal.SIGCONT)
        assert one.lines.next() == str(int(signal.SIGCONT))
    one.process.send_signal(signal.SIGRTMAX)
    assert one.rest() == ["64"]
    assert one.status() == 3


# ---------------------------------------------------------------------- the parent, the terminal

# What a parent sees of a program that signals it, closes its streams, and dies by a signal.
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
    said = []
    for before in ((), run):
        one = Job((), PARENT, *before, env=runtime, cwd=tmp_path)
        try:
            said.append(one.rest())
        finally:
            one.end()
    assert said[0] == ["end of output b'' None", "signal [10]", "status -15"]
    assert said[1] == said[0]


def at_terminal(command: List[str], env: Dict[str, str], ready: Callable[[int], bool]) -> int:
    """Presses Ctrl-C once ready() of the process; its status."""
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
    """The status for the wait, plus 1000: 0 would mean that it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return 1000 + os.waitstatus_to_exitcode(status) if found else None


def has_blocked(pid: int) -> bool:
    """gsprof has begun to hold signals, and has hardly had the time to start the program."""
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


def test_an_interrupt_of_a_program_with_a_group_of_its_own(
    runtime: Dict[str, str], tmp_path: Path
) -> None:
    """As the leader of its group, which it is alone, setpgrp() changes nothing.

    The program sleeps in short pieces: a signal just before signal.pause() would be noticed after
    the next one only."""
    sign = tmp_path / "sign"
    code = f"import os, time; os.setpgrp(); open({str(sign)!r}, 'w')\nwhile True: time.sleep(0.01)"
    program = [main_python(), "-c", f"import sys; sys.excepthook = lambda *_: None; {code}"]
    run = [str(GSPROF), "run", "-q", "-o", str(tmp_path / "kept"), "--"]
    ways = []
    shell = ["bash", "-c", 'set -m; "$@"; exit $?', "bash"]  # jobs are groups in the foreground
    prefixes: List[List[str]] = [[], run]
    for before in prefixes:
        ways.append(at_terminal([*shell, *before, *program], runtime, lambda _: sign.exists()))
        sign.unlink()
    assert ways[0] == ways[1] != 1000


@pytest.mark.parametrize("most", [10, 12, 13, 14, 20])
def test_few_descriptors(runtime: Dict[str, str], tmp_path: Path, most: int) -> None:
    limit = ("sh", "-c", f'ulimit -n {most}; exec "$0" "$@"')
    run = ("run", "-q", "-o", tmp_path / "kept", "--", main_python(), "-c", "print('ran')")
    assert gsprof(*run, env=runtime, before=limit).out == "ran\n"


# ---------------------------------------------------------------------------------- the sentry


def test_the_sentry(runtime: Dict[str, str], tmp_path: Path) -> None:
    """It holds nothing of the program open, has a name of its own, and goes with gsprof."""
    before = (str(GSPROF), "run", "-q", "-o", str(tmp_path / "kept"), "--")
    one = Job(before, TELLER, signal.SIGRTMAX, env=runtime, cwd=tmp_path)
    try:
        sentry = wait_for(lambda: one.children().get("gsp-sentry"), "no sentry")
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
    """When it is killed, signals are passed on all the same."""
    before = (str(GSPROF), "run", "-q", "-o", str(tmp_path / "kept"), "--")
    one = Job(before, TELLER, signal.SIGUSR1, signal.SIGRTMAX, env=runtime, cwd=tmp_path)
    try:
        os.kill(wait_for(lambda: one.children().get("gsp-sentry"), "no sentry"), signal.SIGKILL)
        for number in (signal.SIGUSR1, signal.SIGRTMAX):
            one.process.send_signal(number)
            assert one.lines.next() == str(int(number))
        assert one.rest() == [] and one.status() == 3
    finally:
        one.end()


# ------------------------------------------------------------------------- how a program starts


def prepare() -> None:
    """What a parent may leave to its children."""
    ignored = (signal.SIGCHLD, signal.SIGUSR1, signal.SIGPIPE, signal.SIGHUP, signal.SIGBUS)
    for number in (*ignored, signal.SIGABRT, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGALRM])


# Commands that start a program; -o is followed by a file or folder.
STARTERS = {"run": ("-q", "-o"), "record": ("-q", "-o"), "mem record": ("-o",), "top": ("--once",)}


@pytest.mark.parametrize("command", STARTERS)
@pytest.mark.parametrize("before_exec", [None, prepare])
def test_inherited(
    runtime: Dict[str, str],
    tmp_path: Path,
    before_exec: Optional[Callable[[], None]],
    command: str,
) -> None:
    """The mask and what is ignored are those of gsprof's parent."""

    shown = tmp_path / "shown"

    def signals(*before: str) -> str:
        show = "exec grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status > \"$0\""
        subprocess.run(
            [*before, "sh", "-c", show, str(shown)],
            env={**os.environ, **runtime},
            preexec_fn=before_exec,
            timeout=PATIENCE_S,
            check=False,  # some have nothing to say of a program that is not Python
        )
        return shown.read_text()

    options = STARTERS[command]
    kept = (str(tmp_path / "kept.gsp"),) if "-o" in options else ()
    under = signals(str(GSPROF), *command.split(), *options, *kept, "--")
    assert under == signals() and len(under.splitlines()) == 3


def test_status_of_a_failure(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The status is the program's, also where its parent ignores SIGCHLD."""
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
def test_small_files(runtime: Dict[str, str], tmp_path: Path, blocks: int) -> None:
    """A limit on the size of files ends neither gsprof nor the program, not even one that Python
    does not protect from SIGXFSZ."""
    limit = ("sh", "-c", f'ulimit -f {blocks}; exec "$0" "$@"')
    code = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
    code += "print('ran', flush=True); raise SystemExit(3)"
    run = ("run", "-q", "-o", tmp_path / "kept", "--", main_python(), "-c", code)
    done = gsprof(*run, env=runtime, before=limit, status=3)
    assert done.out == "ran\n", str(done)
    said = "the run is incomplete" if blocks else "the run is not saved"
    assert said in done.err, str(done)
    # To the program the signal is what it is without gsprof.
    big = f"head -c 100000 /dev/zero > {tmp_path}/big"
    run = ("run", "-q", "-o", tmp_path / "other", "--", "sh", "-c", f"{big}; exit $?")
    gsprof(*run, env=runtime, before=limit, status=128 + signal.SIGXFSZ)


@pytest.mark.parametrize("command", ["record", "mem record"])
def test_small_recordings(runtime: Dict[str, str], tmp_path: Path, command: str) -> None:
    """A recording that a limit does not permit is an error, and gsprof is not killed."""
    limit = ("sh", "-c", 'ulimit -f 0; exec "$0" "$@"')
    record = (*command.split(), "-o", tmp_path / "kept.gsp", "--", main_python(), "-c", "pass")
    done = gsprof(*record, env=runtime, before=limit, status=None)
    assert done.status > 0 and "File too large" in done.err, str(done)


# Threads to look at, until a file is there.
THREADS = """
import os, sys, threading, time
for _ in range(30):
    threading.Thread(target=lambda: time.sleep(3600), daemon=True).start()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("ran", flush=True)
os._exit(3)
"""


def test_little_cpu_time(runtime: Dict[str, str], tmp_path: Path) -> None:
    """A limit on CPU time ends the recording, and not gsprof before its program."""
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
def test_no_temporary_folder(
    runtime: Dict[str, str], tmp_path: Path, options: Tuple[str, ...]
) -> None:
    """The program runs, and its processes are found elsewhere or not at all."""
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


def test_not_executable(runtime: Dict[str, str], tmp_path: Path) -> None:
    """As a shell tells it."""
    plain = tmp_path / "plain"
    plain.write_text("")
    for program in (plain, tmp_path, plain / "below", tmp_path / "missing"):
        shell = subprocess.run(
            ["env", str(program)], stderr=subprocess.DEVNULL, check=False
        ).returncode
        assert shell in (126, 127)
        done = gsprof("run", "-q", "--", program, env=runtime, status=shell, cwd=tmp_path)
        assert str(program) in done.err
