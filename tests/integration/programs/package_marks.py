# SPDX-License-Identifier: Apache-2.0
"""Uses marks of every kind in one process; prints its facts as a line of JSON and waits.

usage: package_marks.py (the package is on PYTHONPATH)"""

import asyncio
import gc
import json
import os
import sys
import threading

import gsprof


@gsprof.span
def plain(x):
    return x + 1


@gsprof.span("coroutine", phase="async")
async def coroutine():
    await asyncio.sleep(0)
    return 7


@gsprof.span("generator")
def generator():
    got = yield 1
    yield got


@gsprof.span("async generator")
async def async_generator():
    got = yield 1
    yield got


class Methods:
    @gsprof.span("static")
    @staticmethod
    def static():
        return "static"

    @classmethod
    @gsprof.span("class")
    def cls(cls):
        return cls.__name__


async def task(name):
    with gsprof.span("task " + name):
        await asyncio.sleep(0)
        with gsprof.span("inner " + name):
            await asyncio.sleep(0)
        await asyncio.sleep(0)


async def tasks():
    await asyncio.gather(*(task(name) for name in "ab"))
    items = async_generator()
    assert await items.__anext__() == 1
    assert await items.asend(5) == 5
    async for _ in items:
        raise AssertionError
    return await coroutine()


class Bad:
    def __str__(self):
        raise RuntimeError("no text")


def nested():
    with gsprof.span(
        "outer", phase="data", n=1, share=0.5, on=True, text="\ud800é", bad=Bad()
    ) as outer:
        assert gsprof.current_span() is outer
        with gsprof.span("inner"):
            gsprof.event("event", items=[1, "two", None])
        outer.set(later={"a": 1})
    assert gsprof.current_span() is None


def errors():
    try:
        with gsprof.span("error"):
            raise ValueError("expected")
    except ValueError as error:
        assert str(error) == "expected"
    try:
        with gsprof.span("interrupt"):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    for wrong in (lambda: gsprof.span(), lambda: gsprof.span(3), lambda: gsprof.Span()):
        try:
            wrong()
        except TypeError:
            continue
        raise AssertionError(wrong)


def threads():
    def work(number):
        with gsprof.span("thread", number=number):
            pass

    all_of_them = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    with gsprof.span("main"):
        for thread in all_of_them:
            thread.start()
        for thread in all_of_them:
            thread.join()


def fork():
    with gsprof.span("before fork"):
        child = os.fork()
        if child == 0:
            with gsprof.span("in child"):
                pass
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return child


def recursion(depth):
    with gsprof.span("deep"):
        return depth and recursion(depth - 1)


def stacks():
    gsprof.config(stack_span="^slow", stack_exception=True, stack_gc=1e-6, stack_locals=True)
    marker = 17  # noqa: F841
    with gsprof.span("slow one"):
        pass
    # Stacks of events are rate-limited.
    threading.Event().wait(0.02)
    try:
        with gsprof.span("raises"):
            {}["missing"]
    except KeyError:
        pass
    threading.Event().wait(0.02)
    gc.collect()
    gsprof.config(stack_span="", stack_exception=False, stack_gc=0)


def main():
    assert not gsprof.is_enabled()
    with gsprof.span("off"):
        gsprof.event("off")
    gsprof.step()
    assert gsprof.enable(sample_rate=0.5)
    assert gsprof.is_enabled() and gsprof.config()["sample_rate"] == "0.5"
    assert plain(1) == 2 and plain.__name__ == "plain"
    assert list(generator()) == [1, None]
    assert asyncio.run(tasks()) == 7
    assert Methods().static() == "static" and Methods.cls() == "Methods"
    nested()
    errors()
    threads()
    recursion(50)
    child = fork()
    stacks()
    reused = gsprof.span("reused")
    for _ in range(3):
        with reused:
            with reused:
                pass
    gsprof.config(spans=False)
    with gsprof.span("off"):
        pass
    gsprof.config(spans=True)
    for number in range(3):
        gsprof.step(batch_size=8)
    try:
        gsprof.enable(no_such_setting=1)
        raise AssertionError
    except TypeError:
        pass
    print(json.dumps({"pid": os.getpid(), "child": child, "file": gsprof.__file__}), flush=True)

    # A thread that keeps writing while the interpreter shuts down. It may reuse the lane of a
    # thread that has ended, whose rows it must not overwrite.
    def on():
        for _ in range(2000):
            with gsprof.span("daemon"):
                pass
        while True:
            gsprof.current_span()

    threading.Thread(target=on, daemon=True).start()
    sys.stdin.read(1)
    with gsprof.span("last"):
        pass


main()
