# SPDX-License-Identifier: Apache-2.0
"""Tasks as later versions create them: gathered, in groups, eager, behind async generators; and the
interpreter's own view of each chain of awaits."""

import asyncio
import sys

import target


async def leaf(event):
    await event.wait()


async def middle(event):
    await leaf(event)


async def gathers(event):
    await asyncio.gather(leaf(event), middle(event))


async def waits_for_a_while(event):
    await asyncio.wait_for(leaf(event), 3600)


async def groups(event):
    async with asyncio.TaskGroup() as group:
        group.create_task(middle(event), name="in the group")


async def inner_steps(event):
    yield 1
    await middle(event)
    yield 2


async def outer_steps(event):
    async for step in inner_steps(event):
        yield step


async def over_outer_steps(event):
    async for _ in outer_steps(event):
        pass


async def sends(event):
    steps = outer_steps(event)
    await steps.asend(None)
    await steps.asend(None)


async def in_context(event):
    async with asyncio.Lock():
        try:
            await leaf(event)
        finally:
            event.clear()


async def stands(tasks, facts):
    """If tasks can be eager, two tasks run at this point, one inside the other."""
    chains = {task.get_name(): chain_of(task) for task in tasks}
    # The task may get its name only after its first step.
    running = asyncio.current_task().get_name()
    target.station("tasks", chains=chains, running=running, **facts)


def chain_of(task):
    """Returns the chain, outermost first, up to an object that does not expose what it awaits."""
    chain = []
    one = task.get_coro()
    while one is not None:
        frame = code = None
        for kind in ("cr", "gi", "ag"):
            frame = getattr(one, kind + "_frame", frame)
            code = getattr(one, kind + "_code", code)
        if frame is None:
            break
        chain.append([target.name_of(code), frame.f_lineno])
        one = next(
            (
                getattr(one, name)
                for name in ("cr_await", "gi_yieldfrom", "ag_await")
                if hasattr(one, name)
            ),
            None,
        )
    return chain


def named(loop, name, coro):
    task = loop.create_task(coro)
    task.set_name(name)
    return task


async def main():
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    tasks = [
        named(loop, "gathers", gathers(event)),
        named(loop, "waits for a while", waits_for_a_while(event)),
        named(loop, "async generators", over_outer_steps(event)),
        named(loop, "sends", sends(event)),
        named(loop, "in a context", in_context(event)),
    ]
    if hasattr(asyncio, "TaskGroup"):
        tasks.append(named(loop, "groups", groups(event)))
    for _ in range(6):
        await asyncio.sleep(0)
    eager = hasattr(asyncio, "eager_task_factory")
    facts = {"eager": eager, "groups": hasattr(asyncio, "TaskGroup")}
    if eager:
        loop.set_task_factory(asyncio.eager_task_factory)
        tasks.append(loop.create_task(middle(event), name="eager"))
        tasks.append(loop.create_task(stands(tasks, facts), name="eager and running"))
    else:
        await stands(tasks, facts)
    for task in tasks:
        task.cancel()


asyncio.new_event_loop().run_until_complete(main())
sys.stdout.flush()
target.done()
