# SPDX-License-Identifier: Apache-2.0
"""Process pools with every start method."""

import concurrent.futures
import multiprocessing
import sys

import common


def square(number):
    common.use_memory(4)
    return number * number


def main():
    method = sys.argv[1]
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        print(pool.map(square, range(8)))
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        print(list(pool.map(square, range(8))))
    process = context.Process(target=sys.exit, args=(4,))
    process.start()
    process.join()
    print(process.exitcode)


if __name__ == "__main__":
    main()
