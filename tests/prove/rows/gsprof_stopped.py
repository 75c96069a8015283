# SPDX-License-Identifier: Apache-2.0
"""SIGSTOP and SIGCONT of gsprof at random moments."""

from __future__ import annotations

import stops
from trials import Context, Result

NAME = "gsprof_stopped"
ORDER = 76
TITLE = "SIGSTOP and SIGCONT of gsprof"
REQUIRED = 100
REQUIREMENT = "nothing acknowledged lost, automatic recovery"
SHORT = 2


def run(context: Context, count: int, seconds: float) -> Result:
    return stops.run(context, count, seconds, stops.GSPROF_STOPPED)
