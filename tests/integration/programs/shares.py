# SPDX-License-Identifier: Apache-2.0
"""Spends 50, 30 and 20 % of its time in three functions. On SIGTERM prints the true shares."""

import signal

import target
import work

stopped = []


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    target.ready()
    while not stopped:
        work.one_round()
    target.emit(truth=work.shares())


main()
