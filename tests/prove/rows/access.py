# SPDX-License-Identifier: Apache-2.0
"""Every request through every interface as every user: exactly what docs/security.md allows."""

from __future__ import annotations

import traceback
from typing import Any, List
from unittest import mock

import access_matrix
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
    users = all_users()[-1:] if context.is_short else all_users()
    send = access_matrix.send

    def send_and_count(*args: Any) -> List[Any]:
        answers: List[Any] = send(*args)
        result.count += len(answers)
        return answers

    try:
        with mock.patch.object(access_matrix, "send", send_and_count):
            check_matrix(context.folder, users)
    except Exception:  # wrong cells, or a daemon that does not answer
        result.count = max(1, result.count)  # the requests until then
        result.failures.append(context.failure(traceback.format_exc()[-2000:], 0))
    result.add("users", len(users))
    return result
