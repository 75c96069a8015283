# SPDX-License-Identifier: Apache-2.0
"""Works for some seconds, then ends with a given status.  A negative status is the
signal that it sends to itself.  Arguments: seconds, status."""

import os
import sys
import time

import target


def busy(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(1000):
            pass


def main():
    target.ready(uid=os.getuid(), gid=os.getgid(), groups=os.getgroups())
    busy(float(sys.argv[1]))
    status = int(sys.argv[2])
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
