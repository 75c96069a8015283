# SPDX-License-Identifier: Apache-2.0
"""Counts the floating-point operations of NumPy's calls to BLAS.

While a block is open, the CBLAS entries of NumPy's library go through counters in C. They see every
product of matrices and vectors, written as a @ b, dot, inner, einsum or tensordot. Work that NumPy
does itself (element-wise, integers) and LAPACK are not counted."""

from __future__ import annotations

import sys
import threading
from typing import Dict, Optional, Tuple

from .. import _gsprof

_NAMES = ("gemm", "gemv", "syrk", "dot")
_MODULES = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")


def _library() -> Optional[str]:
    """Returns the file of NumPy's library if it is imported."""
    for name in _MODULES:
        path = getattr(sys.modules.get(name), "__file__", None)
        if path:
            return str(path)
    return None


class _Hooks:
    """The counters' hooks; installed while a block of any thread is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._path = ""
        self._slots = 0

    def install(self) -> bool:
        """Returns False without NumPy, or if its calls cannot be hooked."""
        path = _library()
        if path is None:
            return False
        with self._lock:
            if self._open == 0:
                self._path = path
                self._slots = _gsprof.blas_hook(path, True)
            if self._slots:
                self._open += 1
            return self._slots > 0

    def remove(self) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                _gsprof.blas_hook(self._path, False)


_HOOKS = _Hooks()


class BlasBlock:
    """Counts the calls of a block, in the thread that begins it."""

    def __init__(self) -> None:
        self._is_on = False
        self._thread = 0
        self._before: Tuple[int, ...] = ()

    def begin(self) -> None:
        self._is_on = _HOOKS.install()
        self._thread = threading.get_ident()
        self._before = _gsprof.blas_counts()

    def end(self) -> Optional[Dict[str, int]]:
        """Returns operations by kind; None if no call was seen."""
        if not self._is_on:
            return None
        self._is_on = False
        _HOOKS.remove()
        # Counts are per thread.
        if threading.get_ident() != self._thread:
            return None
        calls, *flops = (now - then for now, then in zip(_gsprof.blas_counts(), self._before))
        if calls == 0:
            return None
        return {f"blas::{name}": count for name, count in zip(_NAMES, flops) if count}
