# SPDX-License-Identifier: Apache-2.0
"""Runs with warnings as errors or in development mode: the profiler's imports cause no warnings."""

import common

common.use_memory()
print("done")
