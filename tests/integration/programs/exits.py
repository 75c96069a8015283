# SPDX-License-Identifier: Apache-2.0
"""Works until a file exists, then exits with a given status. If the status is negative, it sends
itself that signal. Arguments: the file, status."""

import os
import sys

import target


def busy(path):
    while not os.path.exists(path):
        for _ in range(1000):
            pass


def main():
    target.ready(uid=os.getuid(), gid=os.getgid(), groups=os.getgroups())
    busy(sys.argv[1])
    status = int(sys.argv[2])
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
