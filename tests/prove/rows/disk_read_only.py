# SPDX-License-Identifier: Apache-2.0
"""Disk read-only while writing: recordings, runs and the daemon."""

from __future__ import annotations

import disks
from trials import Context, Result

NAME = "disk_read_only"
ORDER = 71
TITLE = "disk read-only while writing"
REQUIRED = 100
REQUIREMENT = "nothing acknowledged lost, automatic recovery"
SHORT = 2


def run(context: Context, count: int, seconds: float) -> Result:
    return disks.run(context, count, seconds, "read-only")
