# SPDX-License-Identifier: Apache-2.0
import sys

import common

common.use_memory()
sys.exit({"three": 3, "text": "a text is status 1", "none": None}[sys.argv[1]])
