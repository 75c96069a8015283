# SPDX-License-Identifier: Apache-2.0
"""python -m gsprof: runs the gsprof program."""

from __future__ import annotations

import os
import sys

from ._follower import find_program


def main() -> None:
    program = find_program()
    if program is None:
        sys.exit("gsprof: the program is not beside the package and not on PATH")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
