# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a GPT-2 with random weights with the Trainer of Transformers: 12 steps. Padding in
Python takes most of the time."""

import collections
import tempfile

import torch
import truth
from transformers import GPT2Config, GPT2LMHeadModel
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

STEPS = 12
texts = collections.deque(maxlen=32)


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 4 * 100_000

    def __getitem__(self, index):
        return [(index * 31 + i) % 97 for i in range(16 + index % 16)]


def pad(row, width):
    texts.append(bytearray(1 << 20))  # held
    weight = 0
    for i in range(100_000):
        weight = (weight * 31 + i) & 0xFFFF
    return row + [weight % 97] * (width - len(row))


def collate(rows):
    ids = torch.tensor([pad(row, 32) for row in rows])
    return {"input_ids": ids, "labels": ids}


class Stay(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        truth.report("main", state.global_step)
        if state.global_step >= STEPS and not truth.must_continue():
            control.should_training_stop = True


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    size = {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**size, bos_token_id=1, eos_token_id=1))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            max_steps=100_000,
            per_device_train_batch_size=4,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            log_level="error",
            use_cpu=True,
        )
        trainer = Trainer(model, args, train_dataset=Texts(), data_collator=collate)
        trainer.remove_callback(PrinterCallback)  # it prints durations
        trainer.add_callback(Stay())
        done = trainer.train().global_step
    print("steps at least", min(done, STEPS))


if __name__ == "__main__":
    main()
