# SPDX-License-Identifier: Apache-2.0
"""What a call of a PyTorch module costs more when the agent is there: nanoseconds, by states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

CALLS = 500
ROUNDS = 150
STATES = ("original", "loaded", "traced", "traced, seen by torch.compile")


def measure(python: str, package: Path) -> Optional[Dict[str, float]]:
    """Nanoseconds of a call in each state; None where there is no PyTorch.  package is the folder
    that holds gsprof/ as it was built."""
    env = {**os.environ, "PYTHONPATH": str(package), "GSPROF_FOLLOW": "off"}
    done = subprocess.run(
        [python, "-W", "ignore", __file__, "inside"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        check=False,
    )
    if done.returncode != 0:
        return None
    found: Dict[str, float] = json.loads(done.stdout.decode().splitlines()[-1])
    return found


def inside() -> Dict[str, float]:
    """In the interpreter with PyTorch: states in turn, the fastest of each counts."""
    import gsprof
    import torch
    from gsprof import _torch

    class Empty(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x

    module: Any = torch.nn.Module
    original = module.__call__
    gsprof.enable_torch_profiling(shadow="off")
    wrapper = module.__call__
    transparent = _torch._make_transparent(original, wrapper, _torch._is_compiling())

    def outer(inner: Any) -> float:
        # Within another module, as most are: outermost calls are also looked at for steps.
        began_ns = time.perf_counter_ns()
        for _ in range(CALLS):
            inner(None)
        return (time.perf_counter_ns() - began_ns) / CALLS

    class Outer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = Empty()

        def forward(self, run: Callable[[Any], float]) -> float:
            return run(self.inner)

    model = Outer()
    calls = dict(zip(STATES, (original, wrapper, wrapper, transparent)))
    took: Dict[str, List[float]] = {state: [] for state in STATES}
    for _ in range(ROUNDS):
        for state, call in calls.items():
            module.__call__ = wrapper
            gsprof.enable_torch_profiling("off" if state == "loaded" else "on")
            model(lambda inner: 0.0)
            module.__call__ = call
            took[state].append(model(outer))
    return {state: min(times) for state, times in took.items()}


def lines(found: Dict[str, float]) -> List[str]:
    """The table's rows: what is added to a call."""
    base = found["original"]
    return [f"{state:32} {found[state] - base:6.0f} ns" for state in STATES[1:]]


if __name__ == "__main__":
    if sys.argv[1:] == ["inside"]:
        print(json.dumps(inside()))
    else:
        answer = measure(sys.argv[1], Path(sys.argv[2]))
        print("\n".join(lines(answer)) if answer else "no PyTorch there")
