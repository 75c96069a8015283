# SPDX-License-Identifier: Apache-2.0
"""Each call of the C library in our code fails once."""

from __future__ import annotations

import hashlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
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
    digest = hashlib.sha256()
    for path in MODULES.values():
        if path.exists():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def short_name(text: str) -> str:
    """Returns a name for a site or command that is short enough to be recorded for each."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def selected() -> List[Work]:
    """Returns the commands; GSPROF_FAULT_ONLY selects by a part of the name."""
    only = os.environ.get("GSPROF_FAULT_ONLY", "")
    works = [work for work in WORKS if only in work.name]
    return works if MODULES["agent"].exists() else [work for work in works if not work.is_inside]


def run(context: Context, count: int, seconds: float) -> Result:
    if not context.is_short:
        build()
        context.restart()
    elif not MODULES["gsprof"].exists():
        raise RuntimeError(
            f"no {MODULES['gsprof']}: the stage asan of tools/run_tests.py builds it"
        )
    result = Result()
    material = context.folder / "faults"
    material.mkdir()
    bench = Bench(material, is_small=context.is_short)
    try:
        if context.is_short:
            run_short(context, bench, count, result)
        else:
            run_all(context, bench, count, seconds, result)
    finally:
        bench.end()
    return result


def run_short(context: Context, bench: Bench, count: int, result: Result) -> None:
    """Random sites of a few quick commands."""
    quick = [work for work in WORKS if work.is_stable and "{a_gsp}" in work.argv]
    for work in context.random.sample(quick, 4):
        sites = bench.baseline(work)
        for site in context.random.sample(sites, min(len(sites), count // 4)):
            try_site(context, bench, work, site, result)


def run_all(context: Context, bench: Bench, count: int, seconds: float, result: Result) -> None:
    """Each site that did not pass in a batch that is part of the results. A site that fails is
    tried again by each batch; one that is not reached again is counted as such, once."""
    noted = result.notes.setdefault(stamp(), [])
    passed = {*context.notes.get(stamp(), [])}
    tried: Set[str] = set()  # in this batch

    def is_over() -> bool:
        return bool(context.is_over(seconds) or result.count >= count)

    def attempt(work: Work, site: Site) -> None:
        if not is_over() and try_site(context, bench, work, site, result):
            name = short_name(site.key)
            passed.add(name)
            noted.append(name)

    for work in selected():
        if short_name(work.name) in passed:
            continue
        sites = {short_name(site.key): site for site in bench.baseline(work)}
        left = [name for name in sites if name not in passed and name not in tried]
        with ThreadPoolExecutor(1 if work.is_alone else context.jobs) as pool:
            for done in [pool.submit(attempt, work, sites[name]) for name in left]:
                done.result()
        if is_over():
            return
        tried.update(left)
        if passed.issuperset(sites):
            noted.append(short_name(work.name))
    result.is_complete = not os.environ.get("GSPROF_FAULT_ONLY")
    for module, path in MODULES.items():
        if path.exists():
            # Not added up: the same number each time that all sites are done.
            result.add(f"call sites in the {module} (objdump)", count_call_sites(path))


def try_site(context: Context, bench: Bench, work: Work, site: Site, result: Result) -> bool:
    """Lets one site fail. Returns whether nothing was wrong."""
    reached = False
    problems: List[str] = []
    for _ in range(1 + RETRIES):
        reached, problems = bench.attempt(work, site)
        if reached or problems:
            break
    with bench.lock:
        result.count += 1 if reached else 0
        result.add(f"failed sites in the {site.module}" if reached else "sites not reached again")
        if problems:
            what = f"{work.name}: {site.function} in {site.place}: {'; '.join(problems)}"
            # With a seed, no site is left out because it passed before.
            command = f'GSPROF_FAULT_ONLY="{work.name}" tests/prove/prove.py --only {NAME}'
            command += f" --seed {context.seed} --count 1000000"
            result.failures.append(context.failure(what, result.count, command))
    return not problems
