# SPDX-License-Identifier: Apache-2.0
"""Help, examples, completions, doctor, and the commands of the README."""

from __future__ import annotations

import encodings
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest

from conftest import StartRunning, StartTarget
from support import (
    EXIT_USAGE,
    ROOT,
    gsprof,
    has_any,
    main_python,
    profile_of,
    record_longer,
    record_until,
    wait_for,
)

COMMANDS = ["record", "top", "dump", "flamegraph", "convert", "report", "doctor", "completions"]


def test_version() -> None:
    assert re.fullmatch(r"gsprof \d+\.\d+\.\d+\S*\n", gsprof("--version").out)


def test_help_lists_all() -> None:
    out = gsprof("--help").out
    for command in COMMANDS:
        assert command in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    """Short and long help, at least three examples, no line too wide for a terminal."""
    short = gsprof(command, "-h").out
    long = gsprof(command, "--help").out
    assert len(short.splitlines()) <= 45
    examples = [
        line.strip()
        for line in long.splitlines()
        if line.strip().startswith(("gsprof ", "sudo gsprof "))
    ]
    assert len(set(examples)) >= 3, long
    for text in (short, long):
        assert max(map(len, text.splitlines())) <= 100
        assert "\x1b" not in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions(shell: str) -> None:
    script = gsprof("completions", shell).out
    for command in COMMANDS:
        assert command in script
    assert "subprocesses" in script
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}: tools/install-deps.sh test installs it")
    subprocess.run([shell, "-n"], input=script.encode(), check=True)


def test_completion_works() -> None:
    """bash completes a partial command name."""
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    script = (
        gsprof("completions", "bash").out
        + """
COMP_WORDS=(gsprof rec); COMP_CWORD=1; COMP_LINE="gsprof rec"; COMP_POINT=10
function=$(complete -p gsprof | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" gsprof rec gsprof
echo "${COMPREPLY[*]}"
"""
    )
    done = subprocess.run(
        ["bash", "--norc"], input=script.encode(), stdout=subprocess.PIPE, check=True
    )
    assert done.stdout.decode().split() == ["record"]


def test_doctor() -> None:
    out = gsprof("doctor", status=None).out
    for word in ("kernel", "ptrace", "python"):
        assert word in out.lower()


def test_doctor_json() -> None:
    out = gsprof("doctor", "--json", status=None).out
    assert isinstance(json.loads(out), dict)


def test_report_json(start: StartTarget, tmp_path: Path) -> None:
    target = start("shares.py")
    path = tmp_path / "p.gsp"
    record_longer(lambda path: "half" in profile_of(path).names(), target.pid, path)
    raw = json.loads(gsprof("report", path, "--json").out)
    assert "half" in json.dumps(raw)


def test_quiet(start: StartTarget, tmp_path: Path) -> None:
    target = start("spin.py")
    done = record_longer(Path.exists, target.pid, tmp_path / "p.svg", "-q")
    assert done.out == "" and done.err == ""


def test_record_messages(start: StartTarget, tmp_path: Path) -> None:
    """One line at the start, the file and the next command at the end; no terminal codes."""
    target = start("spin.py")
    done = record_longer(Path.exists, target.pid, tmp_path / "p.gsp")
    assert str(target.pid) in done.err
    assert str(tmp_path / "p.gsp") in done.err
    assert "gsprof" in done.err.strip().splitlines()[-1]
    assert "\x1b" not in done.err and "\r" not in done.err


def test_default_name(start: StartTarget, tmp_path: Path) -> None:
    """Without -o the file name contains the time, and record prints it."""
    target = start("spin.py")
    done = gsprof("record", "-p", target.pid, "-d", "1", cwd=tmp_path)
    made = list(tmp_path.iterdir())
    assert len(made) == 1 and made[0].name in done.err


