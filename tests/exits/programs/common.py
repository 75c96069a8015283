# SPDX-License-Identifier: Apache-2.0
"""The C library of these programs, and some memory to count."""

import ctypes
import os


def native():
    """Loads tests/exits/native.c, built by the runner. Its functions run without the GIL."""
    library = ctypes.CDLL(os.environ["EXITS_NATIVE"])
    library.native_churn.argtypes = [ctypes.c_double]
    library.native_at_unload.argtypes = [ctypes.c_double]
    use_memory()  # modules are hooked at an allocation after they are loaded
    return library


def use_memory(count=16):
    """Allocates memory of which sampled memory counting sees a part."""
    blocks = [bytearray(1 << 20) for _ in range(count)]
    lists = [[i] * 10 for i in range(20000)]
    return len(blocks) + len(lists)
