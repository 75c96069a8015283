# SPDX-License-Identifier: Apache-2.0
"""gsprof top: on a terminal emulated by tmux, with keys pressed and the screen read; and without a
terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Iterator, List, Set

import pytest

from conftest import StartTarget
from support import (
    EXIT_NOFILE,
    EXIT_NOPROC,
    EXIT_USAGE,
    GSPROF,
    PATIENCE_S,
    Json,
    Python,
    Target,
    gsprof,
    main_python,
    program,
    wait_for,
)

EXIT_NOTSUP = 69

StartScreen = Callable[..., "Screen"]


class Screen:
    """A terminal in which the profiler runs."""

    count = 0

    def __init__(self, *args: object, width: int = 100, height: int = 24) -> None:
        Screen.count += 1
        self.name = f"gsprof-{os.getpid()}-{Screen.count}"
        command = " ".join(shlex.quote(str(arg)) for arg in (GSPROF, *args))
        # The terminal outlives the profiler, so that the state it leaves behind can be checked.
        # LINES and COLUMNS are unset, because readline, which pytest loads, may have set them to
        # another size.
        shell = (
            f"unset LINES COLUMNS; trap : INT; {command}; echo left with $?; "
            "stty -a; echo settings end; exec cat"
        )
        self.tmux(
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            *("-x", str(width), "-y", str(height)),
            "sh",
            "-c",
            shell,
        )

    def tmux(self, *args: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self.name, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
            text=True,
        )
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout

    def read(self) -> str:
        return self.tmux("capture-pane", "-p")

    def wait(self, pattern: str, *more: Callable[[str], object]) -> str:
        """Waits until pattern matches and all other conditions hold; returns the screen. tmux also
        returns partly drawn screens."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            text = self.read()
            if re.search(pattern, text, re.MULTILINE) and all(is_true(text) for is_true in more):
                return text
            assert (
                time.monotonic() < deadline
            ), f"no {pattern!r}, or another condition is false, in\n{text}"

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def mouse(self, button: int, x: int, y: int) -> None:
        """Sends a mouse event as the terminal type "screen" encodes it."""
        codes = [0x1B, ord("["), ord("M"), 32 + button, 33 + x, 33 + y]
        self.tmux("send-keys", "-H", *(f"{code:x}" for code in codes))

    def pid(self) -> int:
        """Returns the process id of the profiler."""
        shell = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="utf-8")
        return int(children.split()[0])

    def end(self) -> None:
        subprocess.run(
            ["tmux", "-L", self.name, "kill-server"], stderr=subprocess.DEVNULL, check=False
        )


@pytest.fixture
def screen() -> Iterator[StartScreen]:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux: tools/install-deps.sh test installs it")
    started: List[Screen] = []

    def begin(*args: object, width: int = 100, height: int = 24) -> Screen:
        one = Screen(*args, width=width, height=height)
        started.append(one)
        return one

    yield begin
    for one in started:
        one.end()


def has(pattern: str) -> Callable[[str], object]:
    return lambda text: re.search(pattern, text)