def readme_commands() -> list[str]:
    """Returns the lines of the README's shell blocks that call gsprof."""
    path = ROOT / "README.md"
    if not path.exists():
        return []
    blocks = re.findall(r"```(?:sh|bash|console)\n(.*?)```", path.read_text(), re.S)
    lines = [line.strip().lstrip("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if re.match(r"(sudo )?(\./build/|build/)?gsprof ", line)]


def test_readme_commands(start: StartTarget, tmp_path: Path) -> None:
    """Every command of the README that reads a live process runs unchanged."""
    lines = readme_commands()
    if not lines:
        pytest.skip("the README has no command block yet")
    target = start("shares.py")
    record_until(has_any, target.pid, tmp_path / "profile.json", duration_s=0.3)
    ran = 0
    for line in lines:
        words = shlex.split(
            line.replace("$PID", str(target.pid))
            .replace(" PID", f" {target.pid}")
            .replace("4242", str(target.pid)),
            comments=True,
        )
        words = words[words.index(next(w for w in words if w.endswith("gsprof"))) + 1 :]
        if words[0] not in COMMANDS or "--" in words:
            continue
        if words[0] == "record":
            words += ["-d", "0.2", "--force"]
        files = [word for word in words if "." in word and not word.startswith("-")]
        for name in files:
            if (
                words[0] in ("flamegraph", "convert", "report")
                and not (tmp_path / name).exists()
                and name != files[-1]
            ):
                shutil.copy(tmp_path / "profile.json", tmp_path / name)
        done = gsprof(*words, status=None, cwd=tmp_path)
        assert done.status in (0, 1), (line, done)
        ran += 1
    assert ran >= 1


def test_a_process_needs_no_option(start: StartTarget, tmp_path: Path) -> None:
    """gsprof dump PID works like gsprof dump -p PID."""
    target = start("deep.py", 5)
    assert f"Process {target.pid}" in gsprof("dump", target.pid).out
    assert json.loads(gsprof("dump", target.pid, "-j", "--nonblocking").out)
    gsprof("record", target.pid, "-i", "-d", "0.2", "-o", tmp_path / "p.svg")
    gsprof("top", target.pid, "--once", "--delay", "0.2")
    both = gsprof("record", target.pid, "--", "true", status=EXIT_USAGE).err
    assert "--pid and a command exclude each other" in both
    two = gsprof("dump", target.pid, target.pid + 1, status=EXIT_USAGE).err
    assert "one process at a time" in two


@pytest.mark.parametrize(
    "words",
    [
        "dump -p PID",
        "record -i -d 0.2 -o p.svg -p PID",
        "top --once --delay 0.2 -p PID",
        "inject -p PID",
        "mem record -d 0.2 -p PID",
        "backtrace PID",
        "query PID FROM@python.backtrace",
    ],
)
def test_a_launcher_that_becomes_python(
    words: str, tmp_path: Path, runtime: Dict[str, str]
) -> None:
    """gsprof dump $! right after the start of a shim that executes Python some time later."""
    shim = tmp_path / "shim"
    shim.write_text('#!/bin/sh\nsleep 0.5\nexec "$@"\n')
    shim.chmod(0o755)
    code = "import time; time.sleep(600)"
    env = {**os.environ, **runtime, "GSPROF_FOLLOW": "0"}
    with subprocess.Popen([str(shim), main_python(), "-c", code], env=env) as process:
        try:
            named = words.replace("PID", str(process.pid)).split()
            gsprof(*(word.replace("@", " ") for word in named), env=runtime, cwd=tmp_path)
        finally:
            process.kill()


# The interpreter stays uninitialized until the file exists.
SLOW_ENCODINGS = """
import _io, time, posix
while True:
    try:
        posix.stat({go!r})
        break
    except OSError:
        time.sleep(0.01)
__path__ = [{real!r}]
exec(compile(_io.open_code({real!r} + "/__init__.py").read(), {real!r} + "/__init__.py", "exec"))
"""


@pytest.mark.parametrize("words", ["inject -p PID", "mem record -d 0.2 -o OUT -p PID"])
def test_wait_for_a_starting_interpreter(
    words: str, tmp_path: Path, runtime: Dict[str, str], running: StartRunning
) -> None:
    """The agent is loaded before the interpreter can run code, and waits until it can."""
    folder, go = tmp_path / "encodings", tmp_path / "go"
    folder.mkdir()
    real = os.path.dirname(encodings.__file__)
    (folder / "__init__.py").write_text(SLOW_ENCODINGS.format(go=str(go), real=real))
    env = {**os.environ, **runtime, "GSPROF_FOLLOW": "0", "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(argv, env=env) as process:
        try:
            maps = Path(f"/proc/{process.pid}/maps")
            named = words.replace("PID", str(process.pid)).replace("OUT", str(tmp_path / "p.gspm"))
            one = running(*named.split(), env=runtime)
            wait_for(lambda: "libgsprof_agent" in maps.read_text())
            go.touch()
            done = one.finish()
            assert done.status == 0, done
        finally:
            process.kill()


def test_program_arguments_are_the_programs(tmp_path: Path) -> None:
    """Arguments after the program belong to the program, with and without --."""
    ways: List[List[str]] = [["--"], []]
    for dashes in ways:
        done = gsprof(
            "record",
            "-o",
            tmp_path / "p.json",
            "--force",
            *dashes,
            "python3",
            "-c",
            "import sys, time\nprint(sys.argv[1:])\nend = time.time() + 0.2\n"
            "while time.time() < end: pass",
            "-o",
            "x",
            "--help",
        )
        assert done.out.strip() == "['-o', 'x', '--help']"
