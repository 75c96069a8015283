# SPDX-License-Identifier: Apache-2.0
"""A small target that looks large from outside. Argument "tables": a thousand functions share one
line table of 4 MB. Argument "names": deep stacks of several threads, in functions with names and
values of 4 KB. Argument "values": many deep stacks, and each frame has a value that takes long to
read. Argument "tasks": thousands of asyncio tasks with deep chains of awaits."""

import asyncio
import sys
import threading
import types

import target

SOURCE = """
def level(left, functions, last, value):
    if left:
        return functions[left % len(functions)](left - 1, functions, last, value)
    last()
"""


def base():
    space = {}
    exec(SOURCE, space)
    return space["level"]


def with_tables(count):
    function = base()
    code = function.__code__
    name = "co_linetable" if hasattr(code, "co_linetable") else "co_lnotab"
    table = getattr(code, name) + b"\x80\x00" * 2_000_000
    return [
        types.FunctionType(
            code.replace(**{name: table, "co_firstlineno": i + 1}), function.__globals__
        )
        for i in range(count)
    ]


def with_names():
    function = base()
    names = {"co_name": "n" * 4000, "co_filename": "f" * 4000}
    if hasattr(function.__code__, "co_qualname"):
        names["co_qualname"] = names["co_name"]
    function.__code__ = function.__code__.replace(**names)
    return [function]


async def with_tasks(count, depth):
    async def wait_below(left):
        await (wait_below(left - 1) if left else asyncio.sleep(1000))

    tasks = [asyncio.ensure_future(wait_below(depth)) for _ in range(count)]
    await asyncio.sleep(0)  # they start
    target.ready()
    await asyncio.gather(*tasks)


def main():
    if sys.argv[1] == "tasks":
        asyncio.run(with_tasks(12000, 50))
    sys.setrecursionlimit(10000)
    done = threading.Event()
    value = "x" * 4000
    if sys.argv[1] == "tables":
        functions, threads, depth = with_tables(1000), 1, 1000
    elif sys.argv[1] == "names":
        functions, threads, depth = with_names(), 20, 900
    else:
        functions, threads, depth = [base()], 50, 900
        value = {str(i): list(range(50)) for i in range(200)}
    inside = threading.Barrier(threads + 1)

    def last():
        inside.wait()
        done.wait()

    threading.stack_size(64 << 20)
    for _ in range(threads):
        threading.Thread(
            target=functions[0], args=(depth, functions, last, value), daemon=True
        ).start()
    inside.wait()
    target.ready()
    done.wait()


if __name__ == "__main__":
    main()
