# SPDX-License-Identifier: Apache-2.0
"""Pauses in a Python function that a known chain of native functions called back. Argument: the
shared library built from chain.c."""

import ctypes
import sys

import target

library = ctypes.CDLL(sys.argv[1])
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def called_back(count):
    target.station("native", count=count)
    return 0


def go_down(count, back):
    return library.chain_outer(count, back)


def main():
    back = CALLBACK(called_back)
    go_down(17, back)


main()
