# SPDX-License-Identifier: Apache-2.0
"""The cost that the agent adds to a call of a PyTorch module, in nanoseconds, and to whole training
steps, in per cent.

    bench/torch_call.py PYTHON build/python
    bench/torch_call.py PYTHON build/python steps
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

CALLS = 500
ROUNDS = 150
STATES = ("original", "loaded", "traced", "traced, seen by torch.compile")


def measure(python: str, package: Path) -> Optional[Dict[str, float]]:
    """Nanoseconds per call in each state; None without PyTorch. `package` is the folder that
    contains the built gsprof/."""
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
    """Runs in the interpreter with PyTorch: the states in turns, the fastest round of each."""
    import gsprof
    import torch
    from gsprof.torch import _hooks

    class Empty(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x

    module: Any = torch.nn.Module
    original = module.__call__
    gsprof.enable_torch_profiling(shadow="off")
    wrapper = module.__call__
    transparent = _hooks._make_transparent(original, wrapper, _hooks._is_compiling())

    def outer(inner: Any) -> float:
        # Inside another module, as most calls are: outermost calls also detect steps.
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
    """The rows of the table: the time added to a call."""
    base = found["original"]
    return [f"{state:32} {found[state] - base:6.0f} ns" for state in STATES[1:]]


# ------------------------------------------------------------------------------------ whole steps

# Settings, and their limits in per cent.
SETTINGS: Dict[str, Tuple[Dict[str, str], Optional[float]]] = {
    "nothing (noise)": ({"torch": "off"}, None),
    "every module": ({}, 5.0),
    "backward rows too": ({"torch.backward": "on"}, 5.0),
    "a variable too": ({"torch.vars": "loss@train_step"}, 10.0),
}
DEFAULTS = {
    "torch": "on",
    "torch.backward": "off",
    "torch.vars": "",
    "torch.adaptive": "5",
    "torch.rate": "1",
}
# The CPU time of a step, in microseconds.
STEP_US = {"short": 300.0, "long": 3000.0}
# Groups of four steps, after some groups of warm-up; and blocks of steps.
GROUPS = 400
GROUPS_BEFORE = 10
BLOCK_PAIRS = 60
BLOCK_STEPS = 8
BLOCK_WARM_UP = 4
# The time in which the agent adapts the share of steps that it traces.
ADAPT_S = 4.0
ADAPT_STEPS = 400


def make_job(torch: Any, name: str, size: int) -> Callable[[], Any]:
    """A training step of `size` pairs of modules, or of `size` transformer layers of 10 modules."""
    nn = torch.nn
    if name == "short":
        layers = [layer for _ in range(size) for layer in (nn.Linear(32, 32), nn.ReLU())]
        model, x, y = nn.Sequential(*layers[:-1]), torch.randn(16, 32), torch.randn(16, 32)
    else:
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        model = nn.Sequential(nn.TransformerEncoder(layer, size), nn.Linear(64, 1))
        x, y = torch.randn(8, 16, 64), torch.randn(8, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def train_step() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train_step


def cpu_us(train_step: Callable[[], Any], steps: int = 30) -> float:
    """The median CPU time of a step, in microseconds."""
    times = []
    for _ in range(steps):
        began_ns = time.thread_time_ns()
        train_step()
        times.append((time.thread_time_ns() - began_ns) / 1e3)
    return sorted(times)[steps // 2]


def calibrated(torch: Any, name: str) -> Tuple[Callable[[], Any], float]:
    """The job whose step is nearest to STEP_US on this machine, and its CPU time."""
    found = []
    for size in range(1, 13):
        train_step = make_job(torch, name, size)
        took_us = cpu_us(train_step)
        found.append((abs(took_us - STEP_US[name]), size, took_us, train_step))
        if took_us > 1.2 * STEP_US[name]:
            break
    _, _, took_us, train_step = min(found, key=lambda job: job[:2])
    return train_step, took_us


def switch_on(settings: Dict[str, str]) -> None:
    from gsprof import _boot

    if not _boot.start({**DEFAULTS, **settings}, follow=False):
        raise SystemExit("cannot start the agent")


def adapt(train_step: Callable[[], Any], settings: Dict[str, str]) -> int:
    """Runs steps until the agent has adapted. One of the returned number of steps is traced."""
    from gsprof import _gsprof

    switch_on(settings)
    end_s = time.monotonic() + ADAPT_S
    done = 0
    while done < ADAPT_STEPS or time.monotonic() < end_s:
        train_step()
        done += 1
    thin: int = _gsprof.torch_state()["thin"]
    return thin


def cost_of(
    train_step: Callable[[], Any], settings: Dict[str, str], thin: int
) -> Tuple[float, float, float]:
    """The cost for all steps if one of `thin` is traced: per cent and its interval. Traces one of
    four steps, and compares the CPU time of that step and of the next one (which may free what the
    first created) with that of the third. Other load hardly changes these ratios."""
    from gsprof import _gsprof
    from gsprof.torch import _overhead

    switch_on({**settings, "torch.adaptive": "0", "torch.rate": "0.25"})
    times: Dict[int, int] = {}
    for i in range(4 * (GROUPS + GROUPS_BEFORE)):
        step = _gsprof.torch_step_now() if settings.get("torch") != "off" else i
        began_ns = time.thread_time_ns()
        train_step()
        times[step] = time.thread_time_ns() - began_ns
    last = max(times)
    firsts = [i for i in times if i % 4 == 0 and last - 4 * GROUPS < i < last - 2]
    traced = _overhead.estimate([times[i] / times[i + 2] for i in firsts])
    after = _overhead.estimate([times[i + 1] / times[i + 2] for i in firsts])
    assert traced is not None and after is not None
    percent, low, high = ((x + after.percent) / thin for x in traced)
    return percent, low, high


def untraced_cost(train_step: Callable[[], Any]) -> Tuple[float, float, float]:
    """The cost for steps that are not traced while the hooks are installed: blocks with and without
    hooks take turns, and their median steps are compared."""
    from gsprof.torch import _overhead

    states = ({"torch": "off"}, {"torch.rate": "0"})
    ratios = []
    for i in range(BLOCK_PAIRS):
        took = {}
        for state in states if i % 2 else states[::-1]:
            switch_on(state)
            cpu_us(train_step, BLOCK_WARM_UP)
            took[len(state.get("torch", ""))] = cpu_us(train_step, BLOCK_STEPS)
        ratios.append(took[0] / took[3])
    found = _overhead.estimate(ratios)
    assert found is not None
    return found.percent, found.low, found.high


def inside_steps(name: str) -> List[Dict[str, Any]]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    train_step, step_us = calibrated(torch, name)
    found = []

    def add(what: str, bar: Optional[float], thin: int, cost: Tuple[float, float, float]) -> None:
        row = dict(zip(("percent", "low", "high"), cost))
        found.append({"settings": what, "step_us": step_us, "one_step_of": thin, "bar": bar, **row})

    for what, (settings, bar) in SETTINGS.items():
        thin = adapt(train_step, settings) if bar else 1
        add(what, bar, thin, cost_of(train_step, settings, thin))
    add("no step traced", None, 0, untraced_cost(train_step))
    return found


def measure_steps(python: str, package: Path, name: str) -> List[Dict[str, Any]]:
    """The costs for a job, "short" or "long"; an empty list without PyTorch."""
    env = {**os.environ, "PYTHONPATH": str(package), "GSPROF_FOLLOW": "off"}
    done = subprocess.run(
        [python, "-W", "ignore", __file__, "inside", name],
        stdout=subprocess.PIPE,
        env=env,
        check=False,
    )
    if done.returncode != 0:
        return []
    found: List[Dict[str, Any]] = json.loads(done.stdout.decode().splitlines()[-1])
    return found


def step_lines(name: str, found: List[Dict[str, Any]]) -> List[str]:
    lines = [f"{name}: a step of {found[0]['step_us']:.0f} us of CPU time"]
    lines.append(f"  {'':20} one traced in   cost, all steps  95 % interval")
    for row in found:
        bar = "" if row["bar"] is None else f"  <= {row['bar']:g} %"
        lines.append(
            f"  {row['settings']:20} {row['one_step_of']:13} {row['percent']:14.1f} % "
            f"{row['low']:8.1f} .. {row['high']:.1f}{bar}"
        )
    return lines


if __name__ == "__main__":
    if sys.argv[1:] == ["inside"]:
        print(json.dumps(inside()))
    elif sys.argv[1] == "inside":
        print(json.dumps(inside_steps(sys.argv[2])))
    elif sys.argv[3:] == ["steps"]:
        for job in ("short", "long"):
            rows = measure_steps(sys.argv[1], Path(sys.argv[2]), job)
            print(
                "\n".join(step_lines(job, rows)) if rows else "PyTorch is not installed", flush=True
            )
    else:
        answer = measure(sys.argv[1], Path(sys.argv[2]))
        print("\n".join(lines(answer)) if answer else "PyTorch is not installed")
