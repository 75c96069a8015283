# SPDX-License-Identifier: Apache-2.0
"""What the target programs share: they say when they are ready, tell the truth
about their own stack, and end by themselves when nobody ends them.

Runs on every CPython from 3.8 on.
"""

import json
import os
import signal
import sys

LIFE_S = int(os.environ.get("TARGET_LIFE_S", "180"))


def say(**facts):
    """One line of JSON to whoever started us."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def ready(**facts):
    signal.alarm(LIFE_S)
    say(ready=True, pid=os.getpid(), **facts)


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def own_stack(depth=1):
    """The interpreter's own view of our stack, innermost frame first."""
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
    """Tells where we stand, then stands there until a byte comes on stdin."""
    signal.alarm(LIFE_S)
    say(ready=True, pid=os.getpid(), case=case, stack=own_stack(2), **facts)
    if not os.read(0, 1):
        os._exit(0)


def done():
    say(ready=True, done=True)
