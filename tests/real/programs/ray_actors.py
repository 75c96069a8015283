# SPDX-License-Identifier: Apache-2.0
"""Two actors of Ray with 15 rounds each."""

import collections
import logging

import ray
import truth

ROUNDS = 15


@ray.remote
class Simulator:
    def __init__(self):
        self.rounds = 0
        self.worlds = collections.deque(maxlen=32)

    def simulate(self):
        self.worlds.append(bytearray(1 << 20))  # held
        state = 0
        for i in range(300_000):
            state = (state * 31 + i) & 0xFFFF
        self.rounds += 1
        truth.report("worker", self.rounds)
        return self.rounds


def main():
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
        object_store_memory=80 << 20,
    )
    actors = [Simulator.remote() for _ in range(2)]
    done = []
    for _ in truth.rounds("main", ROUNDS):
        done = ray.get([actor.simulate.remote() for actor in actors])
    print("rounds at least", [min(count, ROUNDS) for count in done])
    ray.shutdown()


if __name__ == "__main__":
    main()
