# SPDX-License-Identifier: Apache-2.0
"""50, 30 and 20 % of the time in three functions.  SIGTERM: tells the truth and ends."""

import signal

import target
import work

stopped = []


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    target.ready()
    while not stopped:
        work.one_round()
    target.say(truth=work.shares())


main()
