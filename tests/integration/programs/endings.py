# SPDX-License-Identifier: Apache-2.0
"""Works, with a waiting thread beside it, until a line on stdin selects how to end."""

import ctypes
import os
import sys
import threading

import target


def wait_for_word(word):
    word.append(sys.stdin.readline().strip())
    threading.Event().wait()


def crash():
    ctypes.string_at(0)


def hoard(size):
    kept = []
    while True:
        kept.append(b"x" * size)


def work():
    return sum(i * i for i in range(1000))


def main():
    word = []
    threading.Thread(target=wait_for_word, args=(word,), name="listener", daemon=True).start()
    target.ready()
    while not word:
        work()
    if word[0] == "segv":
        crash()
    if word[0] == "exit":
        os._exit(7)
    if word[0] == "memory":
        raise MemoryError("no more")
    if word[0] == "hoard":
        hoard(1 << 20)


main()
