# SPDX-License-Identifier: Apache-2.0
"""Finds stacks in a recording that the program programs/adversary.py can never have."""

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
    """The stacks that a program can have, as it reports them."""

    def __init__(self, facts: Json) -> None:
        self.stacks: Set[Stack] = {tuple(stack) for stack in facts["stacks"]}
        self.makes: Set[Stack] = {tuple(pair) for pair in facts["makes"]}

    def has(self, names: Sequence[str]) -> bool:
        if tuple(names[:2]) == ("<module>", "main"):
            # The program may not have returned from ready() yet.
            if len(names) == 2 or names[2] == "ready":
                return True
            names = names[2:]
        whole = tuple(names)
        # The frame of a generator function while it creates the generator.
        return whole in self.stacks or (whole[:-1] in self.stacks and whole[-2:] in self.makes)

    def impossible(self, stacks: Iterable[Tuple[Sequence[str], int]]) -> Tuple[Counter[Stack], int]:
        """Returns the impossible stacks with their counts, and the total count of all stacks."""
        bad: Counter[Stack] = Counter()
        total = 0
        for names, count in stacks:
            total += count
            if not self.has(names):
                bad[tuple(names)] += count
        return bad, total
