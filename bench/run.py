#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures gsprof against its limits and its peers, prints a table and writes build/bench.json.
docs/performance.md explains the method."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict

import accuracy
import agent
import collect
import compare
import cost
import impossible_stacks
import inject
import lines
import memory
import native
import pyapi
import package
import ring
import sessions
import serving_http
import share_bias
import slowdown
import small
import sql
import top
import torn
import tree
import whole
from common import ROOT, Bench, Row, cpu_name, default_python, install_peers
from support import GSPROF

PARTS: Dict[str, Callable[[Bench], None]] = {
    "small": small.main,
    "package": package.main,
    "run": whole.main,
    "accuracy": accuracy.main,
    "torn": torn.main,
    "impossible": impossible_stacks.main,
    "bias": share_bias.main,
    "cost": cost.main,
    "slowdown": slowdown.main,
    "tree": tree.main,
    "native": native.main,
    "top": top.main,
    "sessions": sessions.main,
    "ring": ring.main,
    "sql": sql.main,
    "collect": collect.main,
    "compare": compare.main,
    "http": serving_http.main,
    "pyapi": pyapi.main,
    "lines": lines.main,
    "memory": memory.main,
    "agent": agent.main,
    "inject": inject.main,
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default=",".join(PARTS), help="parts to run, separated by commas (default: all)"
    )
    parser.add_argument(
        "--python",
        default=default_python(),
        help="interpreter of the targets (default: %(default)s)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="take a third of the time, with more noise"
    )
    parser.add_argument(
        "--no-peers", action="store_true", help="do not install or run other profilers"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with status 1 if a limit is exceeded"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=ROOT / "build" / "bench.json",
        help="output file (default: %(default)s)",
    )
    return parser.parse_args()


def main() -> int:
    args = options()
    parts = args.only.split(",")
    unknown = set(parts) - set(PARTS)
    if unknown:
        print(f"unknown part: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 64
    if not os.access(GSPROF, os.X_OK):
        print(f"{GSPROF} does not exist: run make, or set GSPROF_BIN", file=sys.stderr)
        return 66
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="gsprof-bench-"))
    bench = Bench(args.python, args.quick, folder)
    try:
        if args.no_peers:
            bench.missing = {"austin": "--no-peers", "py-spy": "--no-peers"}
        else:
            install_peers(bench)
        print(f"{cpu_name()}, {os.cpu_count()} CPUs, Linux {os.uname().release}")
        print(f"interpreter of the targets: {bench.python}")
        print(f"peers: {', '.join(bench.peers) or 'none'}")
        for name, why in bench.missing.items():
            print(f"{name}: not available ({why})")
        for part in parts:
            print(f"\n{part}", flush=True)
            try:
                PARTS[part](bench)
            except (AssertionError, OSError, RuntimeError, subprocess.SubprocessError) as error:
                bench.add(Row(part, f"{part}: failed", None, "", "", False, note=str(error)))
    finally:
        shutil.rmtree(folder)
    bench.save(args.json)
    failed = [row for row in bench.rows if row.ok is False]
    passed = [row for row in bench.rows if row.ok]
    print(
        f"\n{len(passed)} limits met, {len(failed)} exceeded, "
        f"{time.monotonic() - begin:.0f} s; {args.json}"
    )
    return 1 if failed and args.strict else 0


if __name__ == "__main__":
    sys.exit(main())
