# SPDX-License-Identifier: Apache-2.0
"""Starts programs with and without Python."""

import subprocess
import sys

import common

common.use_memory()
CODE = "import sys; x = [bytearray(1 << 20) for _ in range(8)]; sys.exit(6)"
print(subprocess.call([sys.executable, "-c", CODE]))
print(subprocess.check_output(["sh", "-c", "echo shell; exit 0"]))
print(subprocess.run([sys.executable, "-c", "1/0"], stderr=subprocess.PIPE).stderr.decode())
print(subprocess.call([sys.executable, "-c", "import os; os.abort()"]))
