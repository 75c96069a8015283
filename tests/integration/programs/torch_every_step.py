# SPDX-License-Identifier: Apache-2.0
"""A small transformer with steps of some milliseconds and the default settings: prints the largest
thin (1: every step was traced), and the number of steps."""

import json

import gsprof
import torch
from gsprof import _gsprof

STEPS = 60

torch.set_num_threads(1)
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 2), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
x = torch.randn(12, 16, 64)
gsprof.enable_torch_profiling()
thins = []
for _ in range(STEPS):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    thins.append(_gsprof.torch_state()["thin"])
print(json.dumps({"thin": max(thins), "steps": _gsprof.torch_step_now()}))
