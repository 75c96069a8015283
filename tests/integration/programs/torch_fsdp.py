# SPDX-License-Identifier: Apache-2.0
"""Two ranks that train a model sharded by FSDP2 over gloo, and one call of a functional collective.
One import of PyTorch, then fork; each rank prints its pid and failures."""

import json
import os
import sys
import traceback

import gsprof
import torch
import torch.distributed as dist
from torch import nn

STEPS = 2


def train():
    from torch.distributed._functional_collectives import all_reduce
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 2, bias=False))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    total = all_reduce(torch.ones(4), "sum", (mesh, 0))
    assert total[0].item() == 2.0


def main(rank, store):
    why = ""
    try:
        torch.set_num_threads(1)
        assert gsprof.enable_torch_profiling(adaptive=0)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
        train()
        dist.destroy_process_group()
    except BaseException:
        why = traceback.format_exc()
    os.write(1, (json.dumps({"pid": os.getpid(), "rank": rank, "why": why}) + "\n").encode())


if __name__ == "__main__":
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        print(json.dumps({"missing": f"FSDP2 needs PyTorch 2.6, not {torch.__version__}"}))
        sys.exit(0)
    if not dist.is_available() or not dist.is_gloo_available():
        print(json.dumps({"missing": "this PyTorch has no gloo"}))
        sys.exit(0)
    child = os.fork()
    main(0 if child else 1, sys.argv[1])
    if child:
        os.waitpid(child, 0)
    os._exit(0)
