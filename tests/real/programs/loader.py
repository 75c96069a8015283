# SPDX-License-Identifier: Apache-2.0
"""A DataLoader with two workers, started by fork or spawn: loader.py CONTEXT. 24 steps."""

import collections
import sys

import torch
import truth

STEPS = 24
pictures = collections.deque(maxlen=32)
count = 0


def decode(index):
    pictures.append(bytearray(1 << 20))  # held
    pixels = 0
    for i in range(300_000):
        pixels = (pixels * 31 + i) & 0xFFFF
    return pixels


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        global count
        count += 1
        truth.report("worker", count)
        return torch.full((8,), (decode(index) + index) % 11 / 11)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.DataLoader(
        Pictures(), batch_size=2, num_workers=2, multiprocessing_context=sys.argv[1]
    )
    batches = iter(data)
    steps = 0
    for _ in truth.rounds("main", STEPS):
        optimizer.zero_grad()
        model(next(batches)).sum().backward()
        optimizer.step()
        steps += 1
    del batches  # a worker that still works after its parent's exit may abort
    print("steps at least", min(steps, STEPS))


if __name__ == "__main__":
    main()