def table(text: str) -> List[str]:
    """Returns the function of each row."""
    rows = re.findall(r"^ +[\d.<]+ +[\d.<]+ +\S+ \S+ +\S+ \S+ (.+?) {2,}", text, re.MULTILINE)
    return [row.strip(" -+") for row in rows]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a recording of twelve seconds: a short one whose time is stretched."""
    folder = tmp_path_factory.mktemp("top")
    gsprof(
        *("record", "-o", folder / "short.json", "-r", 200, "--", main_python()),
        *(program("spin.py"), 4, 1),
    )
    raw = json.loads((folder / "short.json").read_text(encoding="utf-8"))
    begin = raw["start_time"]
    for sample in raw["samples"]:
        sample["timestamp"] = begin + (sample["timestamp"] - begin) * 12 / raw["duration"]
    raw["duration"] = 12
    path = folder / "long.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    return path


# ------------------------------------------------------------ without a terminal


def check_table(one: Json) -> None:
    """Numbers have the right type and are consistent with each other."""
    assert one["samples"] > 0 and one["interval_ns"] > 0
    for key in ("gil_pct", "active_pct"):
        assert isinstance(one[key], (int, float))
    assert 0 <= one["machine"]["memory_used_bytes"] <= one["machine"]["memory_total_bytes"]
    assert one["machine"]["cores"] >= 1 and one["machine"]["gpu_pct"] is None
    for row in one["rows"]:
        assert row["own_ns"] <= row["total_ns"] <= one["time_ns"] * 1.2 * one["threads"]
        assert 0 <= row["own_pct"] <= row["total_pct"] + 1e-9


def check_functions(target: Target, one: Json) -> None:
    """Checks that half > third > fifth and that main() includes all of them. On a busy machine the
    table of one second may have few samples: more tables are added until the order is certain."""
    own = dict.fromkeys(("half", "third", "fifth", "main"), 0)
    lines = {}

    def add(table: Json) -> bool:
        rows = {row["function"]: row for row in table["rows"] if row["function"] in own}
        for name, row in rows.items():
            own[name] += row["own_ns"]
            lines[name] = (Path(row["file"]).name, row["line"])
        called_ns = sum(row["own_ns"] for row in rows.values())
        assert not rows or rows["main"]["total_ns"] >= called_ns  # main is in every stack
        return own["half"] > own["third"] > own["fifth"] > 10 * own["main"]

    def another_table() -> bool:
        return add(json.loads(gsprof("top", "-p", target.pid, "--once", "--json").out))

    if not add(one):
        wait_for(another_table, str(own))
    assert lines["half"] == ("work.py", 12)


def test_once_json(start: StartTarget) -> None:
    target = start("shares.py")
    one = json.loads(gsprof("top", "-p", target.pid, "--once", "--json").out)
    check_table(one)
    assert one["pid"] == target.pid and one["threads"] == 1 and one["processes"] == 1
    assert one["losses"]["failed"] == 0 and one["rate_hz"] == 100
    assert [row["own_ns"] for row in one["rows"]] == sorted(
        (row["own_ns"] for row in one["rows"]), reverse=True
    )
    check_functions(target, one)


def test_each_interpreter(python: Python, start: StartTarget) -> None:
    target = start("shares.py", python=python)
    one = json.loads(gsprof("top", "-p", target.pid, "--once", "--json").out)
    check_table(one)
    assert one["losses"]["failed"] == 0
    check_functions(target, one)


def test_several_tables(start: StartTarget) -> None:
    target = start("shares.py")
    shortest_ns = 1e18

    def has_progress() -> bool:
        nonlocal shortest_ns
        out = gsprof("top", "-p", target.pid, "-n", 3, "--delay", "0.3", "--json", "--rows", 2).out
        tables = [json.loads(line) for line in out.splitlines()]
        assert len(tables) == 3
        for one in tables:
            check_table(one)
            assert len(one["rows"]) <= 2
            shortest_ns = min(shortest_ns, one["interval_ns"])
        counts = [one["samples"] for one in tables]
        assert counts == sorted(counts)
        return bool(counts[0] < counts[2])

    # A busy machine makes intervals longer, but with the default of one second none would be this
    # short.
    wait_for(lambda: has_progress() and shortest_ns < 0.9e9)


def test_text(start: StartTarget) -> None:
    target = start("shares.py")

    def text_of_two_functions() -> str:
        text = gsprof("top", "-p", target.pid, "--once", "--sort", "function").out
        return text if len(table(text)) > 1 else ""

    out = wait_for(text_of_two_functions, "no table with two functions")
    assert max(map(len, out.splitlines())) <= 80
    assert "own %" in out and "function*" in out and "GIL" in out and "memory" in out
    assert table(out) == sorted(table(out))


def test_idle_threads_in_a_tree(start: StartTarget) -> None:
    target = start("threads8.py")
    one = json.loads(gsprof("top", "-p", target.pid, "--once", "--json", "-i", "-t", "--tree").out)
    threads = [row for row in one["rows"] if row["kind"] == "thread"]
    assert len(threads) == 8 and one["threads"] == 8
    for row in one["rows"]:
        parent = one["rows"][row["parent"]] if row["parent"] is not None else None
        assert row["depth"] == (parent["depth"] + 1 if parent else 0)
        assert parent is None or row["total_ns"] <= parent["total_ns"]


def test_filter_and_lines(start: StartTarget) -> None:
    target = start("shares.py")
    command = ("top", "-p", target.pid, "--once", "--json", "--lines", "--filter", "FIFTH")
    # On a busy machine, the few samples of a table may be in other functions.
    rows = wait_for(lambda: json.loads(gsprof(*command).out)["rows"])
    assert all(row["function"] == "fifth" for row in rows)


def test_selection_options_of_record(start: StartTarget) -> None:
    target = start("threads8.py")
    common = ("top", "-p", target.pid, "--once", "--json", "--wall")
    one = json.loads(gsprof(*common, "--thread", "^wait_s", "--exclude", "threading.py").out)
    names = {row["function"] for row in one["rows"]}
    assert names == {"wait_sleep", "wait_select"}
    gsprof(*common, "--include", "(", status=EXIT_USAGE)
    gsprof(*common, "--cpu", status=EXIT_USAGE)


def test_native(start: StartTarget) -> None:
    target = start("shares.py")

    def names() -> Set[str]:
        """Returns names of Python functions and prefixes of the interpreter's C functions."""
        one = json.loads(gsprof("top", "-p", target.pid, "--once", "--json", "--native").out)
        files = {(row["function"], row["file"] or "") for row in one["rows"]}
        return {name if ".py" in file else name.lstrip("_")[:2] for name, file in files}

    # On a busy machine, the few samples of a table may be in neither.
    wait_for(lambda: {"half", "Py"} <= names())


