# SPDX-License-Identifier: Apache-2.0
"""Becomes another program, with threads running."""

import os
import sys
import threading

import common

common.use_memory()
threading.Thread(target=lambda: common.native().native_churn(5), daemon=True).start()
sys.stdout.flush()
if len(sys.argv) > 1:
    os.execv(sys.executable, [sys.executable, __file__])
os.execv("/bin/sh", ["sh", "-c", "echo from the shell; exit 5"])
