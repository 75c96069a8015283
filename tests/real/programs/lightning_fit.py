# SPDX-License-Identifier: Apache-2.0
"""Trains a small module with Lightning: 20 steps. Augmentation in Python takes most of the
time."""

import collections
import logging
import tempfile
import warnings

import lightning
import torch
import truth

STEPS = 20
images = collections.deque(maxlen=32)


def augment(index):
    images.append(bytearray(1 << 20))  # held
    noise = 0
    for i in range(200_000):
        noise = (noise * 31 + i) & 0xFFFF
    return torch.full((16,), (index + noise) % 7 / 7)


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 2 * 100_000

    def __getitem__(self, index):
        return augment(index), index % 3


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3)
        )

    def training_step(self, batch, _):
        images_of_batch, labels = batch
        return torch.nn.functional.cross_entropy(self.net(images_of_batch), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Stay(lightning.Callback):
    def on_train_batch_end(self, trainer, *_):
        truth.report("main", trainer.global_step)
        if trainer.global_step >= STEPS and not truth.must_continue():
            trainer.should_stop = True


def main():
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator="cpu",
            max_epochs=1,
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[Stay()],
        )
        trainer.fit(Classifier(), torch.utils.data.DataLoader(Images(), batch_size=2))
    print("steps at least", min(trainer.global_step, STEPS))


if __name__ == "__main__":
    main()
