# SPDX-License-Identifier: Apache-2.0
"""Gradient steps of JAX on the CPU. Threads of XLA use nearly all of the time."""

import collections

import jax
import jax.numpy as jnp
import truth

ROUNDS = 20
batches = collections.deque(maxlen=32)


def load_batch(number):
    batches.append(bytearray(1 << 20))  # held
    return jnp.full((512, 512), number % 5 / 5)


def loss(weights, batch):
    hidden = batch
    for _ in range(6):
        hidden = jnp.tanh(hidden @ weights)
    return (hidden**2).mean()


@jax.jit
def update(weights, batch):
    return weights - 0.01 * jax.grad(loss)(weights, batch)


def train():
    weights = jnp.eye(512) * 0.5
    for number in truth.rounds("main", ROUNDS):
        weights = update(weights, load_batch(number))
        weights.block_until_ready()
        if number == ROUNDS - 1:
            print("shape", weights.shape, "finite", bool(jnp.isfinite(weights).all()))


if __name__ == "__main__":
    train()
