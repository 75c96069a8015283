#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the last commit twice, and checks that both builds have the same bytes.

usage: check_reproducible.py [--keep] [--target FILE]...

The two builds differ in folder, length of its name, umask, time zone and locale, and use no
compiler cache. The page of the second one is not taken from the cache. Compared are the program,
the agent, the extension, the page and the wheel; with --target only these files of the build
folder. Prints each file with its hash; the status is 1 if one differs. --keep keeps the folders.
"""
from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    "src/cli/gsprof",
    "python/gsprof/libgsprof_agent.so",
    "python/gsprof/_gsprof.abi3.so",
    "src/export/page.html",
]
WHEEL = "import sys; sys.path.insert(0, 'python/wheel'); import backend; backend.build_wheel('.')"


def web_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(os.environ.get("GSPROF_WEB_CACHE") or os.path.join(home, "gsprof", "web"))


def cache_without_pages(folder: Path) -> Path:
    """The npm packages of the cache, but no finished page."""
    folder.mkdir(parents=True)
    cache = web_cache()
    for one in cache.iterdir() if cache.is_dir() else []:
        if not one.name.startswith("page-"):
            (folder / one.name).symlink_to(one)
    return folder


def unpack(folder: Path, umask: int) -> None:
    """Writes the files of the last commit, and the pinned downloads that git does not have."""
    before = os.umask(umask)
    folder.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "HEAD"], stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    for name in ("yyjson", "duckdb"):
        source = ROOT / "subprojects" / name
        if source.is_dir() and not (folder / "subprojects" / name).exists():
            shutil.copytree(source, folder / "subprojects" / name)
    os.umask(before)


def build(folder: Path, umask: int, env: Dict[str, str], targets: List[str]) -> None:
    whole = {**os.environ, **env, "CCACHE_DISABLE": "1"}
    commit_time = subprocess.run(
        ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], stdout=subprocess.PIPE, check=True
    )
    whole["SOURCE_DATE_EPOCH"] = commit_time.stdout.decode().strip()
    before = os.umask(umask)
    if targets:
        commands = [["meson", "setup", "build"], ["ninja", "-C", "build", *targets]]
    else:
        commands = [[sys.executable, "-c", WHEEL]]
    for command in commands:
        subprocess.run(command, cwd=folder, env=whole, stdout=subprocess.DEVNULL, check=True)
    os.umask(before)


def hashes(folder: Path, targets: List[str]) -> Dict[str, str]:
    paths = [folder / "build" / name for name in targets or FILES]
    if not targets:
        paths += sorted(folder.glob("*.whl"))
    found = {}
    for path in paths:
        data = path.read_bytes() if path.exists() else b""
        name = str(path.relative_to(folder))
        found[name] = hashlib.sha256(data).hexdigest() if data else "missing"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="keep the two folders")
    parser.add_argument("--target", action="append", default=[], help="compare only this file")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="gsprof-reproducible-"))
    one, two = base / "one", base / "another-folder" / "with a longer name"
    ways = [
        (one, 0o022, {"TZ": "UTC", "LC_ALL": "C"}),
        (two, 0o077, {"TZ": "Pacific/Auckland", "LC_ALL": "C.UTF-8"}),
    ]
    try:
        for folder, umask, env in ways:
            unpack(folder, umask)
            if folder is two:
                env = {**env, "GSPROF_WEB_CACHE": str(cache_without_pages(base / "web"))}
            build(folder, umask, env, options.target)
        first, second = hashes(one, options.target), hashes(two, options.target)
    finally:
        if not options.keep:
            shutil.rmtree(base, ignore_errors=True)
    bad = 0
    for name in sorted({*first, *second}):
        a, b = first.get(name, "missing"), second.get(name, "missing")
        same = a == b != "missing"
        bad += not same
        print(f"{'same' if same else 'DIFFERS':8} {a[:16]} {b[:16]}  {name}")
    if options.keep:
        print(f"the folders are in {base}; compare with: diffoscope, or cmp -l")
    print(f"{bad} of {len(first)} files differ" if bad else "all files are the same")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