def test_program(tmp_path: Path) -> None:
    """top exits with the program's status; stdout has only the table, even if the program ends
    early."""
    script = tmp_path / "busy.py"
    script.write_text(
        "import time\nprint('words')\nend = time.monotonic() + 0.4\n"
        "while time.monotonic() < end: pass\nraise SystemExit(7)\n"
    )

    def has_samples() -> bool:
        result = gsprof("top", "--once", "--json", "--", main_python(), script, status=7)
        assert "words" in result.err
        return bool(json.loads(result.out)["samples"] > 0)

    # On a busy machine the program may end before the first sample.
    wait_for(has_samples)


def test_no_terminal(start: StartTarget) -> None:
    target = start("shares.py")
    result = gsprof("top", "-p", target.pid, status=EXIT_NOTSUP)
    assert "not a terminal" in result.err and "--once" in result.err and result.out == ""


def test_invalid_use(tmp_path: Path) -> None:
    gsprof("top", status=EXIT_USAGE)
    gsprof("top", "-p", 1, "--input", "x.gsp", status=EXIT_USAGE)
    gsprof("top", "-p", 1, "--once", "-n", 3, status=EXIT_USAGE)
    gsprof("top", "--input", tmp_path / "none.gsp", "--once", status=EXIT_NOFILE)
    gsprof("top", "-p", 2**22 - 1, "--once", status=EXIT_NOPROC)


def test_recording_once(recording: Path) -> None:
    one = json.loads(gsprof("top", "--input", recording, "--once", "--json").out)
    report = json.loads(gsprof("report", recording, "--json").out)
    assert one["samples"] == report["summary"]["samples"]
    own = {row["function"]: row["own_ns"] for row in one["rows"]}
    assert own == {row["function"]: row["own_ns"] for row in report["top"]}
    assert one["machine"]["cpu_pct"] is None


def test_recording_in_intervals(recording: Path) -> None:
    out = gsprof("top", "--input", recording, "-n", 100, "--delay", 5, "--json").out
    tables = [json.loads(line) for line in out.splitlines()]
    assert [one["time_ns"] for one in tables] == [5e9, 10e9, 12e9]
    whole = json.loads(gsprof("top", "--input", recording, "--once", "--json").out)
    assert tables[-1]["samples"] == whole["samples"]


def test_recording_without_time(tmp_path: Path) -> None:
    path = tmp_path / "a.folded"
    path.write_text("main;work 30\nmain;rest 10\n")
    one = json.loads(gsprof("top", "--input", path, "--once", "--json").out)
    rows = {row["function"]: row for row in one["rows"]}
    assert rows["work"]["own_pct"] == 75 and rows["main"]["total_pct"] == 100


# ---------------------------------------------------------------- on a terminal


