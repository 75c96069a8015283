# SPDX-License-Identifier: Apache-2.0
"""Sub-interpreters: each runs, allocates and ends; with "stay", one remains until the end."""

import sys

import common

try:
    import _interpreters as module
except ImportError:
    import _xxsubinterpreters as module
SCRIPT = "import threading\nblocks = [bytearray(1 << 20) for _ in range(16)]\nprint('inside')"
run = getattr(module, "exec", None) or module.run_string
for _ in range(3):
    number = module.create()
    run(number, SCRIPT)
    module.destroy(number)
    common.use_memory()
if "stay" in sys.argv:
    run(module.create(), SCRIPT)
print("done")
