#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs all tests. The last line has the numbers of passed and failed tests.

Stages: plain (unit tests and fuzz corpora in build/), asan (the same with ASan and UBSan in
build-asan/), tsan (unit tests with threads in build-tsan/), aarch64 (compiles all sources, and
runs unit tests that need no such kernel under qemu) and integration. Prints the whole output of
failures. A build that fails counts as a failure.

usage: run_tests.py [plain|asan|tsan|aarch64|integration]..."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
ASAN_BUILD = ROOT / "build-asan"
TSAN_BUILD = ROOT / "build-tsan"
# Unit tests in which threads share memory.
TSAN_TESTS = ["ring", "ring_stress", "daemon_sessions", "daemon_threads", "wire_control"]
TSAN_TESTS += ["agent", "agent_threads"]
ARM_BUILD = ROOT / "build-aarch64"

# The folders whose unit tests run under qemu. The others need system calls that it does not
# emulate (ptrace, memory of other processes).
ARM_FOLDERS = ("base", "py", "model", "export")

CROSS_FILE = """[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '{root}']
[built-in options]
c_args = ['--sysroot={root}']
c_link_args = ['--sysroot={root}']
[properties]
sys_root = '{root}'
pkg_config_libdir = '{root}/usr/lib/aarch64-linux-gnu/pkgconfig:{root}/usr/share/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""

# clang's sanitizer runtime is static, so shared libraries have undefined symbols.
ASAN_SETUP = ["meson", "setup", str(ASAN_BUILD), "-Db_sanitize=address,undefined"]
ASAN_SETUP += ["-Db_lundef=false", "-Dbuildtype=debugoptimized", "-Dfault_injection=true"]

ASAN_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:"
    "allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "LSAN_OPTIONS": f"suppressions={ROOT / 'tests' / 'fuzz' / 'leaks.txt'}:print_suppressions=0",
}


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: "Counts") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def run(command: List[str], env: Optional[Mapping[str, str]] = None) -> int:
    """Runs a command in the root folder, without capturing its output."""
    sys.stdout.flush()
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **(env or {})}).returncode


def run_quiet(command: List[str], env: Optional[Mapping[str, str]] = None) -> bool:
    """Runs a command and prints its output only on failure."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        print(f"$ {shlex.join(command)}\n{done.stdout}")
    return done.returncode == 0


def read_junit(path: Path) -> Counts:
    """Counts the cases of a JUnit file of meson or pytest."""
    counts = Counts()
    for case in ET.parse(path).getroot().iter("testcase"):
        results = {child.tag for child in case}
        if results & {"failure", "error"}:
            counts.failed += 1
        elif "skipped" in results:
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts


def count_runner(counts: Counts, status: int) -> Counts:
    """Adds a failure if the runner failed without a failed case, or ran nothing."""
    if (status and not counts.failed) or counts == Counts():
        counts.failed += 1
    return counts


def show_skips(path: Path) -> None:
    """Prints one line for each reason to skip a test."""
    reasons: Dict[str, int] = {}
    root = ET.parse(path).getroot()
    # pytest writes the reason as an attribute, meson only in the TAP output.
    texts = [skipped.get("message") or "" for skipped in root.iter("skipped")]
    for output in root.iter("system-out"):
        texts += re.findall(r"^ok .*# SKIP (.*)$", output.text or "", re.MULTILINE)
    for text in filter(None, texts):
        reasons[text] = reasons.get(text, 0) + 1
    for reason, count in sorted(reasons.items()):
        print(f"  skipped {count}: {reason}")


def show_failures(path: Path) -> None:
    """Prints the stdout of failed programs; meson prints only their stderr."""
    for suite in ET.parse(path).getroot().iter("testsuite"):
        if int(suite.get("failures") or 0) + int(suite.get("errors") or 0):
            for output in suite.iter("system-out"):
                print(f"--- {suite.get('name')}\n{(output.text or '').strip()}")


def run_meson(
    build: Path, env: Optional[Mapping[str, str]] = None, only: Sequence[str] = ()
) -> Counts:
    """Runs all tests of a build, or some unit tests."""
    targets = [f"tests/unit/test_{name}" for name in only]
    if not run_quiet(["ninja", "--quiet", "-k0", "-C", str(build), *targets], env):
        return Counts(failed=1)
    junit = build / "meson-logs" / "testlog.junit.xml"
    junit.unlink(missing_ok=True)
    command = ["meson", "test", "-C", str(build), "--no-rebuild", "--print-errorlogs"]
    status = run([*command, "--suite", "unit", "--suite", "fuzz", *only], env)
    if not junit.exists():
        return Counts(failed=1)
    show_failures(junit)
    show_skips(junit)
    return count_runner(read_junit(junit), status)


def plain() -> Counts:
    if not (BUILD / "build.ninja").exists() and not run_quiet(["meson", "setup", str(BUILD)]):
        return Counts(failed=1)
    return run_meson(BUILD)


def asan() -> Counts:
    setup = list(ASAN_SETUP)
    if (ASAN_BUILD / "build.ninja").exists():  # it may lack a new option
        setup.append("--reconfigure")
    if not run_quiet(setup, {"CC": "clang"}):
        return Counts(failed=1)
    return run_meson(ASAN_BUILD, ASAN_ENV)


