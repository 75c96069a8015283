# SPDX-License-Identifier: Apache-2.0
"""What the programs of checks share: calls that must raise."""

from __future__ import annotations


def raised(kind, function, *args, **kwargs):
    """The text of the exception that this must raise."""
    try:
        function(*args, **kwargs)
    except kind as error:
        return str(error)
    raise AssertionError(f"{function} did not raise {kind}")
