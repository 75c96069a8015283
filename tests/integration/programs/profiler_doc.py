# SPDX-License-Identifier: Apache-2.0
"""Runs each Python block of a page by itself, with substitutes for the reader's own model and data:
profiler_doc.py PAGE plain|torch. Prints one line of JSON for each block."""

from __future__ import annotations

import json
import re
import sys
import time
import types

from gsprof.profiler import CUDATimer, MetricsCollector, Reporter


class Plain:
    """The part of a tensor that the blocks use."""

    def __init__(self, values):
        self.values = values

    def size(self, _):
        return len(self.values)

    def backward(self):
        return sum(self.values)

    def item(self):
        return float(self.values[0])


class PlainStream:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


class Batches:
    """A loader of all batches or of the next one."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return (self.make() for _ in range(3))

    def __next__(self):
        return self.make()


def plain_names():
    torch = types.ModuleType("torch")
    torch.randn = lambda *size, device: Plain([1.0] * size[0])
    torch.matmul = lambda a, b: Plain(a.values)
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: False, StreamContext=PlainStream, stream=PlainStream
    )
    sys.modules["torch"] = torch
    make = lambda: Plain([0.5, 0.25])  # noqa: E731
    return {
        "torch": torch,
        "model": lambda batch: Plain(batch.values),
        "criterion": lambda output, target: output,
        "optimizer": types.SimpleNamespace(step=lambda: None),
        "make": make,
        "streams": [object() for _ in range(4)],
    }


def torch_names():
    import torch

    model = torch.nn.Linear(8, 4)
    here = types.SimpleNamespace(
        randn=lambda *size, device: torch.randn(*size), matmul=torch.matmul, cuda=torch.cuda
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return {
        "torch": here,
        "model": model,
        "criterion": lambda output, target: ((output - target.mean()) ** 2).mean(),
        "optimizer": optimizer,
        "make": lambda: torch.randn(16, 8),
        # Without a device, torch.cuda.stream() accepts this.
        "streams": [None] * 4,
    }


def profile_training(count):
    collector = MetricsCollector()
    for _ in range(5):
        with collector.measure_time("iteration"):
            sum(range(count))
    return collector.generate_report()


def run_with_profiling(use_kitsune):
    began = time.perf_counter()
    sum(range(1000 if use_kitsune else 2000))
    return {"time": time.perf_counter() - began}


class Loss:
    def backward(self):
        return None


def fill(names):
    make = names.pop("make")
    collector = MetricsCollector()
    with collector.measure_time("forward_pass"):
        names["model"](make())
    names.update(
        input=make(),
        loss=Loss(),
        dataloader=Batches(make),
        train_loader=[(make(), make()) for _ in range(3)],
        num_epochs=2,
        tasks=[1000, 2000, 3000, 4000],
        execute_task=lambda count: sum(range(count)),
        config1=200000,
        config2=1000,
        profile_training=profile_training,
        run_with_profiling=run_with_profiling,
        timer=CUDATimer(),
        reporter=Reporter(collector),
        MetricsCollector=MetricsCollector,
    )
    return names


def found(names):
    """Returns the values that a test checks."""
    for name in ("elapsed", "speedup", "stats", "timeline", "report", "analysis", "comparison"):
        if name in names:
            return {name: names[name]}
    if "profiler" in names:
        return {"streams": names["profiler"].get_stats()}
    return {}


page, kind = sys.argv[1:]
blocks = re.findall(r"^```python\n(.*?)^```$", open(page, encoding="utf-8").read(), re.S | re.M)
base = fill(torch_names() if kind == "torch" else plain_names())
for number, block in enumerate(blocks):
    names = dict(base)
    exec(compile(block, f"block {number}", "exec"), names)
    print("RESULT", json.dumps({"block": block, "found": found(names)}))
