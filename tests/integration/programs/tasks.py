# SPDX-License-Identifier: Apache-2.0
"""Has tasks in every state while the main task pauses."""

import asyncio
import sys
import threading

import target


class OwnTask(asyncio.Task):
    pass


async def leaf(event):
    await event.wait()


async def middle(event):
    await leaf(event)


async def waits_for(task):
    await task


async def steps(event):
    yield 1
    await leaf(event)
    yield 2


async def over_steps(event):
    async for _ in steps(event):
        pass


class Awaitable:
    def __init__(self, event):
        self.event = event

    def __await__(self):
        yield from self.event.wait().__await__()


async def through_object(event):
    await Awaitable(event)


async def turns():
    while True:
        await asyncio.sleep(0)


async def nothing():
    pass


def named(loop, name, coro):
    task = loop.create_task(coro)
    task.set_name(name)
    return task


async def main():
    loop = asyncio.get_event_loop()
    event = asyncio.Event()
    first = named(loop, "chain", middle(event))
    tasks = [
        first,
        named(loop, "waits for chain", waits_for(first)),
        named(loop, "async for", over_steps(event)),
        named(loop, "by object", through_object(event)),
        named(loop, "turns", turns()),
        OwnTask(leaf(event), loop=loop, name="own class"),
        asyncio.tasks._PyTask(leaf(event), loop=loop, name="in Python"),
        loop.create_task(leaf(event)),
        asyncio.ensure_future(leaf(event)),
    ]
    for _ in range(4):
        await asyncio.sleep(0)
    done = named(loop, "done", nothing())
    await done
    tasks.append(named(loop, "not begun", middle(event)))
    target.station("tasks", unnamed=[task.get_name() for task in tasks[7:9]])
    for task in tasks:
        task.cancel()


def in_thread(loop, ready):
    async def stand():
        asyncio.current_task().set_name("of the thread")
        ready.set()
        await asyncio.Event().wait()

    loop.run_until_complete(stand())


if __name__ == "__main__":
    ready = threading.Event()
    args = (asyncio.new_event_loop(), ready)
    threading.Thread(target=in_thread, args=args, daemon=True, name="looper").start()
    ready.wait()
    asyncio.new_event_loop().run_until_complete(main())
    sys.stdout.flush()
    target.done()
