# SPDX-License-Identifier: Apache-2.0
"""Trains briefly; the argument selects how it ends."""

import sys

import torch
from torch import nn

import common

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    x = torch.randn(32, 64)
    loss = nn.functional.cross_entropy(model(x), torch.randint(0, 10, (32,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.6f}")
common.use_memory()
if "error" in sys.argv:
    model(torch.randn(32, 65))
elif "backward" in sys.argv:
    loss.backward()
