# SPDX-License-Identifier: Apache-2.0
import os

import common

common.use_memory()
print("this stays in the buffer")
os._exit(7)
