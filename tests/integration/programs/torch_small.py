# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer on the CPU until it is killed."""

import target
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
MODEL = torch.nn.Sequential(
    torch.nn.Embedding(100, 64),
    torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True),
    torch.nn.Linear(64, 100),
)
OPTIMIZER = torch.optim.Adam(MODEL.parameters())
DATA = torch.utils.data.TensorDataset(torch.randint(0, 100, (64, 32)))


def step(tokens):
    OPTIMIZER.zero_grad()
    out = MODEL(tokens)
    loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten())
    loss.backward()
    OPTIMIZER.step()


def train():
    for (tokens,) in torch.utils.data.DataLoader(DATA, batch_size=8):
        step(tokens)


train()
target.ready()
while True:
    train()
