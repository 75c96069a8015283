# SPDX-License-Identifier: Apache-2.0
"""Group-by queries of Polars: its threads work, the main thread waits for them."""

import collections

import polars
import truth

ROUNDS = 8
batches = collections.deque(maxlen=32)


def summarize(frame, number):
    batches.append(bytearray(1 << 20))  # held
    return (
        frame.lazy()
        .with_columns((polars.col("x") * number).sin().alias("y"))
        .group_by("key")
        .agg(polars.col("y").sum(), polars.col("x").sort().median())
        .collect()
    )


def main():
    count = 2_000_000
    frame = polars.select(x=polars.int_range(count).cast(polars.Float64)).with_columns(
        (polars.col("x").cast(polars.Int64) % 1000).alias("key")
    )
    for number in truth.rounds("main", ROUNDS):
        groups = summarize(frame, number)
        if number == ROUNDS - 1:
            print("groups", groups.height)


if __name__ == "__main__":
    main()
