# SPDX-License-Identifier: Apache-2.0
"""What tracing costs the program, found in the run: steps with hooks against those after them,
which have none."""

from __future__ import annotations

import math
import os
from typing import List, NamedTuple, Optional

from .. import _boot, _gsprof

# Pairs of steps that make an interval, and that decide how many steps are traced.
PAIRS_NEEDED = 8
PAIRS_TO_JUDGE = 32
THIN_MAX = 1024
# One step of so many, or fewer: there are two after it to compare it with.
THIN_TO_COMPARE = 4
_Z95 = 1.96
# More steps are traced again once they would cost so much less than they may.
_MARGIN = 1.25
# Up to this share of the limit, the time that hooks took is believed without comparing steps.
_CLEARLY = 0.25
# Steps may differ for other reasons (a program that has two kinds in turn): hooks do not cost more
# than so many times what they took by their own clocks.
_TIMES_SPENT_MAX = 8.0


class Estimate(NamedTuple):
    """How much longer a step with hooks takes, in per cent, with its 95 % interval."""

    percent: float
    low: float
    high: float


def estimate(ratios: List[float]) -> Optional[Estimate]:
    """The median of the ratios of a step with hooks to its neighbour without, and its interval by
    ranks: a step that took ten times as long for other reasons changes little.  None until there
    are enough."""
    count = len(ratios)
    if count < PAIRS_NEEDED:
        return None
    ranked = sorted(ratios)
    edge = max(0, int(count / 2 - _Z95 * math.sqrt(count) / 2))
    middle = (ranked[count // 2] + ranked[(count - 1) // 2]) / 2
    return Estimate(*(100 * (x - 1) for x in (middle, ranked[edge], ranked[count - 1 - edge])))


class Measure:
    """Called by the extension now and then; writes gsprof.overhead, and traces fewer steps when
    they cost more than the user allows."""

    def __init__(self) -> None:
        self.limit_percent = 0.0
        self.thin = 1
        # How many times what hooks took by their own clocks they cost; 0: never measured.
        self.times_spent = 0.0

    def limit(self, percent: float, has_variables: bool = False) -> None:
        """0: none.  Settings have changed, and so has what they cost: every step is traced until
        that is known.  Variables may cost as much again."""
        self.limit_percent = percent * (2 if has_variables else 1)
        self.times_spent = 0.0
        self._take(1)

    def __call__(self, ratios: List[float], spent: float, share: float, thin: int) -> int:
        """ratios: of steps with hooks to those after them; spent: how much longer a traced
        step takes by the time that its hooks took, in per cent; share: of all steps, those that are
        traced, with one of `thin` taken.  Gives of how many one is to be taken."""
        found = estimate(ratios)
        row = {"pid": os.getpid(), "source": "torch", "samples": 2 * len(ratios)}
        if found is not None:
            row["percent"] = found.percent * share
            row["low_percent"] = found.low * share
            row["high_percent"] = found.high * share
        else:
            row["percent"] = spent * max(1.0, self.times_spent) * share
        _gsprof.put("gsprof.overhead", row)
        whole = share * thin
        if self.limit_percent <= 0:
            self._take(1)
        elif found is None or len(ratios) < PAIRS_TO_JUDGE:
            self._take(self._guess(spent * whole))
        else:
            self._take(self._judge(found, spent, whole))
        return self.thin

    def _guess(self, percent: float) -> int:
        """By the time that hooks took, were every step traced: as long as steps have not been
        compared, and where too many are traced to compare them."""
        if self.thin >= THIN_TO_COMPARE:
            return max(self.thin, self._needed(percent))
        if self.times_spent > 0:
            percent *= self.times_spent
            if self._needed(percent) <= self.thin:
                return min(self.thin, self._needed(percent * _MARGIN))
        elif percent <= self.limit_percent * _CLEARLY:
            return 1
        return max(THIN_TO_COMPARE, self._needed(percent))

    def _judge(self, found: Estimate, spent: float, share: float) -> int:
        """By steps that were compared.  Fewer as soon as it looks necessary, more when it is sure
        that they may be."""
        most = spent * _TIMES_SPENT_MAX
        cost = min(max(found.percent, spent), most)
        high = min(max(found.high, spent), most)
        self.times_spent = cost / spent if spent > 0 else 0.0
        needed = self._needed(cost * share)
        if needed >= self.thin:
            return needed
        return min(self.thin, self._needed(high * share * _MARGIN))

    def _needed(self, percent: float) -> int:
        """Of how many steps one may be taken, if all of them would cost that.  Powers of two: the
        steps of a rank that takes fewer are among those of the others."""
        thin = 1
        while percent > self.limit_percent * thin and thin < THIN_MAX:
            thin *= 2
        return thin

    def _take(self, thin: int) -> None:
        if thin == self.thin:
            return
        self.thin = thin
        _boot.put_fact("torch.traced", f"1 of {thin} steps", "steps that torch.adaptive allows")