def test_keys(screen: StartScreen, start: StartTarget) -> None:
    target = start("threads8.py")
    one = screen("top", "-p", target.pid, "--idle", "--delay", "0.2")
    one.wait(r"half .*work.py:12")
    one.wait(
        r"machine: CPU \d+% of \d+ cores  memory \S+ .iB of",
        has(rf"gsprof top .*pid {target.pid}"),
        has(r"GIL \d+%  active \d+%  threads 8  processes 1  samples"),
        has(r"own %\*"),
        has("q:quit"),
    )

    one.press("2")
    one.wait(r"total %\*")
    one.press(">")
    one.wait(r"own time\*")
    one.press("<", "<")
    one.wait(r"own %\*")

    one.press("/")
    one.wait("filter: _")
    one.press("f", "i", "f", "t")
    one.wait("filter: fift_", lambda text: set(table(text)) <= {"fifth"})
    one.press("Enter")
    one.wait("list of functions by own  filter fift")
    one.press("Escape")
    one.wait("^list of functions by own *$")

    one.press("t")
    one.wait("Show one thread", has(r"MainThread(?s:.*)wait_lock"))
    one.press("Down", "Enter")
    one.wait(r"thread MainThread \(", lambda text: "half" not in text)
    one.press("Escape", "l")
    one.wait("list of lines")
    one.press("l", "v", "a")
    one.wait(r"- thread runner")
    one.press("-")
    one.wait(r"\+ thread runner")
    one.press("+", "?")
    one.wait("any key closes this help", has("pause"))
    one.press("x", "q")
    one.wait("left with 0", has("samples in"))
    # The terminal is restored: line mode, echo, no mouse, the normal screen.
    one.wait("settings end", has(r"(?<!-)icanon"), has(r"(?<!-)echo "))
    flags = one.tmux("display-message", "-p", "#{alternate_on}#{mouse_any_flag}#{cursor_flag}")
    assert flags.strip() == "001"


def test_pause_and_reset(screen: StartScreen, start: StartTarget) -> None:
    target = start("spin.py")
    one = screen("top", "-p", target.pid, "--delay", "0.1")
    one.wait(r"samples \d[\d,]{2,}")
    one.press("Space")
    one.wait("PAUSED")
    # Each key redraws the whole screen, so a new sample would show.
    one.press("v")
    (samples,) = re.findall(r"samples ([\d,]+)", one.wait("tree of functions"))
    one.press("v")
    one.wait("list of functions", has(f"samples {samples}\\b"))
    one.press("v")
    one.wait("tree of functions")
    one.press("r")
    one.wait(r"PAUSED(?s:.*)samples 0 ")
    one.press("v", "Space")
    one.wait(r"gsprof top  \S+  pid")
    one.wait(r"samples [1-9]")


def test_mouse_and_scrolling(screen: StartScreen, start: StartTarget) -> None:
    target = start("threads8.py")
    one = screen("top", "-p", target.pid, "-i", "--sort", "function", width=80, height=10)
    # By then every function has samples.
    text = one.wait(r"samples \d,\d+", table, lambda text: len(text.splitlines()) == 10)
    first = table(text)[0]
    one.press("End")
    one.wait(r"wait_sleep", lambda text: first not in table(text))
    one.press("Home")
    one.wait(re.escape(first))
    for _ in range(4):
        one.mouse(65, 10, 6)
    one.wait(r"\A(?:.*\n){5}(?!.*" + re.escape(first) + ")")
    one.mouse(0, 12, 4)
    one.wait(r"total %\*")


def test_resize(screen: StartScreen, start: StartTarget) -> None:
    target = start("spin.py")
    one = screen("top", "-p", target.pid, width=80, height=10)
    one.wait("spin .*spin.py")
    for width, height in ((60, 20), (100, 8)):
        one.tmux("resize-window", "-x", str(width), "-y", str(height))
        one.wait(rf"{width}x{height} is too small \(minimum: 80x10\)")
    one.tmux("resize-window", "-x", "200", "-y", "50")
    one.wait("spin .*spin.py", lambda text: max(map(len, text.splitlines())) > 100)
    one.press("q")
    one.wait("left with 0")


def test_terminal_too_small_at_start(screen: StartScreen, start: StartTarget) -> None:
    """top prints a message, can be quit, and continues when the terminal is large enough."""
    target = start("spin.py")
    one = screen("top", "-p", target.pid, width=40, height=6)
    one.wait("too small")
    one.tmux("resize-window", "-x", "80", "-y", "24")
    one.wait(
        "spin .*spin.py",
        lambda text: len(text.splitlines()) == 24 and max(map(len, text.splitlines())) <= 80,
    )
    one.tmux("resize-window", "-x", "40", "-y", "6")
    one.wait("too small")
    one.press("q")
    one.wait(r"(?<!-)icanon(?s:.*)settings end")  # its last line has scrolled away


