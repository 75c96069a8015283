# SPDX-License-Identifier: Apache-2.0
"""The worst case, a call every few tens of nanoseconds: torn stacks, failed samples, and how often
the target is stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from common import Bench, Cost, Row, Tool, need, run, shown, tools
from support import GSPROF, Target, state_of

LIMIT_PCT = 0.1

Stacks = Iterator[Tuple[List[str], int]]


def folded_stacks(text: str, name: Callable[[str], str]) -> Stacks:
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if count.isdigit() and ";" in stack and not line.startswith("#"):
            yield [name(word) for word in stack.split(";")], int(count)


def gsprof_stacks(path: Path) -> Stacks:
    out = path.with_suffix(".folded")
    argv = [GSPROF, "convert", "--nolineno", "-i", path, "-o", out]
    need(run(argv), argv)
    return folded_stacks(out.read_text(), lambda word: word.split(" ")[0])


def pyspy_stacks(path: Path) -> Stacks:
    return folded_stacks(path.read_text(), lambda word: word.split(" ")[0])


def austin_stacks(path: Path) -> Stacks:
    """P1;T0:1;file:name:line;… and the microseconds since the last sample."""
    for stack, _ in folded_stacks(
        path.read_text(), lambda word: re.sub(r"^.*:([^:]*):\d+$", r"\1", word)
    ):
        yield stack[2:], 1


STACKS = {
    "gsprof": gsprof_stacks,
    "austin": austin_stacks,
    "py-spy": pyspy_stacks,
    "py-spy --nonblocking": pyspy_stacks,
}


def illegal(stacks: Stacks, pairs: Sequence[Sequence[str]]) -> Tuple[int, int]:
    """The number of stacks with a call that the program cannot make, and of all stacks."""
    legal = {(caller, callee) for caller, callee in pairs}
    total = bad = 0
    for names, count in stacks:
        total += count
        whole = ["", *names]
        if any(pair not in legal for pair in zip(whole, whole[1:])):
            bad += count
    return bad, total


def watched(argv: List[str], target: Target, interrupt_s: Optional[float]) -> Tuple[Cost, float]:
    """Runs a profiler, and polls how often the target is stopped."""
    stopped = polls = 0
    end = time.monotonic() + (interrupt_s or 0)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            stopped += state_of(target.pid) in "Tt"
            polls += 1
            if interrupt_s is not None and time.monotonic() > end:
                process.send_signal(signal.SIGINT)
                interrupt_s = None
            try:
                process.wait(0.0007)
            except subprocess.TimeoutExpired:
                pass
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return Cost(process.returncode, 0.0, 0.0, text), 100.0 * stopped / max(1, polls)


def one(bench: Bench, tool: Tool, target: Target, rate_hz: int) -> None:
    path = bench.fresh(tool.suffix)
    seconds = bench.seconds(6 if tool.name == "gsprof" else 3)
    argv = tool.argv(target.pid, rate_hz, seconds, path)
    cost, stopped_pct = watched(argv, target, seconds if tool.interrupt else None)
    if cost.status:
        bench.add(Row("torn", f"{rate_hz} Hz: {tool.name}", None, "%", note=cost.out[-200:]))
        return
    samples, failed = tool.samples(cost, path)
    bad, total = illegal(STACKS[tool.name](path), target.facts["pairs"])
    path.unlink(missing_ok=True)
    ours = tool.name == "gsprof"
    figures: Dict[str, float] = {
        "torn stacks": 100.0 * bad / max(1, total),
        "failed samples": 100.0 * failed / max(1, samples + failed * ours),
        "target found stopped": stopped_pct,
    }
    for what, value in figures.items():
        limit = 0.0 if what.startswith("target") else LIMIT_PCT
        bench.add(
            Row(
                "torn",
                f"{rate_hz} Hz: {tool.name}: {what}",
                value,
                "%",
                f"<= {limit:g} %" if ours else "",
                value <= limit if ours else None,
                shown(argv),
                f"of {total}" if what.startswith("torn") else "",
            )
        )


def main(bench: Bench) -> None:
    target = bench.target("calls60ns.py")
    try:
        for rate_hz in (1000, 10000):
            for tool in tools(bench):
                one(bench, tool, target, rate_hz)
    finally:
        target.end()
