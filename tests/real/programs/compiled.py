# SPDX-License-Identifier: Apache-2.0
"""Trains a model with torch.compile in one graph: 20 steps. Sampling tokens in Python takes most of
the time."""

import collections

import torch
import truth

STEPS = 20
contexts = collections.deque(maxlen=32)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 32)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def sample_tokens(number):
    contexts.append(bytearray(1 << 20))  # held
    token = 0
    for i in range(400_000):
        token = (token * 31 + i + number) & 0xFFFF
    return torch.full((4, 16), token % 7 / 7)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    # A graph break would be an error.
    model = torch.compile(Block(), backend="aot_eager", fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    for number in truth.rounds("main", STEPS):
        optimizer.zero_grad()
        model(sample_tokens(number)).sum().backward()
        optimizer.step()
        steps += 1
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    print("steps at least", min(steps, STEPS), "graphs", graphs)


if __name__ == "__main__":
    main()
