# SPDX-License-Identifier: Apache-2.0
"""Forks children while threads allocate; the children end in several ways."""

import os
import sys
import threading

import common

library = common.native()
for _ in range(3):
    threading.Thread(target=library.native_churn, args=(60,), daemon=True).start()
sys.stdout.flush()
for number in range(12):
    pid = os.fork()
    if pid == 0:
        common.use_memory()
        library.native_churn(0.01)
        import decimal  # loads a library  # noqa: F401
        import sqlite3  # noqa: F401

        if number % 3 == 0:
            os._exit(number)
        sys.exit(number)
    print(
        number,
        os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if sys.version_info >= (3, 9)
        else os.WEXITSTATUS(os.waitpid(pid, 0)[1]),
        flush=True,
    )
library.native_fork_and_churn(3)
for _ in range(3):
    os.wait()
