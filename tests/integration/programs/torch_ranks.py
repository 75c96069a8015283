# SPDX-License-Identifier: Apache-2.0
"""Two ranks over gloo: collectives, and a model in DistributedDataParallel. One import of PyTorch,
then fork; each rank prints its pid and failures."""

import json
import os
import sys
import traceback

import gsprof
import torch
import torch.distributed as dist
from gsprof import _gsprof
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


def collectives(rank):
    x = torch.full((8,), float(rank))
    dist.all_reduce(x)
    assert x[0].item() == 1.0
    parts = [torch.zeros(4, dtype=torch.float64) for _ in range(2)]
    dist.all_gather(parts, torch.full((4,), float(rank), dtype=torch.float64))
    assert parts[1][0].item() == 1.0
    dist.broadcast(tensor=x, src=0)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    group = dist.new_group([0, 1])
    dist.all_reduce(torch.zeros(2), group=group)
    dist.barrier()


def train(rank):
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(6):
        optimizer.zero_grad()
        model(torch.full((2, 4), float(rank + i))).sum().backward()
        optimizer.step()
    inner = model.module
    assert _gsprof.torch_path(model) == "DistributedDataParallel"
    assert _gsprof.torch_path(inner) == "Net", _gsprof.torch_path(inner)
    assert _gsprof.torch_path(inner.fc) == "fc", _gsprof.torch_path(inner.fc)


def main(rank, store):
    why = ""
    try:
        torch.set_num_threads(1)
        assert gsprof.enable_torch_profiling(rate=0.5, shadow="off")
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
        collectives(rank)
        train(rank)
        dist.destroy_process_group()
    except BaseException:
        why = traceback.format_exc()
    os.write(1, (json.dumps({"pid": os.getpid(), "rank": rank, "why": why}) + "\n").encode())


if __name__ == "__main__":
    if not dist.is_available() or not dist.is_gloo_available():
        print(json.dumps({"missing": "this PyTorch has no gloo"}))
        sys.exit(0)
    child = os.fork()
    main(0 if child else 1, sys.argv[1])
    if child:
        os.waitpid(child, 0)
    os._exit(0)
