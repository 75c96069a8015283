# SPDX-License-Identifier: Apache-2.0
"""Facts that the programs of this folder report to the runner: their processes and
progress.

The folder REAL_FACTS has a file ROLE-PID for each process, with the number of its rounds.
While it has a file "stay", the programs continue after their work is done."""

import os
import threading
from pathlib import Path

FACTS = Path(os.environ["REAL_FACTS"])


def report(role, rounds=0):
    """Reports this process as a working one, with the number of its finished rounds."""
    place = FACTS / f"{role}-{os.getpid()}"
    part = FACTS / f".{os.getpid()}-{threading.get_ident()}"
    part.write_text(str(rounds))
    part.rename(place)


def must_continue():
    return (FACTS / "stay").exists()


def rounds(role, count):
    """Yields count numbers of rounds, and more while the process must continue."""
    number = 0
    while number < count or must_continue():
        report(role, number)
        yield number
        number += 1
    report(role, number)
