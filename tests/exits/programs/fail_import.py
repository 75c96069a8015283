# SPDX-License-Identifier: Apache-2.0
"""A module whose import fails halfway."""

import common

common.use_memory()
with open("half.py", "w") as file:
    file.write("import json\nimport missing_module_of_exits\n")
import half  # noqa: E402, F401
