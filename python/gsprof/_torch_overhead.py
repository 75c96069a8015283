# SPDX-License-Identifier: Apache-2.0
"""What tracing costs the program, found in the run: steps with hooks against steps without."""

from __future__ import annotations

import math
import os
from typing import List, NamedTuple, Optional

from . import _gsprof

PLAIN_NEEDED = 5
TRACED_NEEDED = 16
THIN_MAX = 1024
_Z95 = 1.96


class Estimate(NamedTuple):
    """How much longer a step with hooks takes, in per cent, with its 95 % interval."""

    percent: float
    low: float
    high: float


def estimate(plain: List[float], traced: List[float]) -> Optional[Estimate]:
    """The median of all ratios of a step with hooks to one without (Hodges and Lehmann), its
    interval by ranks: a step that took ten times as long for other reasons changes little.
    None until there is enough."""
    if len(plain) < PLAIN_NEEDED or len(traced) < TRACED_NEEDED:
        return None
    ratios = sorted(a / b for a in traced for b in plain if b > 0)
    pairs = len(ratios)
    if not pairs:
        return None
    spread = math.sqrt(pairs * (len(plain) + len(traced) + 1) / 12)
    edge = max(0, int(pairs / 2 - _Z95 * spread))
    middle = (ratios[pairs // 2] + ratios[(pairs - 1) // 2]) / 2
    return Estimate(*(100 * (x - 1) for x in (middle, ratios[edge], ratios[pairs - 1 - edge])))


class Measure:
    """Called by the extension now and then; writes gsprof.overhead, and thins the traced steps
    when they cost more than the user allows."""

    def __init__(self) -> None:
        self.limit_percent = 0.0
        self.thin = 1

    def limit(self, percent: float) -> None:
        """0: none, so nothing is thinned any more."""
        self.limit_percent = percent
        if percent <= 0:
            self.thin = 1

    def __call__(self, plain: List[float], traced: List[float], share: float) -> int:
        """share: of all steps, those that are traced.  Gives of how many one is taken."""
        found = estimate(plain, traced)
        row = {"pid": os.getpid(), "source": "torch", "samples": len(plain) + len(traced)}
        if found is not None:
            row["percent"] = found.percent * share
            row["low_percent"] = found.low * share
            row["high_percent"] = found.high * share
        _gsprof.put("gsprof.overhead", row)
        if self.limit_percent > 0 and found is not None:
            cost = found.percent * share
            if cost > self.limit_percent and self.thin < THIN_MAX:
                self.thin *= 2
            elif cost < self.limit_percent / 4 and self.thin > 1:
                self.thin //= 2
        return self.thin
