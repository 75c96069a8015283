# SPDX-License-Identifier: Apache-2.0
"""Spins below a known chain of native functions, and in a Python function that they call back.
Argument: the shared library built from chain.c."""

import ctypes
import sys

import target

library = ctypes.CDLL(sys.argv[1])
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def called_back(count):
    total = 0
    for i in range(count // 40):
        total += i
    return total & 1


def go_down(count, back):
    return library.chain_outer(count, back)


def main():
    back = CALLBACK(called_back)
    no_callback = ctypes.cast(None, CALLBACK)
    target.ready()
    while True:
        go_down(200000, no_callback)
        go_down(200000, back)


main()
