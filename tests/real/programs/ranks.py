# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training with torchrun on two ranks: ranks.py ddp|fsdp. Rank 1 sleeps in each of
its 30 steps, and rank 0 waits for it."""

import collections
import os
import sys
import time

import torch
import torch.distributed as dist
import truth
from torch import nn

STEPS = 30
shards = collections.deque(maxlen=32)


def load_shard(rank):
    shards.append(bytearray(1 << 20))  # held
    total = 0
    for i in range(200_000):
        total = (total * 31 + i) & 0xFFFF
    return torch.full((4, 32), (total + rank) % 7 / 7)


def straggle():
    time.sleep(0.02)


def make(kind):
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(model)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = make(sys.argv[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    while True:
        truth.report("worker", step)
        # All ranks end with the same step.
        more = torch.tensor([int(step < STEPS or truth.must_continue())])
        dist.broadcast(more, 0)
        if not more.item():
            break
        if rank == 1:
            straggle()
        optimizer.zero_grad()
        model(load_shard(rank)).sum().backward()
        optimizer.step()
        step += 1
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print("steps at least", min(step, STEPS), "of", os.environ["WORLD_SIZE"], "ranks")


if __name__ == "__main__":
    main()
