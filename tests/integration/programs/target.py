# SPDX-License-Identifier: Apache-2.0
"""Shared by the target programs: they print when they are
ready, print their own stack, and exit on their own after a time
limit.

Runs on every CPython from 3.8 on. """

import json
import os
import signal
import sys

LIFE_S = int(os.environ.get("TARGET_LIFE_S", "180"))


def emit(**facts):
    """Prints one line of JSON for the test."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def ready(**facts):
    signal.alarm(LIFE_S)
    emit(ready=True, pid=os.getpid(), **facts)


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def own_stack(depth=1):
    """Returns the program's stack as the interpreter sees it, innermost frame first."""
    frames = []
    frame = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        frames.append(
            {
                "name": name_of(code),
                "file": code.co_filename,
                "line": frame.f_lineno,
                "first_line": code.co_firstlineno,
            }
        )
        frame = frame.f_back
    return frames


def station(case, **facts):
    """Prints where the program is, then waits there for a byte on stdin."""
    signal.alarm(LIFE_S)
    emit(ready=True, pid=os.getpid(), case=case, stack=own_stack(2), **facts)
    if not os.read(0, 1):
        os._exit(0)


def done():
    emit(ready=True, done=True)
