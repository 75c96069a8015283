# SPDX-License-Identifier: Apache-2.0
"""Tracing of PyTorch: modules, training steps, the backward pass, collectives.

Internal: programs call gsprof.enable_torch_profiling() and gsprof.step(). Nothing here imports
PyTorch; _boot imports _hooks once the program has imported torch."""
