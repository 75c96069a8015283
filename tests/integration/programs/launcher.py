# SPDX-License-Identifier: Apache-2.0
"""A tree of processes: children through a shell, by multiprocessing's fork and spawn, by exec, one
that is not Python, and one that starts when a byte arrives on stdin."""

import multiprocessing
import os
import subprocess
import sys

import target

HERE = os.path.dirname(os.path.abspath(__file__))
SPIN = os.path.join(HERE, "named.py")


def spin_until_killed(name):
    import named

    named.spin_as(name)


def main():
    fifo = os.path.join(sys.argv[1], "fifo")
    os.mkfifo(fifo)
    os.environ["NAMED_FIFO"] = fifo
    # Stays open, also for writing: otherwise a child that closes its end would look like the start
    # of the next one.
    begun = os.open(fifo, os.O_RDWR)
    children = []

    def wait_for(start):
        children.append(start())
        os.read(begun, 1)

    wait_for(
        lambda: subprocess.Popen(
            ["/bin/sh", "-c", '"$0" "$1" in_shell; true', sys.executable, SPIN]
        )
    )
    wait_for(
        lambda: subprocess.Popen(["/bin/sh", "-c", 'exec "$0" "$1" by_exec', sys.executable, SPIN])
    )
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)

        def start(context=context, method=method):
            process = context.Process(target=spin_until_killed, args=("by_" + method,))
            process.daemon = True
            process.start()
            return process

        wait_for(start)
    children.append(subprocess.Popen(["sleep", "3600"]))
    target.ready()
    os.read(0, 1)
    wait_for(lambda: subprocess.Popen([sys.executable, SPIN, "late"]))
    target.ready(late=True)
    os.read(0, 1)


if __name__ == "__main__":
    main()
