# SPDX-License-Identifier: Apache-2.0
"""An event loop that ends with tasks still running."""

import asyncio

import common


async def work(number):
    for _ in range(10):
        common.use_memory(1)
        await asyncio.sleep(0.001)
    return number


async def forever():
    try:
        await asyncio.sleep(3600)
    finally:
        print("cancelled")


async def main():
    asyncio.ensure_future(forever())
    await asyncio.sleep(0)
    print(sum(await asyncio.gather(*(work(n) for n in range(20)))))
    await asyncio.get_running_loop().run_in_executor(None, common.use_memory)


asyncio.run(main())
