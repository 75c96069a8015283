# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers: all batches are read, the loop ends early, or a sample fails."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset

import common


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        common.use_memory(1)
        if "error" in sys.argv and i == 40:
            raise ValueError("a bad sample")
        return torch.full((8,), float(i))


def main():
    total = 0.0
    for number, batch in enumerate(DataLoader(Numbers(), batch_size=4, num_workers=2)):
        total += batch.sum().item()
        if "leave" in sys.argv and number == 3:
            print("leaves")
            sys.exit(4)
    print(total)


if __name__ == "__main__":
    main()
