# SPDX-License-Identifier: Apache-2.0
"""Sleeps."""

import time

import target


def nap():
    time.sleep(3600)


def main():
    target.ready()
    while True:
        nap()


main()
