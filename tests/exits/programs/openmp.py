# SPDX-License-Identifier: Apache-2.0
"""Threads of OpenMP, one parallel region still running at the end."""

import threading

import common

library = common.native()
library.native_parallel(2000)
threading.Thread(target=library.native_parallel, args=(10**9,), daemon=True).start()
common.use_memory(64)
print("done")
