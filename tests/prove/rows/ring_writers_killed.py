# SPDX-License-Identifier: Apache-2.0
"""Processes that write rings are killed; a reader then finds everything that they published."""

from __future__ import annotations

import json
import subprocess

from trials import TOOLS, Context, Result

NAME = "ring_writers_killed"
ORDER = 60
TITLE = "ring writers killed"
REQUIRED = 10_000
REQUIREMENT = "0 published rows or strings lost or torn"
SHORT = 30


def run(context: Context, count: int, seconds: float) -> Result:
    tool = TOOLS / "ring_kills"
    limit_s = min(seconds, 1e6)
    done = subprocess.run(
        [str(tool), str(min(count, 1 << 40)), f"{limit_s:f}", str(context.seed + 1)],
        stdout=subprocess.PIPE,
        timeout=limit_s + 300,
        text=True,
        check=True,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    result = Result(count=said["kills"])
    for key, name in (("rows", "rows published"), ("strings", "strings published")):
        result.add(name, said[key])
    result.add("killed before the first row", said["early"])
    if said["wrong"]:
        again = f"build/tests/tools/ring_kills {said['wrong_kill'] + 1} 600 {context.seed + 1}"
        result.failures.append(context.failure(said["what"], said["wrong_kill"], again))
    return result
