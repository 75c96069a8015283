# SPDX-License-Identifier: Apache-2.0
"""Which stacks of a recording the program of programs/adversary.py cannot have had."""

from __future__ import annotations

from collections import Counter
from typing import Iterable, Sequence, Set, Tuple

from support import Json

KINDS = (
    "siblings",
    "tables",
    "recursion",
    "generators",
    "coroutines",
    "wrappers",
    "comprehensions",
    "exceptions",
    "operators",
    "callbacks",
    "greenlets",
)

Stack = Tuple[str, ...]


class Legal:
    """The stacks that a program says it has."""

    def __init__(self, facts: Json) -> None:
        self.stacks: Set[Stack] = {tuple(stack) for stack in facts["stacks"]}
        self.makes: Set[Stack] = {tuple(pair) for pair in facts["makes"]}

    def has(self, names: Sequence[str]) -> bool:
        if tuple(names[:2]) == ("<module>", "main"):
            # It may still be busy telling us that it is ready.
            if len(names) == 2 or names[2] == "ready":
                return True
            names = names[2:]
        whole = tuple(names)
        # The frame of a generator's function, while it makes the generator.
        return whole in self.stacks or (whole[:-1] in self.stacks and whole[-2:] in self.makes)

    def impossible(self, stacks: Iterable[Tuple[Sequence[str], int]]) -> Tuple[Counter[Stack], int]:
        """Those that it cannot have with their numbers, and how many there are in all."""
        bad: Counter[Stack] = Counter()
        total = 0
        for names, count in stacks:
            total += count
            if not self.has(names):
                bad[tuple(names)] += count
        return bad, total
