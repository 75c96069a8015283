# SPDX-License-Identifier: Apache-2.0
"""Programs that call and return as fast as Python can, so that a copy of their frames is often
torn. Eight families of functions run one after the other. A family has four siblings with frames of
one size, each with its own callees; helpers that all of them share get the function to call as an
argument. The program's argument selects how they call.

Reports every stack that the interpreter showed in observed rounds, and which function creates which
generator: from 3.11 on that function has a frame for a short time, which profile hooks miss.
"""

import functools
import re
import sys

import target

KIND = sys.argv[1] if len(sys.argv) > 1 else "siblings"
FAMILIES = range(8)
SIBLINGS = range(4)
# Families from here on have frames of several sizes.
UNEVEN = 4

if KIND == "greenlets":
    import greenlet


class Stop(Exception):
    pass


# Each text is a function of the family {f}; with {s}, of each of its siblings. {t} is the next
# sibling. {p} are parameters that make frames larger.
SOURCES = {
    # Plain calls, one every few tens of nanoseconds. A shared helper calls its argument.
    "siblings": """
def leaf_{f}_{s}({p}): pass
--
def other_{f}_{s}({p}): pass
--
def given_{f}_{s}(): pass
--
def shared_{f}(one): one()
--
def caller_{f}_{s}({p}):
    leaf_{f}_{s}()
    other_{f}_{s}()
    leaf_{f}_{s}()
--
def giver_{f}_{s}(): shared_{f}(given_{f}_{s})
--
def family_{f}():
    caller_{f}_0(); caller_{f}_1(); caller_{f}_2(); caller_{f}_3()
    giver_{f}_0(); giver_{f}_1(); giver_{f}_2(); giver_{f}_3()
""",
    # One line calls all functions, so its code does not name the callee. All kinds of arguments.
    "tables": """
def leaf_{f}_{s}(*rest, x=1, **more): pass
--
def caller_{f}_{s}(a=1, *rest, b=2, **more):
    leaf_{f}_{s}(*rest, x=a, **more)
    leaf_{f}_{s}(a, b, x=b)
--
def family_{f}():
    for one in (caller_{f}_0, caller_{f}_1, caller_{f}_2, caller_{f}_3):
        one()
        one(1, 2, b=3, c=4)
""",
    # Down to several depths, alternating between two functions, and through a tree of calls.
    "recursion": """
def mark_{f}_{s}(): pass
--
def down_{f}_{s}(n):
    mark_{f}_{s}()
    if n:
        down_{f}_{t}(n - 1)
--
def left_{f}(n):
    if n:
        left_{f}(n - 1)
        right_{f}(n - 1)
--
def right_{f}(n):
    if n:
        left_{f}(n - 1)
--
def family_{f}():
    down_{f}_0(3); down_{f}_1(1); down_{f}_2(6); down_{f}_3(2)
    left_{f}(3)
""",
    # Short-lived and nested, driven by bytecode and by C.
    "generators": """
def work_{f}_{s}(): pass
--
def low_{f}_{s}():
    yield 1
    work_{f}_{s}()
    yield 2
--
def middle_{f}_{s}():
    yield from low_{f}_{s}()
--
def high_{f}_{s}():
    for one in middle_{f}_{s}():
        yield one
--
def caller_{f}_{s}():
    for one in high_{f}_{s}():
        pass
    sum(one for one in low_{f}_{s}())
    list(middle_{f}_{s}())
--
def family_{f}():
    caller_{f}_0(); caller_{f}_1(); caller_{f}_2(); caller_{f}_3()
""",
    "coroutines": """
def work_{f}_{s}(): pass
--
async def low_{f}_{s}(): work_{f}_{s}()
--
async def high_{f}_{s}():
    await low_{f}_{s}()
    await low_{f}_{s}()
--
async def root_{f}():
    await high_{f}_0(); await high_{f}_1(); await high_{f}_2(); await high_{f}_3()
--
def family_{f}():
    try:
        root_{f}().send(None)
    except StopIteration:
        pass
""",
    # Decorators, closures, partial objects, bound methods, objects that call objects.
    "wrappers": """
def wrap_{f}_{s}(one):
    @functools.wraps(one)
    def wrapper(*args, **more):
        return one(*args, **more)
    return wrapper
--
def close_{f}_{s}():
    def closed():
        leaf_{f}_{s}()
    return closed
--
def leaf_{f}_{s}(*rest): pass
--
@wrap_{f}_{s}
def wrapped_{f}_{s}(x, y=1): leaf_{f}_{s}()
--
CLOSED_{f}_{s} = close_{f}_{s}()
PARTIAL_{f}_{s} = functools.partial(leaf_{f}_{s}, 1)
--
class Klass_{f}_{s}:
    def method(self): leaf_{f}_{s}(self)
    @classmethod
    def for_class(cls): leaf_{f}_{s}(cls)
    @staticmethod
    def static(): leaf_{f}_{s}()
--
OBJECT_{f}_{s} = Klass_{f}_{s}()
--
class Nest_{f}:
    def __init__(self, one): self.one = one
    def __call__(self, *rest): return self.one(*rest)
--
NESTED_{f}_{s} = Nest_{f}(Nest_{f}(leaf_{f}_{s}))
--
def caller_{f}_{s}():
    NESTED_{f}_{s}()
    wrapped_{f}_{s}(1)
    CLOSED_{f}_{s}()
    PARTIAL_{f}_{s}(2)
    OBJECT_{f}_{s}.method()
    OBJECT_{f}_{s}.for_class()
    OBJECT_{f}_{s}.static()
--
def family_{f}():
    caller_{f}_0(); caller_{f}_1(); caller_{f}_2(); caller_{f}_3()
""",
    # They have their own frames before 3.12.
    "comprehensions": """
def leaf_{f}_{s}(x): return x
--
def caller_{f}_{s}():
    [leaf_{f}_{s}(x) for x in PAIR]
    {{leaf_{f}_{s}(x) for x in PAIR}}
    {{x: leaf_{f}_{s}(x) for x in PAIR}}
    [[leaf_{f}_{s}(y) for y in PAIR] for x in PAIR]
    (lambda: leaf_{f}_{s}(1))()
    list(leaf_{f}_{s}(x) for x in PAIR)
--
def family_{f}():
    caller_{f}_0(); caller_{f}_1(); caller_{f}_2(); caller_{f}_3()
""",
    # Errors that leave several frames at once.
    "exceptions": """
def handle_{f}_{s}(): pass
--
def clean_{f}_{s}(): pass
--
def raise_{f}_{s}(): raise Stop
--
def middle_{f}_{s}():
    try:
        raise_{f}_{s}()
    finally:
        clean_{f}_{s}()
--
def outer_{f}_{s}(): middle_{f}_{s}()
--
class Context_{f}_{s}:
    def __enter__(self): clean_{f}_{s}()
    def __exit__(self, *_):
        handle_{f}_{s}()
        return True
--
CONTEXT_{f}_{s} = Context_{f}_{s}()
--
def caller_{f}_{s}():
    try:
        outer_{f}_{s}()
    except Stop:
        handle_{f}_{s}()
    with CONTEXT_{f}_{s}:
        outer_{f}_{s}()
--
def family_{f}():
    caller_{f}_0(); caller_{f}_1(); caller_{f}_2(); caller_{f}_3()
""",
    # Functions that the interpreter calls for operators and attributes.
    "operators": """
def leaf_{f}_{s}(): return 1
--
class Klass_{f}_{s}:
    def __init__(self): leaf_{f}_{s}()
    def __getattr__(self, name): return leaf_{f}_{s}()
    @property
    def value(self): return leaf_{f}_{s}()
    def __getitem__(self, key): return leaf_{f}_{s}()
    def __add__(self, other): return leaf_{f}_{s}()
    def __eq__(self, other): return leaf_{f}_{s}()
    def __hash__(self): return leaf_{f}_{s}()
    def __call__(self): return leaf_{f}_{s}()
    def __bool__(self): return leaf_{f}_{s}() == 1
    def __contains__(self, one): return leaf_{f}_{s}()
--
def caller_{f}_{s}():
    one = Klass_{f}_{s}()
    one.missing; one.value; one[1]; one + 1; one == 1; hash(one); one(); bool(one); 1 in one
    class Body:
        x = leaf_{f}_{s}()
--
def family_{f}():
    caller_{f}_0(); caller_{f}_1(); caller_{f}_2(); caller_{f}_3()
""",
    # C code between caller and callee.
    "callbacks": """
def leaf_{f}_{s}(): return 1
--
def key_{f}_{s}(x):
    leaf_{f}_{s}()
    return x
--
def both_{f}_{s}(x, y): return leaf_{f}_{s}()
--
def match_{f}_{s}(_): return "b" * leaf_{f}_{s}()
--
def caller_{f}_{s}():
    sorted(PAIR, key=key_{f}_{s})
    list(map(key_{f}_{s}, PAIR))
    list(filter(key_{f}_{s}, PAIR))
    functools.reduce(both_{f}_{s}, PAIR)
    AN_A.sub(match_{f}_{s}, "cac")
    max(PAIR, key=key_{f}_{s})
--
def family_{f}():
    caller_{f}_0(); caller_{f}_1(); caller_{f}_2(); caller_{f}_3()
""",
}