def test_native_on_a_terminal(screen: StartScreen, start: StartTarget) -> None:
    target = start("shares.py")
    one = screen("top", "-p", target.pid, "--native", "--delay", "0.2", width=140, height=40)
    one.wait(r"half .*work.py:12")
    one.wait(r"_?Py[A-Z_]\w+")
    one.press("v")
    one.wait("tree of functions")
    one.press("q")
    one.wait("left with 0")
    assert target.alive()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_signals_restore(screen: StartScreen, start: StartTarget, number: signal.Signals) -> None:
    target = start("spin.py")
    one = screen("top", "-p", target.pid)
    one.wait("spin .*spin.py")
    if number == signal.SIGINT:
        one.press("C-c")
    else:
        os.kill(one.pid(), number)
    status = 139 if number == signal.SIGSEGV else 0
    one.wait(f"left with {status}")
    one.wait("settings end", has(r"(?<!-)icanon"))
    flags = one.tmux("display-message", "-p", "#{alternate_on}#{mouse_any_flag}#{cursor_flag}")
    assert flags.strip() == "001"
    assert target.alive()


def test_target_ends(screen: StartScreen, start: StartTarget) -> None:
    """The samples stay on the screen until the user quits."""
    target = start("spin.py")
    one = screen("top", "-p", target.pid)
    one.wait("spin .*spin.py")
    target.end()
    one.wait("ENDED(?s:.*)spin .*spin.py")
    one.press("q")
    one.wait("left with 0")


def test_program_output_stays_off_the_screen(screen: StartScreen, tmp_path: Path) -> None:
    script = tmp_path / "talks.py"
    script.write_text(
        "import sys, time\nprint('input', repr(sys.stdin.read()), flush=True)\n"
        "print('its output', flush=True)\n"
        "def burn():\n    end = time.monotonic() + 2\n    while time.monotonic() < end: pass\n"
        "burn()\nprint('last line')\nraise SystemExit(5)\n"
    )
    one = screen("top", "--delay", "0.2", "--", main_python(), script)
    text = one.wait("burn .*talks.py")
    assert "its output" not in text
    one.press("q")
    one.wait("left with 5", has("input ''"), has("its output"), has("last line"))


def test_replay(screen: StartScreen, recording: Path) -> None:
    one = screen("top", "--input", recording)
    one.wait(r"gsprof replay  0:\d\d\.\d of 0:12.0")
    one.press("Space")
    one.wait("PAUSED")
    one.press("Home")
    one.wait(r"0:00\.0 of 0:12.0  PAUSED")
    one.press("Right")
    one.wait(r"0:05\.0 of 0:12.0  PAUSED")
    one.press("End")
    whole = json.loads(gsprof("top", "--input", recording, "--once", "--json").out)
    one.wait("0:12.0 of 0:12.0  ENDED", has("spin"), has(f"samples {whole['samples']:,}"))
    one.press("Left")
    one.wait(r"0:07\.0 of 0:12.0  PAUSED")
    one.press("Home")
    one.wait(r"0:00\.0 of 0:12.0  PAUSED(?s:.*)samples 0 ")
    one.press("Space")
    one.wait(r"gsprof replay  0:\d\d\.[1-9] of 0:12.0(?! *PAUSED)")
    one.wait(r"samples [1-9]")
    one.press("q")
    one.wait("left with 0")


def test_process_tree(screen: StartScreen, start: StartTarget, tmp_path: Path) -> None:
    target = start("launcher.py", tmp_path)
    one = screen(
        "top", "-p", target.pid, "-s", "-i", "--tree", "--delay", "0.3", width=220, height=40
    )
    one.wait(rf"- process {target.pid}: ")
    one.wait(r"^.*  - process \d+: .*named.py by_exec")
    one.press("p")
    one.wait("Show one process", has(r"\d+: \S+ .*named.py"))
    one.press("End", "Enter")
    one.wait(r"tree of functions by total  process \d+")
