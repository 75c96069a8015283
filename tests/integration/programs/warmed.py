# SPDX-License-Identifier: Apache-2.0
"""Pauses in functions whose calls the interpreter has specialised by calling each often. Some have
frames of the interpreter itself below them."""

import functools

import target

ROUNDS = 60


def stand(case):
    if case:
        target.station(case)


class Made:
    def __init__(self, case):
        stand(case)

    @property
    def value(self):
        return stand(CASE[0])

    def __getattr__(self, name):
        return stand(CASE[0])

    def __getitem__(self, key):
        return stand(key)

    def __call__(self, case):
        return stand(case)

    def __add__(self, case):
        return stand(case)

    def __len__(self):
        stand(CASE[0])
        return 0

    def __enter__(self):
        return stand(CASE[0])

    def __exit__(self, *_):
        return False

    def method(self, case):
        return stand(case)

    @classmethod
    def of_class(cls, case):
        return stand(case)


class Derived(Made):
    def __init__(self, case):
        super().__init__(case)


class Outer:
    def __init__(self, case):
        self.inner = Derived(case)


class Slots:
    __slots__ = ("x",)

    def __init__(self, x, *, case):
        self.x = Made(case)


CASE = [None]
ONE = Made(None)


def keywords(*rest, case, more=1):
    stand(case)


def defaults(case, a=1, b=2):
    stand(case)


def generator(case):
    yield 1
    stand(case)


def delegating(case):
    yield from generator(case)


async def coroutine(case):
    stand(case)


async def awaiting(case):
    await coroutine(case)


def drive(case):
    try:
        awaiting(case).send(None)
    except StopIteration:
        pass


def enter(case):
    CASE[0] = case
    with ONE:
        pass


def with_case(case, call):
    CASE[0] = case
    return call()


PARTIAL = functools.partial(defaults, b=3)

CALLS = {
    "constructor": lambda case: Made(case),
    "constructor of a derived class": lambda case: Derived(case),
    "constructor in a constructor": lambda case: Outer(case),
    "constructor with keywords": lambda case: Slots(1, case=case),
    "property": lambda case: with_case(case, lambda: ONE.value),
    "missing attribute": lambda case: with_case(case, lambda: ONE.missing),
    "index": lambda case: ONE[case],
    "call of an object": lambda case: ONE(case),
    "operator": lambda case: ONE + case,
    "length": lambda case: with_case(case, lambda: len(ONE)),
    "context": enter,
    "method": lambda case: ONE.method(case),
    "class method": lambda case: Made.of_class(case),
    "keywords": lambda case: keywords(1, case=case),
    "unpacked arguments": lambda case: keywords(*(1, 2), **{"case": case}),
    "defaults": lambda case: defaults(case),
    "partial": lambda case: PARTIAL(case),
    "generator": lambda case: [one for one in generator(case)],
    "delegating generator": lambda case: list(delegating(case)),
    "coroutine": drive,
    "sort key": lambda case: sorted([case], key=stand),
}


def main():
    for name, call in CALLS.items():
        for i in range(ROUNDS):
            call(name if i == ROUNDS - 1 else None)
    target.done()


main()