# Greenlets switch to each other at several depths of their own chains.
GREENLET = """
def burn_{s}_{d}(): pass
--
def chain_{s}_{d}():
    burn_{s}_{d}()
    NEXT
    burn_{s}_{d}()
"""
DEPTHS = range(5)

GENERATORS = {
    "generators": [
        ("caller_{f}_{s}", "high_{f}_{s}"),
        ("caller_{f}_{s}", "caller_{f}_{s}.<locals>.<genexpr>"),
        ("caller_{f}_{s}", "low_{f}_{s}"),
        ("caller_{f}_{s}", "middle_{f}_{s}"),
        ("high_{f}_{s}", "middle_{f}_{s}"),
        ("middle_{f}_{s}", "low_{f}_{s}"),
    ],
    "coroutines": [
        ("family_{f}", "root_{f}"),
        ("root_{f}", "high_{f}_{s}"),
        ("high_{f}_{s}", "low_{f}_{s}"),
    ],
    "comprehensions": [("caller_{f}_{s}", "caller_{f}_{s}.<locals>.<genexpr>")],
}


def define():
    text = "def one_round():\n" + "".join(f"    family_{f}()\n" for f in FAMILIES)
    for f in FAMILIES:
        for source in SOURCES[KIND].split("--\n"):
            for s in SIBLINGS if "{s}" in source else [0]:
                sizes = ", ".join(f"x{i}=1" for i in range(s)) if f >= UNEVEN else ""
                text += source.format(f=f, s=s, t=(s + 1) % len(SIBLINGS), p=sizes)
    space = {"PAIR": (1, 2), "AN_A": re.compile("a"), "Stop": Stop, "functools": functools}
    space["__name__"] = "adversary"
    exec(compile(text, __file__, "exec"), space)
    return space["one_round"]


