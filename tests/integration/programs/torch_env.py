# SPDX-License-Identifier: Apache-2.0
"""Prints what the environment enabled, right after the import of PyTorch."""

import json
import threading

import gsprof._environment

gsprof._environment.from_environment()  # an installed gsprof.pth does this

import torch  # noqa: E402
from gsprof import _gsprof  # noqa: E402

print(
    json.dumps(
        {
            "call": type(torch.nn.Module.__call__).__name__,
            "rate": _gsprof.get("torch.rate"),
            "modules": _gsprof.get("torch.modules"),
            "threads": threading.active_count(),
        }
    )
)
