# SPDX-License-Identifier: Apache-2.0
"""Boosts trees with XGBoost. Its C++ library, called by ctypes, uses the time."""

import collections

import numpy
import truth
import xgboost

ROUNDS = 20
folds = collections.deque(maxlen=32)


def boost(booster, data, number):
    folds.append(bytearray(1 << 20))  # held
    booster.update(data, number)


def main():
    random = numpy.random.default_rng(0)
    rows = random.normal(size=(40_000, 20))
    labels = (rows[:, 0] + rows[:, 1] * rows[:, 2] > 0).astype(int)
    settings = {"objective": "binary:logistic", "max_depth": 6, "nthread": 2}
    data = xgboost.DMatrix(rows, labels)
    booster = xgboost.Booster(settings, [data])
    for number in truth.rounds("main", ROUNDS):
        boost(booster, data, number)
        if number % 50 == 49:
            booster = xgboost.Booster(settings, [data])  # each tree makes the next slower
        if number == ROUNDS - 1:
            print("trees", booster.num_boosted_rounds())


if __name__ == "__main__":
    main()
