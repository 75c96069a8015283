# SPDX-License-Identifier: Apache-2.0
"""The module that the profiler waits for fails to import."""

import os
import sys

os.mkdir("torch")
with open("torch/__init__.py", "w") as file:
    file.write("import missing_module_of_exits\n")
with open("other.py", "w") as file:
    file.write("def fail():\n    raise ValueError('in a module')\n\n\nfail()\n")
sys.path.insert(0, os.getcwd())
print([os.path.basename(folder) for folder in sys.path[1:]])
try:
    import other  # noqa: F401
except ValueError:
    pass
import torch  # noqa: E402, F401
