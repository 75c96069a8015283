# SPDX-License-Identifier: Apache-2.0
"""Does the same matrix work for each byte on stdin and prints how long it took. Arguments: numpy or
torch, and the approximate duration in milliseconds."""

import os
import sys
import time

import target


def numpy_round():
    import numpy

    left = numpy.random.rand(300, 300)
    right = numpy.random.rand(300, 300)

    def forward():
        return numpy.tanh(left @ right).sum()

    return forward


def torch_round():
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(64, 256)

    def step():
        optimizer.zero_grad()
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def piece(work, rounds):
    wall = time.perf_counter_ns()
    for _ in range(rounds):
        work()
    return time.perf_counter_ns() - wall


def main():
    work = {"numpy": numpy_round, "torch": torch_round}[sys.argv[1]]()
    piece(work, 3)
    one_ns = min(piece(work, 1) for _ in range(10))
    rounds = int(sys.argv[2]) * 1000000 // one_ns + 1
    target.ready()
    while os.read(0, 1):
        target.emit(ready=True, wall_ns=piece(work, rounds))


main()
