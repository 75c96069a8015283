# SPDX-License-Identifier: Apache-2.0
"""Greenlets that are switched out at known places while the main one stands at a station."""

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
    """In a greenlet of its own, called from the main one, which is then switched out too."""
    target.station("greenlets")


def main():
    kept = [greenlet.greenlet(first), OwnGreenlet(second), greenlet.greenlet(never)]
    kept[0].switch()
    kept[1].switch()
    greenlet.greenlet(over).switch()
    greenlet.greenlet(stand).switch()


if greenlet:
    main()
else:
    target.say(ready=True, missing=True)
