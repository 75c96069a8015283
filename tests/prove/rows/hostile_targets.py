# SPDX-License-Identifier: Apache-2.0
"""Hostile targets: changing, lying or cyclic memory, hostile ELF and DWARF.

Most trials are in one process (tests/fuzz/hostile_targets.c) with ASan and UBSan: images of real
Python processes with hostile words, which also change during the read, and damaged ELF files. In
one of a hundred trials, gsprof itself observes a real process that overwrites its own frames, or an
interpreter whose unwind tables, symbols and notes are damaged.

`make test` uses the programs of the default build, without sanitizers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import List, Mapping

from measure import measure
from support import PROGRAMS, Python, probe
from trials import BUILD, Context, Result

NAME = "hostile_targets"
ORDER = 100
TITLE = "hostile targets: changing, lying or cyclic memory, hostile ELF and DWARF"
REQUIRED = 100_000
REQUIREMENT = "0 crashes; a trial takes at most 2 s (a command 20 s) and 300 MB"
SHORT = 400

REAL_REQUIRED = 1_000
REAL_EACH = 100
BATCH = 1_000
TRIAL_MS = 2_000
COMMAND_S = 20.0
DAY_S = 86_400.0
RSS_MB = 300
# Memory of the sanitizers themselves.
SHADOW_MB = 200
ROOT = Path(__file__).resolve().parents[3]
FUZZ = ROOT / "tests" / "fuzz"
BUILD_FUZZ = ROOT / "build-fuzz"
GSPROF = BUILD / "src" / "cli" / "gsprof"
SANITIZERS = {
    "ASAN_OPTIONS": "quarantine_size_mb=16",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "LSAN_OPTIONS": f"suppressions={FUZZ / 'leaks.txt'}:print_suppressions=0",
}
MEMORY = "trials with hostile memory"
ELF = "trials with hostile ELF files"
REAL = "commands with real hostile processes"
READ = "commands with status 0"
HEALTHY = "commands with healthy processes"
ACCEPTED = (0, 1, 65, 69, 75, 77)
# Most damage leaves something to show: fewer successes than this have another cause.
READ_SHARE = 0.2
ENOUGH = 50  # commands, before the share counts


def is_reached(count: int, details: Mapping[str, float]) -> bool:
    is_read = details.get(READ, 0) >= READ_SHARE * details.get(REAL, 0)
    return count >= REQUIRED and details.get(REAL, 0) >= REAL_REQUIRED and is_read


# ------------------------------------------------------------------------------------ one process


def program(is_short: bool) -> Path:
    """Returns the program with sanitizers; the one of the default build for short runs."""
    if is_short:
        return Path(BUILD / "tests" / "fuzz" / "hostile_targets")
    subprocess.run(
        ["ninja", "-C", str(BUILD_FUZZ), "tests/fuzz/hostile_targets"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return Path(BUILD_FUZZ / "tests" / "fuzz" / "hostile_targets")


def elf_folder(context: Context) -> Path:
    """Returns a folder of ELF files: with and without debug information, compressed, stripped."""
    folder: Path = context.folder / "elf"
    if folder.exists():
        return folder
    folder.mkdir()
    for path in (FUZZ / "corpus" / "native_file").iterdir():
        shutil.copy(path, folder)
    shutil.copy(BUILD / "tests" / "tools" / "regcheck", folder / "debug")
    for name, options in (
        ("zlib", ["--compress-debug-sections=zlib"]),
        ("gabi", ["--compress-debug-sections=zlib-gabi"]),
        ("stripped", ["--strip-all"]),
        ("only-debug", ["--only-keep-debug"]),
    ):
        subprocess.run(
            ["objcopy", *options, folder / "debug", folder / name], check=True, stderr=-3
        )
    return folder


def run_inside(context: Context, first: int, count: int, seconds: float, is_short: bool) -> Result:
    result = Result()
    progress = context.folder / "progress"
    command: List[str] = [
        str(program(is_short)),
        str(FUZZ / "corpus"),
        str(elf_folder(context)),
        str(first),
        str(count),
        f"{seconds:.3f}",
        str(progress),
    ]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **SANITIZERS},
        errors="replace",
        text=True,
        check=False,
    )
    if done.returncode or not done.stdout:
        at = int(progress.read_text(encoding="ascii") or first)
        again = f"{command[0]} {command[1]} ELF_FOLDER {at} 1 60 /dev/null"
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line or "error" in line]
        what = f"status {done.returncode} in trial {at}: {' '.join(lines)[:400]}"
        result.count = at - first + 1
        result.failures.append(context.failure(what, at, again))
        return result
    found = json.loads(done.stdout)
    result.count = found["memory"] + found["elf"]
    result.add(MEMORY, found["memory"])
    result.add(ELF, found["elf"])
    limit_mb = RSS_MB + (0 if is_short else SHADOW_MB)
    if found["rss_mb"] > limit_mb:
        what = f"{found['rss_mb']} MB are more than {limit_mb} MB"
        result.failures.append(context.failure(what, first))
    # A loaded machine delays a trial: the processor time of a second run decides.
    if found["longest_ms"] > TRIAL_MS and not is_quick(command, found["longest"]):
        what = f"trial {found['longest']} took {found['longest_ms']} ms"
        result.failures.append(context.failure(what, found["longest"]))
    return result


def is_quick(command: List[str], trial: int) -> bool:
    before = os.times()
    subprocess.run(
        [*command[:3], str(trial), "1", "60", command[6]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    after = os.times()
    spent_s = after.children_user + after.children_system
    spent_s -= before.children_user + before.children_system
    return spent_s * 1000 <= TRIAL_MS


# --------------------------------------------------------------------------------- real processes


def damaged_python(context: Context, python: Python) -> Path:
    """Returns a copy of an interpreter with damage where it does not need the bytes itself."""
    folder = context.folder / "damaged"
    folder.mkdir(exist_ok=True)
    path = folder / f"python{context.random.getrandbits(32)}"
    shutil.copy(Path(python.path).resolve(), path)
    listed = subprocess.run(
        ["readelf", "-SW", path], stdout=subprocess.PIPE, stderr=-3, text=True, check=False
    ).stdout
    names = (".eh_frame", ".eh_frame_hdr", ".symtab", ".strtab", ".note", ".debug", ".gnu_debug")
    places = []
    for line in listed.splitlines():
        words = line.replace("[ ", "[").split()
        if len(words) > 5 and words[1].startswith(names):
            places.append((int(words[4], 16), int(words[5], 16)))
    with path.open("r+b") as file:
        for _ in range(context.random.randrange(1, 400)):
            start, length = context.random.choice(places)
            if length:
                file.seek(start + context.random.randrange(length))
                file.write(bytes([context.random.choice((0, 0xFF, context.random.getrandbits(8)))]))
    path.chmod(0o755)
    return Path(path)


def target(context: Context, python: Python) -> List[str]:
    """Returns the command line of a hostile process."""
    if context.random.random() < 0.3:
        home = Path(python.path).resolve().parent.parent
        os.environ["PYTHONHOME"] = str(home)
        return [str(damaged_python(context, python)), str(PROGRAMS / "deep.py"), "20"]
    how = context.random.choice(("random", "cycle", "ones", "pointers"))
    seed = str(context.random.getrandbits(30))
    return [python.path, str(PROGRAMS / "scribble.py"), how, seed]


def command_line(context: Context, pid: int) -> List[str]:
    out = str(context.folder / "out.json")
    words: List[str] = context.random.choice(
        (
            ["dump", "-p", str(pid), "--locals", "--json"],
            ["dump", "-p", str(pid), "--native"],
            ["backtrace", str(pid)],
            ["record", "-p", str(pid), "-i", "-r", "1000", "-d", "0.2", "--force", "-o", out],
            ["record", "-p", str(pid), "--native", "-r", "200", "-d", "0.2", "--force", "-o", out],
        )
    )
    return words


def run_real(context: Context, python: Python, trial: int) -> Result:
    result = Result()
    os.environ.pop("PYTHONHOME", None)
    line = target(context, python)
    victim = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    os.environ.pop("PYTHONHOME", None)
    try:
        assert victim.stdout
        victim.stdout.readline()
        arguments = command_line(context, victim.pid)
        done = measure(GSPROF, *arguments, limit_s=COMMAND_S)
        status = done.status
        what = ""
        if done.status not in ACCEPTED:
            what = f"status {done.status}"
        elif done.time_s > COMMAND_S:
            what = f"{done.time_s:.1f} s"
        elif done.peak_mb > RSS_MB:
            what = f"{done.peak_mb:.0f} MB"
        if what:
            text = f"gsprof {' '.join(arguments)} of {' '.join(line)}: {what}"
            result.failures.append(context.failure(text, trial))
    finally:
        victim.kill()
        victim.wait()
    result.count = 1
    result.add(REAL)
    result.add(READ, int(status == 0))
    return result


def run_healthy(context: Context, python: Python, trial: int) -> Result:
    """The same commands succeed with a process that is not hostile."""
    result = Result()
    healthy = subprocess.Popen(
        [python.path, str(PROGRAMS / "deep.py"), "20"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    try:
        assert healthy.stdout
        healthy.stdout.readline()
        done = measure(GSPROF, "dump", "-p", str(healthy.pid), "--json", limit_s=COMMAND_S)
        if done.status != 0 or "deep" not in done.out:
            what = f"dump of a healthy process: status {done.status}: {done.out[:200]} {done.err}"
            result.failures.append(context.failure(what, trial))
    finally:
        healthy.kill()
        healthy.wait()
    result.add(HEALTHY)
    return result


# -------------------------------------------------------------------------------------------- row


def run(context: Context, count: int, seconds: float) -> Result:
    total = Result()
    is_short = context.is_short
    # Trials of different batches differ.
    first = context.seed * 1_000_000_000
    while total.count < count and not context.is_over(seconds):
        left_s = min(seconds - (time.monotonic() - context.began_s), DAY_S)
        some = min(BATCH, count - total.count)
        parts = [run_inside(context, first + total.count, some, left_s, is_short)]
        for _ in range(1 if is_short else max(1, some // REAL_EACH)):
            # Finding all interpreters takes long.
            system = probe("/usr/bin/python3") if is_short else None
            python = system or context.random.choice(context.pythons)
            if not context.is_over(seconds):
                parts.append(run_real(context, python, total.count))
        parts.append(run_healthy(context, python, total.count))
        for part in parts:
            total.merge(part)
        if total.failures:
            break
    commands = total.details.get(REAL, 0) + context.before.get(REAL, 0)
    succeeded = total.details.get(READ, 0) + context.before.get(READ, 0)
    if commands >= ENOUGH and succeeded < READ_SHARE * commands:
        what = f"only {succeeded:.0f} of {commands:.0f} commands have status 0"
        total.failures.append(context.failure(what, total.count))
    return total
