# SPDX-License-Identifier: Apache-2.0
"""The CPU time of reading all metric sources once, without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import List

from common import ROOT, Bench, Row, median
from support import Json

BAR_US = 300.0
ROUNDS = 3
READS = 1000


def build(bench: Bench) -> Path:
    """Compiles the benchmark with the sources of collect/, at the optimization of a release."""
    exe = bench.folder / "collect"
    sources = [ROOT / "bench" / "collect.c"]
    for folder in ("collect", "wire", "base"):
        sources += sorted((ROOT / "src" / folder).glob("*.c"))
    flags = ["-std=c11", "-O2", "-D_GNU_SOURCE", '-DGSP_VERSION="bench"']
    files = [str(path) for path in sources]
    command = ["cc", *flags, f"-I{ROOT / 'src'}", "-o", str(exe), *files, "-lm", "-ldl"]
    subprocess.run(command, check=True)
    return exe


def main(bench: Bench) -> None:
    exe = build(bench)
    results: List[Json] = []
    argv = [str(exe), str(READS), str(os.getpid())]
    for _ in range(bench.rounds(ROUNDS)):
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
        results.append(json.loads(done.stdout))
    for name in results[0]:
        if name not in ("all", "rows"):
            value = median([result[name] for result in results])
            bench.add(Row("collect", f"reading {name}, CPU", value, "us"))
    value = median([result["all"] for result in results])
    bench.add(
        Row(
            "collect",
            "reading all sources, CPU",
            value,
            "us",
            f"<= {BAR_US:.0f} us",
            value <= BAR_US,
            f"collect {READS} PID",
            f"{results[0]['rows']} rows; one process is watched; a millisecond between reads",
        )
    )
