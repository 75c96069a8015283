# SPDX-License-Identifier: Apache-2.0
"""A C function ends the process, in the main thread or in another."""

import sys
import threading

import common

library = common.native()
library.native_at_unload(0.2)
threading.Thread(target=library.native_churn, args=(60,), daemon=True).start()
sys.stdout.write("written\n")
sys.stdout.flush()
if sys.argv[1] == "main":
    library.native_exit(9)
thread = threading.Thread(target=library.native_exit, args=(9,))
thread.start()
thread.join()
