# SPDX-License-Identifier: Apache-2.0
"""Nested generators, coroutines and async generators that never pause. Reports every possible
stack, as seen by a profile hook during one round."""

import sys

import target


def burn():
    total = 0
    for number in range(60):
        total += number
    return total


def numbers():
    for number in range(3):
        burn()
        yield number


def third():
    yield from numbers()
    burn()


def second():
    yield from third()


def first():
    burn()
    yield from second()


def squares(source):
    for number in source:
        burn()
        yield number * number


def nested():
    return sum(number for number in squares(squares(first())))


class Pause:
    def __await__(self):
        burn()
        yield
        burn()


async def low():
    await Pause()
    burn()


async def middle():
    await low()


async def steps():
    for number in range(2):
        await middle()
        burn()
        yield number


async def double_steps():
    async for number in steps():
        yield number
        burn()


async def over_steps():
    async for _ in double_steps():
        burn()


def drive(coro):
    try:
        while True:
            coro.send(None)
    except StopIteration:
        pass


def thrown():
    one = first()
    next(one)
    try:
        one.throw(KeyError)
    except KeyError:
        burn()


def by_c(number):
    return next(squares(iter([number])))


def round_of_all():
    nested()
    drive(over_steps())
    thrown()
    list(map(by_c, sorted([2, 1], key=by_c)))


def stacks():
    seen = set()

    def watch(frame, event, _):
        if event not in ("call", "return"):
            return
        stack = []
        while frame is not None:
            stack.append(target.name_of(frame.f_code))
            frame = frame.f_back
        seen.update(tuple(reversed(stack[i:])) for i in range(len(stack)))

    sys.setprofile(watch)
    round_of_all()
    sys.setprofile(None)
    # Without the module, main() and stacks().
    return sorted(stack[3:] for stack in seen if len(stack) > 3)


# Functions and the generators they create: from 3.11 on the generator's function has a frame for a
# short time, which profile hooks miss.
MAKES = [
    ("nested", "squares"),
    ("nested", "first"),
    ("nested", "nested.<locals>.<genexpr>"),
    ("first", "second"),
    ("second", "third"),
    ("third", "numbers"),
    ("round_of_all", "over_steps"),
    ("over_steps", "double_steps"),
    ("double_steps", "steps"),
    ("steps", "middle"),
    ("middle", "low"),
    ("low", "Pause.__await__"),
    ("thrown", "first"),
    ("by_c", "squares"),
]


def main():
    every = stacks()
    target.ready(stacks=every, makes=MAKES)
    while True:
        round_of_all()


main()
