# SPDX-License-Identifier: Apache-2.0
"""SIGSTOP and SIGCONT of the target at random moments."""

from __future__ import annotations

import stops
from trials import Context, Result

NAME = "target_stopped"
ORDER = 77
TITLE = "SIGSTOP and SIGCONT of the target"
REQUIRED = 100
REQUIREMENT = "nothing lost; stays stopped until its user continues it"
SHORT = 3


def run(context: Context, count: int, seconds: float) -> Result:
    return stops.run(context, count, seconds, stops.TARGET_STOPPED)
