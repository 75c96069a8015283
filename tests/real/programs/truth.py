# SPDX-License-Identifier: Apache-2.0
"""What the programs of this folder tell the runner: which processes there are, how far they are,
and how long they go on.

The folder REAL_FACTS has a file ROLE-PID for each process, with the number of its rounds.  As long
as it has a file "stay" the programs go on after their work is done."""

import os
import threading
from pathlib import Path

FACTS = Path(os.environ["REAL_FACTS"])


def tell(role, rounds=0):
    """This process is one of those that work; so many rounds are done."""
    place = FACTS / f"{role}-{os.getpid()}"
    part = FACTS / f".{os.getpid()}-{threading.get_ident()}"
    part.write_text(str(rounds))
    part.rename(place)


def is_to_stay():
    return (FACTS / "stay").exists()


def rounds(role, count):
    """Numbers of rounds: count of them, and more as long as the process is to stay."""
    number = 0
    while number < count or is_to_stay():
        tell(role, number)
        yield number
        number += 1
    tell(role, number)
