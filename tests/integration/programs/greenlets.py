# SPDX-License-Identifier: Apache-2.0
"""Greenlets that are switched out at known lines while one of them pauses."""

import threading

import target

try:
    import greenlet
except ImportError:
    greenlet = None


class OwnGreenlet(greenlet.greenlet if greenlet else object):
    pass


def deep(depth):
    if depth:
        return deep(depth - 1)
    return greenlet.getcurrent().parent.switch()


def through_sorted(_):
    return deep(1)


def first():
    deep(3)


def second():
    sorted([1], key=through_sorted)


def never():
    pass


def over():
    return 1


def stand():
    """Called from another greenlet, which was called from the main one."""
    own = greenlet.getcurrent()
    target.station(
        "greenlets",
        running=id(own),
        between=id(own.parent),
        main=id(own.parent.parent),
    )


def between():
    greenlet.greenlet(stand).switch()


def in_thread(ready, end):
    one = greenlet.greenlet(deep)
    one.switch(1)
    ready.set()
    end.wait()


def main():
    kept = [greenlet.greenlet(first), OwnGreenlet(second), greenlet.greenlet(never)]
    kept[1].name = "own one"
    kept[0].switch()
    kept[1].switch()
    greenlet.greenlet(over).switch()
    ready = threading.Event()
    thread = threading.Thread(target=in_thread, args=(ready, threading.Event()), daemon=True)
    thread.name = "other"
    thread.start()
    ready.wait()
    greenlet.greenlet(between).switch()


if greenlet:
    main()
else:
    target.emit(ready=True, missing=True)
