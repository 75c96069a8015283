# SPDX-License-Identifier: Apache-2.0
"""Two ranks started by torch.multiprocessing; one may fail."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

import common


def rank(number, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=number, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(32, 4))
    for _ in range(10):
        model(torch.randn(16, 32)).square().mean().backward()
    common.use_memory()
    dist.barrier()
    if number == 0:
        print("trained")
    dist.destroy_process_group()
    if "error" in sys.argv and number == 1:
        sys.exit(3)


if __name__ == "__main__":
    torch.multiprocessing.spawn(rank, args=(os.path.join(os.getcwd(), "store"),), nprocs=2)