def define_greenlets():
    """A round never ends: greenlets have no common caller."""
    space = {"GREENLETS": []}
    text = ""
    for s in SIBLINGS:
        for d in DEPTHS:
            below = f"chain_{s}_{d + 1}()" if d + 1 < len(DEPTHS) - s % 2 else "pass"
            away = f"GREENLETS[{(s + 1) % len(SIBLINGS)}].switch()" if (s + d) % 2 else "pass"
            for source in GREENLET.split("--\n"):
                text += source.replace("NEXT", f"{below}; {away}").format(s=s, d=d)
        text += f"def root_{s}():\n    while True: chain_{s}_0()\n"
    exec(compile(text, __file__, "exec"), space)
    space["GREENLETS"] += [greenlet.greenlet(space[f"root_{s}"]) for s in SIBLINGS]
    return space["GREENLETS"][0].switch


def greenlet_stacks():
    every = []
    for s in SIBLINGS:
        for d in range(len(DEPTHS) + 1 - s % 2):
            chain = [f"root_{s}", *(f"chain_{s}_{i}" for i in range(d))]
            every.append(chain)
            if d:
                every.append([*chain, f"burn_{s}_{d - 1}"])
    return every


def stacks(one_round):
    """Returns the stacks that a profile hook sees in a round, below main()."""
    seen = set()

    def watch(frame, event, _):
        if event not in ("call", "return"):
            return
        stack = []
        while frame is not None:
            stack.append(target.name_of(frame.f_code))
            frame = frame.f_back
        seen.update(tuple(reversed(stack[i:])) for i in range(len(stack)))

    for _ in range(2):
        sys.setprofile(watch)
        one_round()
        sys.setprofile(None)
    # Without the module, main() and stacks().
    return sorted(stack[3:] for stack in seen if len(stack) > 3)


def short_name(name):
    """Returns the name that interpreters before 3.11 use."""
    return name if sys.version_info >= (3, 11) else name.rsplit(".", 1)[-1]


def makes():
    pairs = GENERATORS.get(KIND, [])
    return sorted(
        {
            tuple(short_name(name.format(f=f, s=s)) for name in pair)
            for pair in pairs
            for f in FAMILIES
            for s in SIBLINGS
        }
    )


def main():
    if KIND == "greenlets":
        switch = define_greenlets()
        target.ready(stacks=greenlet_stacks(), makes=[])
        switch()
    one_round = define()
    target.ready(stacks=stacks(one_round), makes=makes())
    while True:
        one_round()


main()
