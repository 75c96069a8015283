# SPDX-License-Identifier: Apache-2.0
"""What one look of all sources of metrics costs, without a GPU."""

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
LOOKS = 1000


def build(bench: Bench) -> Path:
    """The benchmark with the sources themselves, at the optimisation that users get."""
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
    looks: List[Json] = []
    argv = [str(exe), str(LOOKS), str(os.getpid())]
    for _ in range(bench.rounds(ROUNDS)):
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
        looks.append(json.loads(done.stdout))
    for name in looks[0]:
        if name not in ("all", "rows"):
            value = median([look[name] for look in looks])
            bench.add(Row("collect", f"a look at {name}, CPU", value, "us"))
    value = median([look["all"] for look in looks])
    bench.add(
        Row(
            "collect",
            "a look at all sources, CPU",
            value,
            "us",
            f"<= {BAR_US:.0f} us",
            value <= BAR_US,
            f"collect {LOOKS} PID",
            f"{looks[0]['rows']} rows; one process is watched; a millisecond between two looks",
        )
    )
