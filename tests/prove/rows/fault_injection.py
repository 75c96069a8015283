# SPDX-License-Identifier: Apache-2.0
"""Each call of the C library in our code fails once."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Dict, List, Mapping, Set, Tuple

from faults import AGENT_BUILD, FAULT_BUILD, MODULES, WORKS, Bench, Site, Work, count_call_sites
from support import ROOT
from trials import Context, Result

NAME = "fault_injection"
ORDER = 80
TITLE = "fault injection: each allocation and system call site in our code fails once"
REQUIRED = 0
REQUIREMENT = "correct error, no leak, no crash"
SHORT = 24

# Sites that have failed, by the build. A run continues there.
DONE = FAULT_BUILD / "faults-done.json"
# How often a site that was reached once and then was not is tried again.
RETRIES = 2


def build() -> None:
    """Builds gsprof and the agent with -Dfault_injection=true."""
    sanitize = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dbuildtype=debugoptimized"]
    builds: List[Tuple[Path, List[str], Dict[str, str]]] = [
        (FAULT_BUILD, sanitize, {"CC": "clang"}),
        (AGENT_BUILD, [], {}),
    ]
    for folder, options, env in builds:
        whole = {**os.environ, **env}
        if not (folder / "build.ninja").exists():
            call(["meson", "setup", str(folder), "-Dfault_injection=true", *options], whole)
        else:
            call(["meson", "configure", str(folder), "-Dfault_injection=true"], whole)
        listed = call(["ninja", "-C", str(folder), "-t", "targets", "all"], whole)
        wanted = [line.split(":")[0] for line in listed.splitlines()]
        wanted = [name for name in wanted if name.startswith("python/") and ".p/" not in name]
        call(["ninja", "-C", str(folder), "src/cli/gsprof", *wanted], whole)


def call(argv: List[str], env: Mapping[str, str]) -> str:
    done = subprocess.run(
        argv, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stdout[-2000:]}")
    return done.stdout


def stamp() -> str:
    """Returns what identifies the builds: addresses are only valid for one."""
    return " ".join(str(path.stat().st_mtime_ns) for path in MODULES.values() if path.exists())


def load_done() -> Set[str]:
    try:
        saved = json.loads(DONE.read_text())
    except (OSError, ValueError):
        return set()
    return set(saved["sites"]) if saved["stamp"] == stamp() else set()


def save_done(done: Set[str]) -> None:
    DONE.write_text(json.dumps({"stamp": stamp(), "sites": sorted(done)}))


def selected() -> List[Work]:
    """Returns the commands; GSPROF_FAULT_ONLY selects by a part of the name."""
    only = os.environ.get("GSPROF_FAULT_ONLY", "")
    works = [work for work in WORKS if only in work.name]
    return works if MODULES["agent"].exists() else [work for work in works if not work.is_inside]


def run(context: Context, count: int, seconds: float) -> Result:
    is_short = count == SHORT
    if not is_short:
        build()
    elif not MODULES["gsprof"].exists():
        raise RuntimeError(
            f"no {MODULES['gsprof']}: the stage asan of tools/run_tests.py builds it"
        )
    result = Result()
    done: Set[str] = set() if is_short else load_done()
    material = context.folder / "faults"
    material.mkdir()
    bench = Bench(material, is_small=is_short)
    try:
        if is_short:
            run_short(context, bench, count, result)
        else:
            run_all(context, bench, done, count, seconds, result)
    finally:
        bench.end()
        if not is_short:
            save_done(done)
    return result


def run_short(context: Context, bench: Bench, count: int, result: Result) -> None:
    """Random sites of a few quick commands."""
    quick = [work for work in WORKS if work.is_stable and "{a_gsp}" in work.argv]
    for work in context.random.sample(quick, 4):
        sites = bench.baseline(work)
        for site in context.random.sample(sites, min(len(sites), count // 4)):
            try_site(context, bench, work, site, result)


def run_all(
    context: Context, bench: Bench, done: Set[str], count: int, seconds: float, result: Result
) -> None:
    for work in selected():
        if context.is_over(seconds) or result.count >= count:
            return
        sites = bench.baseline(work)
        for site in sites:
            if site.key in done:
                continue
            if context.is_over(seconds) or result.count >= count:
                return
            if try_site(context, bench, work, site, result):
                done.add(site.key)
    result.is_complete = not os.environ.get("GSPROF_FAULT_ONLY")
    for name, path in MODULES.items():
        if path.exists():
            # Not added up: the same number each time that all sites are done.
            result.add(f"call sites in the {name} (objdump)", count_call_sites(path))


def try_site(context: Context, bench: Bench, work: Work, site: Site, result: Result) -> bool:
    """Lets one site fail. Returns whether it was reached."""
    reached = False
    problems: List[str] = []
    for _ in range(1 + RETRIES):
        reached, problems = bench.attempt(work, site)
        if reached or problems:
            break
    result.count += 1 if reached else 0
    result.add(f"failed sites in the {site.module}" if reached else "sites not reached again")
    if problems:
        what = f"{work.name}: {site.function} in {site.place}: {'; '.join(problems)}"
        command = f'GSPROF_FAULT_ONLY="{work.name}" tests/prove/prove.py --only {NAME}'
        result.failures.append(context.failure(what, result.count, command))
    return reached
