# SPDX-License-Identifier: Apache-2.0
"""A multiprocessing pool started by METHOD, whose workers spin until they are killed."""

import multiprocessing
import os
import sys

import target


def pool_at_work(fifo):
    with open(fifo, "w") as file:
        file.write("%8d" % os.getpid())
    while True:
        for i in range(1000):
            pass


def main():
    context = multiprocessing.get_context(sys.argv[1])
    fifo = os.path.join(sys.argv[2], "fifo")
    os.mkfifo(fifo)
    with context.Pool(2) as pool:
        pool.map_async(pool_at_work, [fifo, fifo], chunksize=1)
        pids = ""
        while len(pids) < 16:
            with open(fifo) as file:
                pids += file.read()
        target.ready(workers=[int(pids[:8]), int(pids[8:16])])
        os.read(0, 1)


if __name__ == "__main__":
    main()
