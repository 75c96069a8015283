# SPDX-License-Identifier: Apache-2.0
"""A C library allocates in its destructor, after the interpreter has finished; with "clear", no
exit handler runs before."""

import atexit
import sys

import common

if "clear" in sys.argv:
    atexit._clear()
common.native().native_at_unload(1.2)
print("done")
