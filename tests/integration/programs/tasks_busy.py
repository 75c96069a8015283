# SPDX-License-Identifier: Apache-2.0
"""Tasks that never pause: they change state, end and start all the time."""

import asyncio

import target


async def step():
    await asyncio.sleep(0)


async def worker(rounds):
    for _ in range(rounds):
        await step()


async def main():
    loop = asyncio.get_event_loop()
    target.ready()
    count = 0
    tasks = set()
    while True:
        while len(tasks) < 20:
            count += 1
            task = loop.create_task(worker(count % 7 + 1))
            task.set_name(f"worker {count % 20}")
            tasks.add(task)
        _, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


asyncio.new_event_loop().run_until_complete(main())
