# SPDX-License-Identifier: Apache-2.0
"""A C library allocates in its destructor, after the interpreter has ended."""

import common

common.native().native_at_unload(1.2)
print("done")
