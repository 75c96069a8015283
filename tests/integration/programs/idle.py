# SPDX-License-Identifier: Apache-2.0
"""Sleeps."""

import time

import target


def nap():
    target.ready()
    while True:
        time.sleep(3600)


def main():
    nap()


main()
