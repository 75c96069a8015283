# SPDX-License-Identifier: Apache-2.0
"""A launcher of a distributed job: COUNT workers with RANK and LOCAL_RANK; with "shell", each below
a shell. Ready once all of them work."""

import os
import subprocess
import sys

import target


def rank_at_work(report_start):
    report_start()
    while True:
        for i in range(1000):
            pass


def launch(count, between):
    begun, report_start = os.pipe()
    children = []
    for rank in range(count):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), RANKS_FD=str(report_start))
        argv = [sys.executable, os.path.abspath(__file__), "work"]
        if between == "shell":
            argv = ["/bin/sh", "-c", '"$@"; true', "sh"] + argv
        children.append(subprocess.Popen(argv, env=env, pass_fds=[report_start]))
    pids = [int(os.read(begun, 8)) for _ in children]
    target.ready(workers=pids)
    os.read(0, 1)


def main():
    if sys.argv[1] == "work":
        fd = int(os.environ["RANKS_FD"])
        rank_at_work(lambda: os.write(fd, b"%8d" % os.getpid()))
    launch(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")


if __name__ == "__main__":
    main()
