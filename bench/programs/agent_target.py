# SPDX-License-Identifier: Apache-2.0
"""Trains a small model for some seconds in a given mode, for each line on stdin.

    agent_target.py mlp|transformer PACKAGE_DIR

A line is "MODE SECONDS". The answer is a line of JSON with the steps per second. Needs PyTorch
1.13 or later.
"""

import contextlib
import json
import os
import sys
import time

import torch

CHECK_EVERY = {"mlp": 50, "transformer": 1}


def make_mlp():
    layers = []
    for _ in range(2):
        layers += [torch.nn.Linear(32, 32), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(32, 1))
    return model, torch.randn(16, 32), torch.randn(16, 1)


def make_transformer():
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 4), torch.nn.Linear(128, 1))
    return model, torch.randn(16, 64, 128), torch.randn(16, 64, 1)


class Job:
    """A training job."""

    def __init__(self, name):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.model, self.x, self.y = make_mlp() if name == "mlp" else make_transformer()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.check_every = CHECK_EVERY[name]
        self.calls = 0

    def train_step(self):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def count_calls(self):
        """Counts the module calls of one step."""

        def count(module, args):
            self.calls += 1

        handle = torch.nn.modules.module.register_module_forward_pre_hook(count)
        self.train_step()
        handle.remove()

    def run(self, seconds, tick):
        """Returns steps per second of wall time and of CPU time."""
        steps = 0
        begin_cpu = time.process_time()
        begin = time.perf_counter()
        end = begin + seconds
        now = begin
        while now < end:
            for _ in range(self.check_every):
                self.train_step()
                if tick:
                    tick()
            steps += self.check_every
            now = time.perf_counter()
        return steps / (now - begin), steps / (time.process_time() - begin_cpu)


@contextlib.contextmanager
def python_hooks(job):
    """A typical profiler in Python: two hooks, a clock, a list."""
    rows = []
    starts = []

    def before(module, args):
        starts.append(time.perf_counter())

    def after(module, args, output):
        rows.append((type(module).__name__, time.perf_counter() - starts.pop()))

    handles = []
    for module in job.model.modules():
        handles.append(module.register_forward_pre_hook(before))
        handles.append(module.register_forward_hook(after))
    yield
    for handle in handles:
        handle.remove()


@contextlib.contextmanager
def with_agent(**settings):
    from gsprof import _boot

    if not _boot.start(settings, follow=False):
        raise SystemExit("cannot start the agent")
    yield
    _boot.detach()


def mode_of(name, job):
    if name == "plain":
        return contextlib.nullcontext()
    if name == "hooks":
        return python_hooks(job)
    if name == "profiler":
        return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    settings = {
        "idle": {},
        "basic": {},
        "full": {"torch": "on", "torch.backward": "off", "torch.vars": ""},
        "backward": {"torch": "on", "torch.backward": "on", "torch.vars": ""},
        "vars": {"torch": "on", "torch.backward": "off", "torch.vars": "loss@train_step"},
    }[name]
    return with_agent(**settings)


def main():
    name, package = sys.argv[1:3]
    sys.path.insert(0, package)
    job = Job(name)
    job.run(0.2, None)
    job.count_calls()
    print(
        json.dumps({"pid": os.getpid(), "calls": job.calls, "torch": torch.__version__}), flush=True
    )
    for line in sys.stdin:
        word, seconds = line.split()
        tick = None
        with mode_of(word, job):
            if word == "basic":
                import gsprof

                tick = gsprof.step
            job.run(0.05, tick)
            rate, cpu_rate = job.run(float(seconds), tick)
        print(json.dumps({"steps_per_s": rate, "steps_per_cpu_s": cpu_rate}), flush=True)


main()
