# SPDX-License-Identifier: Apache-2.0
"""Ends by the named signal."""

import faulthandler
import os
import signal
import sys

import common

common.use_memory()
print("out", flush=True)
if sys.argv[1] == "abort":
    os.abort()
elif sys.argv[1] == "fault":
    faulthandler.enable()
    faulthandler._sigsegv()
else:
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    while True:
        signal.pause()
