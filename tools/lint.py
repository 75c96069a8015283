#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs all static checks: format, layers, names, sizes, prose, links, analysers, linters, and
builds with warnings as errors.

usage: lint.py [--list] [CHECK]..."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Dict, List, Set, Tuple

import run_tests

ROOT = run_tests.ROOT
GCC_BUILD = run_tests.BUILD
TIDY_CACHE = run_tests.ASAN_BUILD / "tidy-cache"
JOBS = os.cpu_count() or 1

Result = Tuple[bool, str]

# Text that must not be in the repository. Written so that this file does not contain it.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w./$~})>*])/(?:root|home|Users)/(?!usr\b|user\b|me\b|u\b)\w",
    "a registry host": r"\b(?:pypi|npmjs|crates|rubygems|pythonhosted|yarnpkg)\.(?:org|com|io)\b",
    "a note about later work": r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b",
}
# Recorded output of real programs keeps its paths and its spelling.
RECORDED = re.compile(r"^tests/(?:fuzz/corpus|golden|unit/data)/")


def run(*command: str) -> Result:
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return done.returncode == 0, done.stdout


def tracked(*patterns: str) -> List[str]:
    """The files of the repository, including new ones, without deleted ones."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.decode()
    return sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})


def all_of(results: List[Result]) -> Result:
    return all(ok for ok, _ in results), "".join(text for ok, text in results if not ok)


def c_files() -> List[str]:
    return tracked("src/**.[ch]", "tests/**.[ch]", "include/**.[ch]", "bench/**.[ch]")


def python_files() -> List[str]:
    return tracked("*.py")


def system_python() -> str:
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def check_format() -> Result:
    return run("clang-format", "--dry-run", "-Werror", *c_files())


def check_layers() -> Result:
    return run(sys.executable, "tools/check_layers.py", ".")


def check_names() -> Result:
    return run(sys.executable, "tools/check_names.py", ".")


def check_parsers() -> Result:
    """Every parser of external bytes has a fuzz target."""
    return run(sys.executable, "tools/check_parsers.py")


def check_prose() -> Result:
    return run(sys.executable, "tools/check_prose.py")


def check_links() -> Result:
    return run(sys.executable, "tools/check_links.py")


def check_schema() -> Result:
    """The files generated from the schema of the report document are up to date."""
    return run(sys.executable, "tools/gen_report_schema.py", "--check")


def check_variables() -> Result:
    """The environment variables in the code are those in docs/. The code derives the names of
    settings, so that settings.md, which is generated, may have more."""

    def find(pattern: str, *names: str) -> Set[str]:
        return {word for name in names for word in re.findall(pattern, (ROOT / name).read_text())}

    code = tracked("src/**.[ch]", "python/**.py", "python/*.pth")
    used = find(r"[\"'](GSPROF(?:_[A-Z]+)*)[\"']", *code)
    settings = find(r"`(GSPROF(?:_[A-Z]+)*)`", "docs/settings.md")
    others = find(r"`(GSPROF(?:_[A-Z]+)*)`", "docs/configuration.md")
    faults = [f"{name}: not in docs/configuration.md" for name in used - settings - others]
    faults += [
        f"{name}: in docs/configuration.md, but not used" for name in others - used - settings
    ]
    return not faults, "\n".join(sorted(faults)) + "\n"


def check_sizes() -> Result:
    return run(sys.executable, "tools/check_sizes.py", *c_files())


def check_words() -> Result:
    """Machine-specific paths, registry hosts, notes about later work."""
    faults = []
    for name in tracked():
        if RECORDED.match(name):
            continue
        try:
            lines = (ROOT / name).read_text().splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            for what, pattern in FORBIDDEN.items():
                match = re.search(pattern, line)
                if match:
                    faults.append(f"{name}:{number}: {what}: {match[0]}")
    return not faults, "\n".join(faults) + "\n"


def check_spelling() -> Result:
    names = [name for name in tracked() if name != "LICENSE" and not RECORDED.match(name)]
    # Words that are correct here. The last is misspelt on purpose, in tests of "did you mean".
    return run("codespell", "-L", "ans,asend,nd,te,ot,hist,inout,recrod", *names)


def check_shell() -> Result:
    scripts = [
        name
        for name in tracked()
        if name.endswith(".sh")
        or (ROOT / name)
        .read_bytes()[:32]
        .startswith((b"#!/bin/sh", b"#!/bin/bash", b"#!/usr/bin/env bash"))
    ]
    return run("shellcheck", "--severity=warning", *scripts)


def check_black() -> Result:
    return run(system_python(), "-m", "black", "--quiet", "--check", "--diff", *python_files())


def check_flake8() -> Result:
    return run(system_python(), "-m", "flake8", *python_files())


def check_mypy() -> Result:
    """Folder by folder, because scripts of different folders may have the same name."""
    folders: Dict[str, List[str]] = {}
    for name in python_files():
        # The programs that tests profile are unusual on purpose.
        if "/programs/" not in name and not RECORDED.match(name):
            folders.setdefault(os.path.dirname(name), []).append(name)
    cache = str(run_tests.ASAN_BUILD / "mypy-cache")
    command = [system_python(), "-m", "mypy", "--cache-dir", cache, "--no-error-summary"]
    return all_of([run(*command, *names) for names in folders.values()])


def build_strictly(folder: Path, setup: List[str], compiler: str) -> Result:
    """Builds in the folder that the tests use, so that nothing is compiled twice."""
    if not (folder / "build.ninja").exists():
        ok, text = run("env", f"CC={compiler}", *setup, "-Dwerror=true")
    else:
        ok, text = run("meson", "configure", str(folder), "-Dwerror=true")
    return run("ninja", "--quiet", "-k0", "-C", str(folder)) if ok else (ok, text)


def check_gcc() -> Result:
    return build_strictly(GCC_BUILD, ["meson", "setup", str(GCC_BUILD)], "gcc")


def check_clang() -> Result:
    return build_strictly(run_tests.ASAN_BUILD, run_tests.ASAN_SETUP, "clang")


INCLUDE = re.compile(rb'^ *# *include *"([^"]+)"', re.MULTILINE)


def with_includes(name: str, seen: Dict[str, bytes]) -> Dict[str, bytes]:
    """The content of a file and of all of ours that it includes, by name."""
    path = next((p for p in (ROOT / name, ROOT / "src" / name) if p.is_file()), None)
    if path is None or str(path) in seen:
        return seen
    seen[str(path)] = path.read_bytes()
    for match in INCLUDE.finditer(seen[str(path)]):
        included = match.group(1).decode()
        with_includes(included, seen)
        with_includes(str(path.parent.relative_to(ROOT) / included), seen)
    return seen


# How far the analyser follows a function. Less than a tenth of its default keeps lint fast; "deep"
# uses the default. Run it before a release.
TIDY_NODES = 20000
TIDY_NODES_DEEP = 225000


def tidy_one(name: str, salt: bytes, nodes: int) -> Result:
    """Checks one file in one process. A clean result counts until the file or a header changes."""
    content = with_includes(name, {})
    digest = hashlib.sha256(salt + f"{nodes} {name}".encode())
    for path in sorted(content):
        digest.update(content[path])
    key = digest.hexdigest()
    stamp = TIDY_CACHE / key
    if stamp.exists():
        return True, ""
    command = ["clang-tidy", "--quiet", "-p", str(run_tests.ASAN_BUILD)]
    if name.startswith("tests/"):
        # Slow and of little use: a wrong test fails, and tests run under ASan.
        command.append("--checks=-clang-analyzer-*")
    for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={nodes}"):
        command.append(f"--extra-arg={word}")
    ok, text = run(*command, name)
    if ok:
        stamp.touch()
    return ok, text


def check_tidy(nodes: int = TIDY_NODES) -> Result:
    """clang-tidy, with the compile commands of the clang build."""
    database = run_tests.ASAN_BUILD / "compile_commands.json"
    if not database.exists():
        ok, text = check_clang()
        if not ok:
            return ok, text
    TIDY_CACHE.mkdir(parents=True, exist_ok=True)
    salt = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + (ROOT / "meson.build").read_bytes())
    names = tracked("src/**.c", "tests/unit/*.c", "tests/fuzz/*.c")
    with ThreadPoolExecutor(JOBS) as pool:
        return all_of(list(pool.map(lambda name: tidy_one(name, salt.digest(), nodes), names)))


def check_deep() -> Result:
    return check_tidy(TIDY_NODES_DEEP)


def check_cppcheck() -> Result:
    flags = ["--quiet", "--std=c11", "--error-exitcode=1", "--inline-suppr", f"-j{JOBS}"]
    flags += ["--enable=warning,performance,portability", "--suppress=missingIncludeSystem"]
    # False positives: compound literals after "?", and rows of an array of arrays.
    flags += ["--suppress=internalAstError", "--suppress=legacyUninitvar"]
    flags += ["-Isrc", "-D_GNU_SOURCE", "-D__x86_64__", '-DGSP_VERSION="0"']
    # It does not read system headers. These macros are from Python's headers and from <link.h>.
    flags += ["-DPyAPI_FUNC(t)=t", "-DElfW(t)=Elf64_##t"]
    flags += [f"-DPy_RETURN_{v.upper()}=return Py_{v}" for v in ("None", "True", "False")]
    return run("cppcheck", *flags, *tracked("src/**.c"))


def check_offsets() -> Result:
    """The generated tables match the headers of the interpreters on this machine."""
    return run(system_python(), "tools/gen_offsets.py", "--check")


def check_web() -> Result:
    """Types and format of the report page."""
    return run("tools/get-web.sh", "--check")


CHECKS: Dict[str, Callable[[], Result]] = {
    "format": check_format,
    "layers": check_layers,
    "names": check_names,
    "parsers": check_parsers,
    "sizes": check_sizes,
    "offsets": check_offsets,
    "words": check_words,
    "prose": check_prose,
    "links": check_links,
    "schema": check_schema,
    "variables": check_variables,
    "spelling": check_spelling,
    "shell": check_shell,
    "black": check_black,
    "flake8": check_flake8,
    "mypy": check_mypy,
    "web": check_web,
    "gcc": check_gcc,
    "clang": check_clang,
    "tidy": check_tidy,
    "cppcheck": check_cppcheck,
    "deep": check_deep,
}
# Only on request.
ON_REQUEST = {"deep"}


def main() -> int:
    if "--list" in sys.argv[1:]:
        print("\n".join(CHECKS))
        return 0
    names = sys.argv[1:] or [name for name in CHECKS if name not in ON_REQUEST]
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"no such check: {' '.join(unknown)} ({' '.join(CHECKS)})", file=sys.stderr)
        return 64
    if not shutil.which("git"):
        print("lint needs git", file=sys.stderr)
        return 69
    failed = []
    for name in names:
        start = time.monotonic()
        ok, text = CHECKS[name]()
        print(
            f"{'ok    ' if ok else 'FAILED'} {name:<9} {time.monotonic() - start:5.1f} s",
            flush=True,
        )
        if not ok:
            failed.append(name)
            print(text, flush=True)
    if failed:
        print(f"lint: failed: {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
