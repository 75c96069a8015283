# SPDX-License-Identifier: Apache-2.0
"""Compares the operations counted by gsprof.measure with those counted by torch: a line of JSON for
each model, and the names of the formulas that both have."""

from __future__ import annotations

import json
import sys

import torch
from gsprof.measure import PerformanceProfiler
from torch import nn


def convolutions():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.Flatten(),
        nn.Linear(4 * 16 * 16, 5),
    )
    x = torch.randn(2, 3, 16, 16, requires_grad=True)
    return lambda: model(x).sum().backward()


def grouped_forward():
    model, x = nn.Conv1d(8, 16, 5, dilation=2, groups=4), torch.randn(4, 8, 40)
    return lambda: model(x)


def products():
    a, b, c = torch.randn(3, 4, 5), torch.randn(3, 5, 6), torch.zeros(3, 4, 6)

    def run():
        torch.matmul(a, b)
        torch.baddbmm(c, a, b)
        torch.einsum("bij,bjk->bik", a, b)
        torch.addmm(c[0], a[0], b[0])

    return run


def recurrent():
    model, x = nn.GRUCell(8, 16), torch.randn(3, 8)
    return lambda: model(x).sum().backward()


def attention():
    model = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(2, 7, 16, requires_grad=True)
    # If its weights are requested, attention consists of products that both count.
    return lambda: model(x, x, x, need_weights=True)[0].sum().backward()


def theirs(run):
    try:
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError:
        return None
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def check_formulas():
    """Attention has different operators on each device: checks the formulas alone."""
    try:
        from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count
    except ImportError:
        return None
    from gsprof.measure import _flops

    q, k, v = (2, 4, 6, 8), (2, 4, 9, 8), (2, 4, 9, 5)
    out = (2, 4, 6, 5)
    return [
        _flops._attention_of(q, k, v, (1, 1)) == sdpa_flop_count(q, k, v),
        _flops._attention_of(q, k, v, (3, 2)) == sdpa_backward_flop_count(out, q, k, v),
    ]


def check_edges(profiler):
    """No module is imported while a block is measured. Blocks without PyTorch, without counted
    operators, nested blocks, inference in one operator."""
    with profiler.profile("first"):
        before = set(sys.modules)
        torch.ones(2, 3) @ torch.ones(3, 4)
        more = set(sys.modules) - before
    assert not more, sorted(more)
    assert profiler.get_metrics().compute.estimated_flops == 48
    with profiler.profile("none"):
        pass
    assert profiler.get_metrics().compute.estimated_flops is None
    with profiler.profile("outer"):
        torch.ones(3).relu()
        with profiler.profile("inner"):
            torch.ones(2, 3) @ torch.ones(3, 4)
        torch.ones(2, 3) @ torch.ones(3, 4)
    assert profiler.get_metrics("inner").compute.estimated_flops == 48
    outer = profiler.get_metrics("outer").compute
    assert outer.estimated_flops == 96 and outer.flops_by_operator == {"aten::mm": 96}
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    with torch.no_grad(), profiler.profile("inference"):
        layer(torch.randn(2, 7, 16))
    tokens = 2 * 7
    assert (
        profiler.get_metrics().compute.estimated_flops
        == 2 * tokens * (4 * 16 * 16 + 2 * 16 * 32) + 4 * tokens * 7 * 16
    ), profiler.get_metrics().compute


torch.manual_seed(0)
profiler = PerformanceProfiler(estimate_flops=True, track_gpu=False)
check_edges(profiler)
for make in (convolutions, grouped_forward, products, recurrent, attention):
    run = make()
    with profiler.profile(make.__name__):
        run()
    ours = profiler.get_metrics().compute.estimated_flops
    print(json.dumps({"name": make.__name__, "ours": ours, "theirs": theirs(run)}))
print(json.dumps({"name": "formulas", "ours": check_formulas(), "theirs": None}))
sys.stdout.flush()
