# SPDX-License-Identifier: Apache-2.0
"""Threads that Python does not know allocate before, during and after finalization."""

import common

library = common.native()
for _ in range(3):
    library.native_start_thread()
common.use_memory(64)
library.native_at_unload(0.3)
print("done")
