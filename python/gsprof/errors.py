# SPDX-License-Identifier: Apache-2.0
# Made by tools/gen_errors.py of src/base/err.h; do not edit.
"""What can go wrong, as exceptions: one for each row of the program's table of errors.

Each is a GsprofError, and the exception that Python has for the like.

>>> try:
...     raise from_code("NOPROC", "no process 4242")
... except ProcessLookupError as error:
...     error.code, str(error)
('NOPROC', 'no process 4242')
"""

from __future__ import annotations

from typing import ClassVar, Dict, Optional, Type


class GsprofError(RuntimeError):
    """Whatever gsprof could not do."""

    code: ClassVar[str] = ""
    exit_status: ClassVar[int] = 70
    http_status: ClassVar[int] = 500
    # What to do about it, where that is known.
    hint: Optional[str] = None


class OutOfMemory(GsprofError, MemoryError):
    """Out of memory."""

    code = "NOMEM"
    exit_status = 70
    http_status = 503


class InputOutputError(GsprofError, OSError):
    """Input or output failed."""

    code = "IO"
    exit_status = 74
    http_status = 500


class UsageError(GsprofError, ValueError):
    """Invalid usage."""

    code = "USAGE"
    exit_status = 64
    http_status = 400


class NotPermitted(GsprofError, PermissionError):
    """Not permitted to read the target process."""

    code = "PERM"
    exit_status = 77
    http_status = 403


class NoSuchProcess(GsprofError, ProcessLookupError):
    """No such process."""

    code = "NOPROC"
    exit_status = 69
    http_status = 404


class NotPython(GsprofError, ValueError):
    """Not a Python process."""

    code = "NOTPY"
    exit_status = 69
    http_status = 422


class UnsupportedVersion(GsprofError, NotImplementedError):
    """Unsupported Python version."""

    code = "VERSION"
    exit_status = 69
    http_status = 422


class MalformedData(GsprofError, ValueError):
    """Malformed data."""

    code = "FORMAT"
    exit_status = 65
    http_status = 422


class TornRead(GsprofError):
    """The target changed during the read."""

    code = "TORN"
    exit_status = 75
    http_status = 409


class LimitExceeded(GsprofError, ValueError):
    """Limit exceeded."""

    code = "LIMIT"
    exit_status = 65
    http_status = 413


class AlreadyExists(GsprofError, FileExistsError):
    """Already exists."""

    code = "EXISTS"
    exit_status = 73
    http_status = 409


class NoSuchFile(GsprofError, FileNotFoundError):
    """No such file."""

    code = "NOFILE"
    exit_status = 66
    http_status = 404


class CannotWrite(GsprofError, PermissionError):
    """Cannot write."""

    code = "NOWRITE"
    exit_status = 73
    http_status = 403


class BadAddress(GsprofError):
    """Cannot read an address in the target."""

    code = "FAULT"
    exit_status = 75
    http_status = 409


class TimedOut(GsprofError, TimeoutError):
    """Timed out."""

    code = "TIMEOUT"
    exit_status = 75
    http_status = 504


class NotSupported(GsprofError, NotImplementedError):
    """Not supported on this system."""

    code = "NOTSUP"
    exit_status = 69
    http_status = 501


class NothingRecorded(GsprofError):
    """Nothing was recorded."""

    code = "EMPTY"
    exit_status = 1
    http_status = 422


class CannotStart(GsprofError, OSError):
    """Cannot start the program."""

    code = "NOEXEC"
    exit_status = 127
    http_status = 422


class Interrupted(GsprofError):
    """Interrupted."""

    code = "INTR"
    exit_status = 130
    http_status = 499


class StillStarting(GsprofError):
    """The interpreter has not started yet."""

    code = "STARTING"
    exit_status = 75
    http_status = 409


BY_CODE: Dict[str, Type[GsprofError]] = {
    "NOMEM": OutOfMemory,
    "IO": InputOutputError,
    "USAGE": UsageError,
    "PERM": NotPermitted,
    "NOPROC": NoSuchProcess,
    "NOTPY": NotPython,
    "VERSION": UnsupportedVersion,
    "FORMAT": MalformedData,
    "TORN": TornRead,
    "LIMIT": LimitExceeded,
    "EXISTS": AlreadyExists,
    "NOFILE": NoSuchFile,
    "NOWRITE": CannotWrite,
    "FAULT": BadAddress,
    "TIMEOUT": TimedOut,
    "NOTSUP": NotSupported,
    "EMPTY": NothingRecorded,
    "NOEXEC": CannotStart,
    "INTR": Interrupted,
    "STARTING": StillStarting,
}
# Several rows may have one exit status; the class is that of the first.
_BY_STATUS: Dict[int, Type[GsprofError]] = {}
for _class in BY_CODE.values():
    _BY_STATUS.setdefault(_class.exit_status, _class)


def from_code(code: str, message: str, hint: Optional[str] = None) -> GsprofError:
    """The exception for a code of the table; GsprofError itself for one that is not in it."""
    error = BY_CODE.get(code, GsprofError)(message)
    error.hint = hint
    return error


def from_status(status: int, message: str) -> GsprofError:
    """The exception for an exit status of the program.

    >>> from_status(77, "not permitted").code
    'PERM'
    """
    return _BY_STATUS.get(status, GsprofError)(message)
