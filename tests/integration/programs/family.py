# SPDX-License-Identifier: Apache-2.0
"""A job with all kinds of children: ranks below a shell, a forked worker, a process that becomes
another interpreter (OTHER) by exec, a program that is not Python, and children that end at once.
FOLDER gets a FIFO. Ready once all lasting children work."""

import os
import subprocess
import sys

import target

HERE = os.path.dirname(os.path.abspath(__file__))
NAMED = os.path.join(HERE, "named.py")
# Runs Python code for a short time, then another program.
BECOME = """
import os, sys
for i in range(300000):
    pass
os.execv(sys.argv[1], sys.argv[1:])
"""


def main():
    folder, other = sys.argv[1:3]
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    begun = os.open(fifo, os.O_RDWR)
    env = dict(os.environ, NAMED_FIFO=fifo)
    children = []
    for rank in range(2):
        argv = ["/bin/sh", "-c", '"$@"; true', "sh", sys.executable, NAMED, "rank_%d" % rank]
        children.append(subprocess.Popen(argv, env=dict(env, RANK=str(rank), WORLD_SIZE="2")))
    children.append(
        subprocess.Popen([sys.executable, "-c", BECOME, other, NAMED, "by_other"], env=env)
    )
    os.environ["NAMED_FIFO"] = fifo
    if os.fork() == 0:
        import named

        named.spin_as("forked")
        os._exit(0)
    children.append(subprocess.Popen(["sleep", "3600"]))
    for _ in range(4):
        os.read(begun, 1)
    target.ready()
    while True:
        for argv in (["true"], [sys.executable, "-S", "-c", ""], ["/no/such/program"]):
            try:
                subprocess.run(argv)
            except OSError:
                pass


if __name__ == "__main__":
    main()