def tsan() -> Counts:
    setup = ["meson", "setup", str(TSAN_BUILD), "-Db_sanitize=thread", "-Db_lundef=false"]
    if not (TSAN_BUILD / "build.ninja").exists() and not run_quiet(setup, {"CC": "clang"}):
        return Counts(failed=1)
    return run_meson(TSAN_BUILD, {"TSAN_OPTIONS": "halt_on_error=1"}, TSAN_TESTS)


def cross_command(entry: Mapping[str, str]) -> List[str]:
    """Turns a compile command into one that checks the source for aarch64."""
    words = shlex.split(entry["command"])
    while words[0] in ("ccache", "sccache"):
        words.pop(0)
    kept = ["aarch64-linux-gnu-gcc", "-fsyntax-only", "-Werror"]
    pairs = {"-o", "-MQ", "-MF", "-MT"}
    i = 1
    while i < len(words):
        if words[i] in pairs:
            i += 1
        elif words[i] not in ("-MD", "-MMD", "-c", "-fdiagnostics-color=always"):
            kept.append(words[i])
        i += 1
    # Library headers are the same for every machine. Those of libc are in the compiler's own
    # folders, which are searched first.
    kept += ["-idirafter", "/usr/include"]
    kept += [f"-idirafter{p}" for p in Path("/usr/include").glob("*-linux-gnu")]
    return kept


def set_up_arm(root: Path) -> bool:
    """Configures the build for aarch64 with this system root."""
    if (ARM_BUILD / "build.ninja").exists():
        return True
    ARM_BUILD.mkdir(exist_ok=True)
    cross = ARM_BUILD / "cross.ini"
    cross.write_text(CROSS_FILE.format(root=root))
    return run_quiet(["meson", "setup", str(ARM_BUILD), "--cross-file", str(cross)])


def run_arm() -> Counts:
    """Runs unit tests for aarch64 under qemu."""
    try:
        got = subprocess.run(
            [str(ROOT / "tools" / "get-arm64.sh")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"  skipped 1: unit tests for aarch64: {reason}")
        return Counts(skipped=1)
    if not set_up_arm(Path(got.stdout.strip())):
        return Counts(failed=1)
    listed = subprocess.run(
        ["meson", "introspect", "--tests", str(ARM_BUILD)], stdout=subprocess.PIPE, check=True
    )
    tests = [t["name"] for t in json.loads(listed.stdout) if "gsprof:unit" in t["suite"]]
    return run_meson(ARM_BUILD, only=[t for t in tests if t.split("_")[0] in ARM_FOLDERS])


def compile_arm() -> Counts:
    counts = Counts()
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    sources = [
        e
        for e in entries
        if f"{os.sep}subprojects{os.sep}"
        not in os.path.realpath(os.path.join(e["directory"], e["file"]))
        and "/tests/" not in e["file"]
        # Python's headers depend on the machine.
        and "/pyext/" not in e["file"]
    ]
    waiting = list(sources)
    running: List[subprocess.Popen[str]] = []
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            entry = waiting.pop()
            running.append(
                subprocess.Popen(
                    cross_command(entry),
                    cwd=entry["directory"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        output, _ = running[0].communicate()
        if running.pop(0).returncode:
            counts.failed += 1
            print(output)
        else:
            counts.passed += 1
    return count_runner(counts, 0)


def aarch64() -> Counts:
    counts = compile_arm()
    counts.add(run_arm())
    return counts


def run_pytest(junit: Path, what: Sequence[str]) -> Counts:
    python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
    junit.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no"]
    status = run([*command, "--durations=8", f"--junitxml={junit}", *what])
    return count_runner(read_junit(junit), status) if junit.exists() else Counts(failed=1)


def integration() -> Counts:
    if not (BUILD / "gsprof").exists():
        print(f"{BUILD / 'gsprof'} does not exist")
        return Counts(failed=1)
    junit = BUILD / "integration.junit.xml"
    # Each file runs in one worker, so that its shared fixtures start once.
    workers = ["-n", str(os.cpu_count() or 1), "--dist", "loadfile"]
    counts = run_pytest(junit, [*workers, "tests/integration"])
    if junit.exists():
        show_skips(junit)
    return counts


STAGES: Dict[str, Callable[[], Counts]] = {
    "plain": plain,
    "asan": asan,
    "tsan": tsan,
    "aarch64": aarch64,
    "integration": integration,
}


def main() -> int:
    names = sys.argv[1:] or list(STAGES)
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        print(f"unknown stage: {' '.join(unknown)} ({' '.join(STAGES)})", file=sys.stderr)
        return 64
    total = Counts()
    summary = []
    for name in names:
        print(f"== {name}")
        start = time.monotonic()
        try:
            counts = STAGES[name]()
        except (OSError, ValueError, ET.ParseError) as error:
            print(f"{name}: {error}")
            counts = Counts(failed=1)
        total.add(counts)
        summary.append(f"{name:<12} {counts}  ({time.monotonic() - start:.0f} s)")
    print("\n" + "\n".join(summary))
    BUILD.mkdir(exist_ok=True)
    (BUILD / "test-counts").write_text(f"{total}\n")  # for .ci/run
    print(total, flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
