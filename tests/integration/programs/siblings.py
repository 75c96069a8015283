# SPDX-License-Identifier: Apache-2.0
"""Families of functions that never rest, for stacks that cannot be: siblings with frames of one
size call their own callees in turn, so that a stack of two moments shows as a pair of caller and
callee that no code here makes.  The argument says how they are called."""

import sys

import target

KIND = sys.argv[1] if len(sys.argv) > 1 else "calls"
FAMILIES = range(8)
SIBLINGS = range(3)

# {f} is the family, {s} one of its siblings.
SOURCES = {
    # A call every few tens of nanoseconds.
    "calls": (
        "def leaf_{f}_{s}():\n    pass\n",
        "def middle_{f}_{s}():\n    leaf_{f}_{s}()\n    leaf_{f}_0()\n    leaf_{f}_{s}()\n",
        "def family_{f}():\n    middle_{f}_0()\n    middle_{f}_1()\n    middle_{f}_2()\n",
    ),
    # One place that calls everything: nothing in its code tells whom.
    "callbacks": (
        "def leaf_{f}_{s}():\n    pass\n",
        "def middle_{f}_{s}():\n    leaf_{f}_{s}()\n    leaf_{f}_0()\n    leaf_{f}_{s}()\n",
        "def family_{f}():\n    for one in CALLBACKS_{f}:\n        one()\n",
    ),
    # Keywords, defaults and what stands behind *.
    "keywords": (
        "def leaf_{f}_{s}(x=1, *rest, y=2):\n    pass\n",
        "def middle_{f}_{s}(x=1, *rest):\n"
        "    leaf_{f}_{s}(*rest, y=3)\n    leaf_{f}_0(x, y=x)\n    leaf_{f}_{s}(x)\n",
        "def family_{f}():\n    middle_{f}_0(x=1)\n    middle_{f}_1(1, 2, 3)\n    middle_{f}_2()\n",
    ),
    # C code between caller and callee.
    "through_c": (
        "def leaf_{f}_{s}(_):\n    pass\n",
        "def middle_{f}_{s}(_):\n"
        "    list(map(leaf_{f}_{s}, PAIR))\n    list(map(leaf_{f}_0, PAIR))\n",
        "def family_{f}():\n    for one in CALLBACKS_{f}:\n        list(map(one, PAIR))\n",
    ),
    # Each level goes down by another function than the one before.
    "recursion": (
        "def leaf_{f}_{s}():\n    pass\n",
        "def middle_{f}_{s}(n):\n    leaf_{f}_{s}()\n    if n:\n"
        "        middle_{f}_{t}(n - 1)\n    leaf_{f}_{s}()\n",
        "def family_{f}():\n    middle_{f}_0(5)\n    middle_{f}_1(2)\n    middle_{f}_2(3)\n",
    ),
    "generators": (
        "def leaf_{f}_{s}():\n    yield 1\n    yield 2\n",
        "def middle_{f}_{s}():\n    yield from leaf_{f}_{s}()\n"
        "    for one in leaf_{f}_0():\n        yield one\n",
        "def family_{f}():\n    for one in middle_{f}_0():\n        pass\n"
        "    for one in middle_{f}_1():\n        pass\n"
        "    for one in middle_{f}_2():\n        pass\n",
    ),
    "coroutines": (
        "async def leaf_{f}_{s}():\n    pass\n",
        "async def middle_{f}_{s}():\n    await leaf_{f}_{s}()\n    await leaf_{f}_0()\n",
        "async def family_{f}_async():\n"
        "    await middle_{f}_0()\n    await middle_{f}_1()\n    await middle_{f}_2()\n",
        "def family_{f}():\n    try:\n        family_{f}_async().send(None)\n"
        "    except StopIteration:\n        pass\n",
    ),
}


def pairs():
    """Every caller and callee that the sources above make."""
    every = [("", "<module>"), ("<module>", "main")]
    for f in FAMILIES:
        family = f"family_{f}"
        every.append(("main", family))
        if KIND == "coroutines":
            every.append((family, f"family_{f}_async"))
            family = f"family_{f}_async"
        for s in SIBLINGS:
            middle = f"middle_{f}_{s}"
            every.append((family, middle))
            every.append((middle, f"leaf_{f}_{s}"))
            if KIND == "recursion":
                every.append((middle, f"middle_{f}_{(s + 1) % 3}"))
            else:
                every.append((middle, f"leaf_{f}_0"))
    return every


def define():
    text = ""
    for f in FAMILIES:
        for source in SOURCES[KIND]:
            own = SIBLINGS if "{s}" in source else [0]
            text += "".join(source.format(f=f, s=s, t=(s + 1) % 3) for s in own)
        text += f"CALLBACKS_{f} = [middle_{f}_0, middle_{f}_1, middle_{f}_2]\n"
    text += "PAIR = (1, 2)\n"
    text += "def main():\n    while True:\n"
    text += "".join(f"        family_{f}()\n" for f in FAMILIES)
    exec(compile(text, __file__, "exec"), globals())


define()
target.ready(pairs=pairs())
main()  # noqa: F821
