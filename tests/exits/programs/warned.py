# SPDX-License-Identifier: Apache-2.0
"""Run with warnings as errors, or in development mode: imports of the profiler warn of nothing."""

import common

common.use_memory()
print("done")
