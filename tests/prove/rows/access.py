# SPDX-License-Identifier: Apache-2.0
"""Every request through every interface as every user: exactly what docs/security.md allows."""

from __future__ import annotations

from access_matrix import all_users, check_matrix
from trials import Context, Result

NAME = "access"
ORDER = 110
TITLE = "access matrix: interface × user × route"
REQUIRED = 0
REQUIREMENT = "exactly what the table in docs/security.md allows"
SHORT = 1


def run(context: Context, count: int, seconds: float) -> Result:
    """Over TCP it makes no difference who asks: the short form has one user."""
    result = Result(is_complete=True)
    users = all_users()
    try:
        result.count = check_matrix(context.folder, users[-1:] if count == SHORT else users)
    except AssertionError as error:
        result.failures.append(context.failure(str(error), 0))
    result.add("users", len(users))
    return result
