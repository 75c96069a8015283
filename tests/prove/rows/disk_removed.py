# SPDX-License-Identifier: Apache-2.0
"""Disk removed while writing: recordings, runs and the daemon."""

from __future__ import annotations

import disks
from trials import Context, Result

NAME = "disk_removed"
ORDER = 72
TITLE = "disk removed while writing"
REQUIRED = 100
REQUIREMENT = "nothing acknowledged lost, automatic recovery"
SHORT = 1  # the daemon tries a session file again after five seconds


def run(context: Context, count: int, seconds: float) -> Result:
    return disks.run(context, count, seconds, "removed")
