#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small but real training loop: digits as noisy 8x8 pictures and a two-layer network.

Uses PyTorch, NumPy or plain Python, whichever is available first. Trains for six seconds
(TRAIN_SECONDS) or for a number of steps (TRAIN_STEPS). It has the usual parts of a training job:
loading and augmenting data, forward, backward, the optimizer, and occasional evaluation.

It also has a bottleneck. The training thread augments every picture pixel by pixel in Python, so
that with PyTorch and NumPy the network waits for its data most of the time. The last line of the
output is that time, measured by the program itself; the verdict of `gsprof run` should agree.
TRAIN_CACHE=1 is the remedy: it augments pictures only once and reuses them."""

from __future__ import annotations

import math
import operator
import os
import random
import time
from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Dict, List, Protocol, Tuple

try:
    import gsprof
except ImportError:  # optional
    gsprof = None

BATCH = 64
SIDE = 8
PIXELS = SIDE * SIDE
HIDDEN = 128
PLAIN_HIDDEN = 8  # plain Python is too slow for more
CLASSES = 10
RATE = 0.3
CACHED = 200  # augmented pictures of each digit

Picture = List[float]
Batch = Tuple[List[Picture], List[int]]

# The segments of each digit on a seven-segment display: top, upper left, upper right, middle,
# lower left, lower right, bottom.
SEGMENTS = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011".split()
STROKES = [(0, 1, 0, 6), (0, 1, 3, 1), (0, 6, 3, 6), (3, 1, 3, 6)]
STROKES += [(3, 1, 7, 1), (3, 6, 7, 6), (7, 1, 7, 6)]


class Model(Protocol):
    """The interface between the training loop and a network."""

    name: str

    def forward(self, pictures: List[Picture]) -> Any:
        ...

    def loss(self, output: Any, labels: List[int]) -> float:
        ...

    def backward(self, labels: List[int]) -> None:
        ...

    def optimizer_step(self) -> None:
        ...

    def predict(self, pictures: List[Picture]) -> List[int]:
        ...


# ------------------------------------------------------------------------ data


def draw_digit(digit: int) -> Picture:
    picture = [0.0] * PIXELS
    for on, (row, column, last_row, last_column) in zip(SEGMENTS[digit], STROKES):
        if on == "0":
            continue
        steps = max(last_row - row, last_column - column)
        for i in range(steps + 1):
            y = row + (last_row - row) * i // steps
            x = column + (last_column - column) * i // steps
            picture[y * SIDE + x] = 1.0
    return picture


DIGITS = [draw_digit(digit) for digit in range(CLASSES)]


def augment(picture: Picture, rng: random.Random) -> Picture:
    """Shifts a picture by up to one pixel and adds noise."""
    dy, dx = rng.randint(-1, 1), rng.randint(-1, 1)
    moved = [0.0] * PIXELS
    for y in range(SIDE):
        for x in range(SIDE):
            if 0 <= y + dy < SIDE and 0 <= x + dx < SIDE:
                moved[y * SIDE + x] = picture[(y + dy) * SIDE + x + dx]
    return [value + rng.gauss(0.0, 0.2) for value in moved]


class Loader:
    """Creates batches and measures the time it takes."""

    def __init__(self, seed: int, cached: bool) -> None:
        self.rng = random.Random(seed)
        self.seconds = 0.0
        self.cache: Dict[int, List[Picture]] = {}
        if cached:
            for digit in range(CLASSES):
                self.cache[digit] = [augment(DIGITS[digit], self.rng) for _ in range(CACHED)]

    def picture(self, digit: int) -> Picture:
        if self.cache:
            return self.rng.choice(self.cache[digit])
        return augment(DIGITS[digit], self.rng)

    def load_batch(self) -> Batch:
        begin = time.perf_counter()
        with data_span():
            labels = [self.rng.randrange(CLASSES) for _ in range(BATCH)]
            batch = [self.picture(label) for label in labels], labels
        self.seconds += time.perf_counter() - begin
        return batch


# ------------------------------------------------------------- spans and steps


def data_span() -> ContextManager[Any]:
    """Marks the time spent on data, if gsprof is installed."""
    span: ContextManager[Any] = nullcontext()
    if gsprof:
        span = gsprof.span("load batch", phase="data")
    return span


def end_step(model: Model, number: int) -> None:
    """Marks the end of a step. With PyTorch, gsprof detects steps by the optimizer. Step 0 is the
    time before the first step."""
    if gsprof and not isinstance(model, TorchModel):
        gsprof.step(number, batch_size=BATCH)


# ---------------------------------------------------------------------- models


def random_weights(rows: int, columns: int, seed: int) -> List[List[float]]:
    rng = random.Random(seed)
    scale = 1.0 / math.sqrt(rows)
    return [[rng.gauss(0.0, scale) for _ in range(columns)] for _ in range(rows)]


class TorchModel:
    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.name = f"PyTorch {torch.__version__}"
        torch.manual_seed(1)
        self.net = torch.nn.Sequential()
        self.net.add_module("hidden", torch.nn.Linear(PIXELS, HIDDEN))
        self.net.add_module("relu", torch.nn.ReLU())
        self.net.add_module("output", torch.nn.Linear(HIDDEN, CLASSES))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=RATE)
        self.current: Any = None

    def forward(self, pictures: List[Picture]) -> Any:
        return self.net(self.torch.tensor(pictures))

    def loss(self, output: Any, labels: List[int]) -> float:
        target = self.torch.tensor(labels)
        self.current = self.torch.nn.functional.cross_entropy(output, target)
        return float(self.current)

    def backward(self, labels: List[int]) -> None:
        self.optimizer.zero_grad()
        self.current.backward()

    def optimizer_step(self) -> None:
        self.optimizer.step()

    def predict(self, pictures: List[Picture]) -> List[int]:
        with self.torch.no_grad():
            return [int(i) for i in self.forward(pictures).argmax(dim=1)]


class NumpyModel:
    def __init__(self) -> None:
        import numpy

        self.np = numpy
        self.name = f"NumPy {numpy.__version__}"
        self.weights = [
            numpy.array(random_weights(PIXELS, HIDDEN, 1)),
            numpy.array(random_weights(HIDDEN, CLASSES, 2)),
        ]
        self.gradients: List[Any] = [None, None]

    def forward(self, pictures: List[Picture]) -> Any:
        self.inputs = self.np.array(pictures)
        self.hidden = self.np.maximum(self.inputs @ self.weights[0], 0.0)
        return self.softmax(self.hidden @ self.weights[1])

    def softmax(self, scores: Any) -> Any:
        powers = self.np.exp(scores - scores.max(axis=1, keepdims=True))
        self.output = powers / powers.sum(axis=1, keepdims=True)
        return self.output

    def loss(self, output: Any, labels: List[int]) -> float:
        return float(-self.np.log(output[range(len(labels)), labels] + 1e-9).mean())

    def backward(self, labels: List[int]) -> None:
        error = self.output.copy()
        error[range(len(labels)), labels] -= 1.0
        error /= len(labels)
        self.gradients[1] = self.hidden.T @ error
        self.gradients[0] = self.inputs.T @ ((error @ self.weights[1].T) * (self.hidden > 0))

    def optimizer_step(self) -> None:
        for weights, gradient in zip(self.weights, self.gradients):
            weights -= RATE * gradient

    def predict(self, pictures: List[Picture]) -> List[int]:
        return [int(i) for i in self.forward(pictures).argmax(axis=1)]


Matrix = List[List[float]]


def matmul(a: Matrix, b: Matrix) -> Matrix:
    columns = list(zip(*b))
    return [[sum(map(operator.mul, row, column)) for column in columns] for row in a]


def transpose(a: Matrix) -> Matrix:
    return [list(column) for column in zip(*a)]


class PlainModel:
    def __init__(self) -> None:
        self.name = "plain Python"
        self.weights = [
            random_weights(PIXELS, PLAIN_HIDDEN, 1),
            random_weights(PLAIN_HIDDEN, CLASSES, 2),
        ]
        self.gradients: List[Matrix] = [[], []]

    def forward(self, pictures: List[Picture]) -> Any:
        self.inputs = pictures
        self.hidden = [[max(x, 0.0) for x in row] for row in matmul(pictures, self.weights[0])]
        self.output = [self.softmax(row) for row in matmul(self.hidden, self.weights[1])]
        return self.output

    def softmax(self, scores: List[float]) -> List[float]:
        top = max(scores)
        powers = [math.exp(score - top) for score in scores]
        total = sum(powers)
        return [power / total for power in powers]

    def loss(self, output: Any, labels: List[int]) -> float:
        return -sum(math.log(row[k] + 1e-9) for row, k in zip(output, labels)) / len(labels)

    def backward(self, labels: List[int]) -> None:
        error = [
            [(p - (k == label)) / len(labels) for k, p in enumerate(row)]
            for row, label in zip(self.output, labels)
        ]
        self.gradients[1] = matmul(transpose(self.hidden), error)
        back = matmul(error, transpose(self.weights[1]))
        for row, hidden in zip(back, self.hidden):
            for j, value in enumerate(hidden):
                row[j] *= value > 0
        self.gradients[0] = matmul(transpose(self.inputs), back)

    def optimizer_step(self) -> None:
        for weights, gradient in zip(self.weights, self.gradients):
            for row, slopes in zip(weights, gradient):
                for j, slope in enumerate(slopes):
                    row[j] -= RATE * slope

    def predict(self, pictures: List[Picture]) -> List[int]:
        return [max(range(CLASSES), key=row.__getitem__) for row in self.forward(pictures)]


def make_model() -> Model:
    kinds: List[Callable[[], Model]] = [TorchModel, NumpyModel]
    for kind in kinds:
        try:
            return kind()
        except ImportError:
            pass
    return PlainModel()


# ------------------------------------------------------------------------ loop


def train_step(model: Model, loader: Loader) -> float:
    pictures, labels = loader.load_batch()
    output = model.forward(pictures)
    loss = model.loss(output, labels)
    model.backward(labels)
    model.optimizer_step()
    return loss


def evaluate(model: Model, loader: Loader) -> float:
    pictures, labels = loader.load_batch()
    hits = sum(a == b for a, b in zip(model.predict(pictures), labels))
    return hits / len(labels)


def main() -> None:
    seconds = float(os.environ.get("TRAIN_SECONDS", "6"))
    steps = int(os.environ.get("TRAIN_STEPS", "0"))
    model = make_model()
    extent = f"{steps} steps" if steps else f"{seconds:g} s"
    print(f"training with {model.name} for {extent}", flush=True)
    loader = Loader(seed=7, cached=os.environ.get("TRAIN_CACHE", "0") != "0")
    start = last = time.monotonic()
    step = 0
    end_step(model, step)
    while step < steps if steps else time.monotonic() - start < seconds:
        loss = train_step(model, loader)
        step += 1
        end_step(model, step)
        if time.monotonic() - last >= 1.0:
            last = time.monotonic()
            accuracy = evaluate(model, loader)
            print(f"step {step:5d}  loss {loss:.3f}  accuracy {accuracy:.2f}", flush=True)
    took = time.monotonic() - start
    waited = f"data took {loader.seconds:.2f} s ({100 * loader.seconds / took:.0f} %)"
    print(f"done: {step} steps in {took:.2f} s, of which {waited}")


if __name__ == "__main__":
    main()
