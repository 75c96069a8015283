# SPDX-License-Identifier: Apache-2.0
"""Pauses in generators, coroutines and callbacks from C."""

import asyncio
import ctypes
import functools

import target


def inner_generator():
    target.station("inner generator")
    yield 1


def outer_generator():
    yield from inner_generator()


def generator_loop():
    for _ in outer_generator():
        pass


async def leaf_coroutine():
    target.station("coroutine")


async def middle_coroutine():
    await leaf_coroutine()


async def async_generator():
    target.station("async generator")
    yield 1


async def over_async_generator():
    async for _ in async_generator():
        pass


def through_map(item):
    if item:
        return list(map(through_map, [item - 1]))
    return target.station("recursion through map")


def by_key(item):
    if item == 1:
        target.station("key of sorted")
    return item


def reduce_step(total, item):
    if item == 2:
        target.station("reduce")
    return total + item


def by_library(one, _):
    """Called by the C library's qsort()."""
    if one:
        target.station("C library")
    return 0


def through_library():
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(by_library)
    numbers = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), callback)


class Thing:
    def __getattr__(self, name):
        target.station("getattr")
        return name

    def __len__(self):
        target.station("len")
        return 3

    @property
    def size(self):
        target.station("property")
        return 1

    @staticmethod
    def static():
        target.station("static method")

    @classmethod
    def of_class(cls):
        target.station("class method")


def in_except():
    try:
        raise ValueError("x")
    except ValueError:
        target.station("except block")
    finally:
        target.station("finally block")


def in_with():
    class Manager:
        def __enter__(self):
            target.station("enter")

        def __exit__(self, *_):
            target.station("exit")

    with Manager():
        target.station("with block")


def main():
    generator_loop()
    sum(item for item in outer_generator())
    asyncio.new_event_loop().run_until_complete(middle_coroutine())
    asyncio.new_event_loop().run_until_complete(over_async_generator())
    through_map(3)
    sorted([2, 1], key=by_key)
    functools.reduce(reduce_step, [1, 2, 3], 0)
    through_library()
    thing = Thing()
    getattr(thing, "missing")
    len(thing)
    getattr(thing, "size")
    thing.static()
    thing.of_class()
    in_except()
    in_with()
    exec(compile("target.station('exec')", "<made up>", "exec"), globals())
    target.done()


main()
