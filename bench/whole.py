# SPDX-License-Identifier: Apache-2.0
"""The cost of `gsprof run` for the example training script, compared with the script alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from common import ROOT, Bench, Row, median
from support import GSPROF, main_python

STEPS = 200
TRAIN = ROOT / "examples" / "train.py"

# Runs the unchanged script, then prints its CPU time: of the steps without imports, and of all.
TIMED = """
import json, runpy, sys, time
module = runpy.run_path(sys.argv[1])
model = module["make_model"]()
module["main"].__globals__["make_model"] = lambda: model
began = time.process_time()
module["main"]()
ended = time.process_time()
print(json.dumps({"steps_s": ended - began, "whole_s": ended}))
"""


class Once:
    """One run: CPU time of the steps, of the whole program, and of gsprof."""

    def __init__(self, options: Optional[Tuple[str, ...]], steps: int, folder: Path) -> None:
        program = [main_python(), "-c", TIMED, str(TRAIN)]
        before = [] if options is None else [str(GSPROF), "run", "-q", *options]
        before += [] if options is None else ["--force", "-o", str(folder / "run"), "--"]
        # One thread: the CPU time of threads that spin while waiting depends on other load.
        env: Dict[str, str] = {**os.environ, "TRAIN_STEPS": str(steps), "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            before + program, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert process.stdout is not None
        lines = process.stdout.read().decode().splitlines()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(before)} failed with {process.returncode}")
        times = json.loads(lines[-1])
        self.steps_s = float(times["steps_s"])
        self.whole_s = float(times["whole_s"])
        self.end_s = 0.0
        if options is not None:
            meta = json.loads((folder / "run" / "meta.json").read_text())
            self.end_s = time.time() - meta["end_ns"] / 1e9
        self.own_s = usage.ru_utime + usage.ru_stime - self.whole_s


def main(bench: Bench) -> None:
    """Interleaves the runs, so that other load affects all, and takes the median of the ratios."""
    kinds: Dict[str, Tuple[str, ...]] = {"": (), ", --no-torch": ("--no-torch",)}
    folder = Path(bench.fresh("whole"))
    folder.mkdir()
    runs: Dict[str, List[Tuple[Once, Once]]] = {kind: [] for kind in kinds}
    for _ in range(bench.rounds(9)):
        for kind, options in kinds.items():
            pair = (Once(None, STEPS, folder), Once(options, STEPS, folder))
            runs[kind].append(pair)
    shutil.rmtree(folder)
    command = "gsprof run -- python3 examples/train.py"
    for kind, pairs in runs.items():
        steps = median([with_.steps_s / alone.steps_s for alone, with_ in pairs])
        whole = median([with_.whole_s / alone.whole_s for alone, with_ in pairs])
        bar = 1.05 if not kind else 1.02
        bench.add(
            Row(
                "run",
                f"CPU time of the steps under gsprof run{kind}",
                steps,
                "x",
                f"<= {bar}",
                steps <= bar,
                command,
                note=f"{whole:.3f} x with imports; {len(pairs)} interleaved pairs",
            )
        )
    own = median([with_.own_s for _, with_ in runs[""]])
    ends = median([with_.end_s for _, with_ in runs[""]])
    bench.add(Row("run", "gsprof's own CPU time, report included", own, "s", command=command))
    bench.add(Row("run", "from the program's end to gsprof's", ends, "s", command=command))
