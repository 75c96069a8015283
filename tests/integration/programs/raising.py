# SPDX-License-Identifier: Apache-2.0
"""Shared by programs with checks: calls that must raise."""

from __future__ import annotations


def raised(kind, function, *args, **kwargs):
    """Returns the text of the exception that the call must raise."""
    try:
        function(*args, **kwargs)
    except kind as error:
        return str(error)
    raise AssertionError(f"{function} did not raise {kind}")
