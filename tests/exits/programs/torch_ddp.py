# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that torchrun starts."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import common


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    loss = model(torch.randn(16, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
common.use_memory()
first = torch.tensor([os.getpid()])
dist.broadcast(first, 0)
dist.barrier()
if dist.get_rank() == 0:
    print("trained", dist.get_world_size())
dist.destroy_process_group()
if "error" in sys.argv and os.environ["RANK"] == "1":
    while not has_ended(int(first)):  # otherwise the launcher may kill the other rank
        time.sleep(0.01)
    sys.exit(3)
