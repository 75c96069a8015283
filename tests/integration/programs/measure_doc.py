# SPDX-License-Identifier: Apache-2.0
"""Runs each Python block of a page by itself, with substitutes for the reader's own model and data:
measure_doc.py PAGE plain|torch. Prints one line of JSON for each block."""

from __future__ import annotations

import json
import re
import sys
import types

from gsprof.measure import PerformanceProfiler

import memory_pace

KEPT = []


class Plain:
    """The part of a tensor or a model that the blocks use, without PyTorch."""

    def cuda(self):
        return self

    def fit(self, x, y):
        return self

    def __call__(self, batch):
        return batch


def plain_names():
    torch = types.ModuleType("torch")
    torch.randn = lambda *size: Plain()
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    sys.modules["torch"] = torch
    return {"torch": torch, "model": Plain(), "LargeModel": Plain, "make": Plain}


def torch_names():
    import torch

    class OnCpu(torch.nn.Module):
        """Without a GPU, the tensor stays where it is."""

        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Conv2d(3, 4, 3)

        def cuda(self, device=None):
            return self

        def forward(self, x):
            return self.layer(x)

        def fit(self, x, y):
            return self(x)

    def make():
        batch = torch.randn(2, 3, 16, 16)
        batch.cuda = lambda: batch
        return batch

    return {"torch": torch, "model": OnCpu(), "LargeModel": OnCpu, "make": make}


def allocate_data():
    """Keeps 1 MB, touched, in the profiler of the calling block."""
    KEPT.append(b"%d" % len(KEPT) + b"x" * (1 << 20))
    memory_pace.wait_for_memory_sample(sys._getframe(1).f_globals["profiler"])
    return KEPT[-1]


def risky_operation():
    raise ArithmeticError("stand-in")


def fill(names):
    make = names.pop("make")
    profiler = PerformanceProfiler(track_gpu=False)
    with profiler.profile("before"):
        pass
    return {
        **names,
        "PerformanceProfiler": PerformanceProfiler,
        "profiler": profiler,
        "metrics": profiler.get_metrics(),
        "train_epoch": lambda: sum(range(1000)),
        "X_train": make(),
        "y_train": make(),
        "input_batch": make(),
        "dataloader": [make() for _ in range(3)],
        "load_dataset": lambda: list(range(1000)),
        "preprocess": lambda data: data[:10],
        "train_model": sum,
        "allocate_data": allocate_data,
        "process_data": len,
        "risky_operation": risky_operation,
    }


page, kind = sys.argv[1:]
blocks = re.findall(r"^```python\n(.*?)^```$", open(page, encoding="utf-8").read(), re.S | re.M)
base = fill(torch_names() if kind == "torch" else plain_names())
for number, block in enumerate(blocks):
    if kind == "plain" and "estimate_flops=True" in block:
        # Only PyTorch itself can be counted.
        print("RESULT", json.dumps({"metrics": None, "times": {}}))
        continue
    names = dict(base)
    exec(compile(block, f"block {number}", "exec"), names)
    profiler = names["profiler"]
    metrics = profiler.get_metrics().to_dict() if profiler.has_results() else None
    print("RESULT", json.dumps({"metrics": metrics, "times": profiler.get_timing_breakdown()}))
    KEPT.clear()
