# SPDX-License-Identifier: Apache-2.0
"""Measures the overhead of tracing in the run itself: compares steps with hooks to the following
steps without."""

from __future__ import annotations

import math
import os
from typing import List, NamedTuple, Optional

from .. import _boot, _gsprof

# Least pairs of steps for an interval, and for a decision on how many steps to trace.
PAIRS_NEEDED = 8
PAIRS_TO_JUDGE = 32
THIN_MAX = 1024
# From one traced step in four on, each has two untraced steps after it to compare with.
THIN_TO_COMPARE = 4
_Z95 = 1.96
# More steps are traced only if the limit exceeds their cost by this factor.
_MARGIN = 1.25
# Up to this share of the limit, the hooks' own times are trusted without comparing steps.
_CLEARLY = 0.25
# Steps may differ for other reasons (a program that alternates two kinds). An estimate above this
# multiple of the hooks' own times is cut to it.
_TIMES_SPENT_MAX = 8.0


class Estimate(NamedTuple):
    """How much longer a step with hooks takes, in per cent, with its 95 % interval."""

    percent: float
    low: float
    high: float


def estimate(ratios: List[float]) -> Optional[Estimate]:
    """Returns the median ratio of a step with hooks to its neighbour without, and its interval by
    ranks, which outliers hardly change. Returns None for fewer than PAIRS_NEEDED ratios."""
    count = len(ratios)
    if count < PAIRS_NEEDED:
        return None
    ranked = sorted(ratios)
    edge = max(0, int(count / 2 - _Z95 * math.sqrt(count) / 2))
    middle = (ranked[count // 2] + ranked[(count - 1) // 2]) / 2
    return Estimate(*(100 * (x - 1) for x in (middle, ranked[edge], ranked[count - 1 - edge])))


class Measure:
    """Called by the extension from time to time. Writes gsprof.overhead, and decides to trace fewer
    steps if they cost more than torch.adaptive allows."""

    def __init__(self) -> None:
        self.limit_percent = 0.0
        self.thin = 1
        # Measured cost over the hooks' own times; 0: not measured.
        self.times_spent = 0.0

    def limit(self, percent: float, has_variables: bool = False) -> None:
        """Sets the limit; 0: none. Called when settings have changed: every step is traced until
        the new cost is known. Variables double the limit."""
        self.limit_percent = percent * (2 if has_variables else 1)
        self.times_spent = 0.0
        self._set_thin(1)

    def __call__(self, ratios: List[float], spent: float, share: float, thin: int) -> int:
        """ratios: of steps with hooks to those after them. spent: the hooks' own times, in per cent
        of a traced step. share: of the steps that are traced, while one in `thin` is. Returns the
        new thin: one step in that many is traced."""
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
            self._set_thin(1)
        elif found is None or len(ratios) < PAIRS_TO_JUDGE:
            self._set_thin(self._guess(spent * whole))
        else:
            self._set_thin(self._judge(found, spent, whole))
        return self.thin

    def _guess(self, percent: float) -> int:
        """Decides by the hooks' own times, in per cent if every step were traced: used until steps
        have been compared, and while too many are traced to compare them."""
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
        """Decides by compared steps: fewer by the estimate, more only by its upper bound."""
        most = spent * _TIMES_SPENT_MAX
        cost = min(max(found.percent, spent), most)
        high = min(max(found.high, spent), most)
        self.times_spent = cost / spent if spent > 0 else 0.0
        needed = self._needed(cost * share)
        if needed >= self.thin:
            return needed
        return min(self.thin, self._needed(high * share * _MARGIN))

    def _needed(self, percent: float) -> int:
        """Returns the least thin within the limit, if tracing every step costs `percent`. It is a
        power of two, so that the steps of a rank that traces fewer are among the others'."""
        thin = 1
        while percent > self.limit_percent * thin and thin < THIN_MAX:
            thin *= 2
        return thin

    def _set_thin(self, thin: int) -> None:
        if thin == self.thin:
            return
        self.thin = thin
        _boot.put_fact("torch.traced", f"1 of {thin} steps", "steps traced within torch.adaptive")
