# SPDX-License-Identifier: Apache-2.0
"""Operations of NumPy's calls to BLAS: each way of writing a product, and other calls."""

import json
import sys
import threading

import numpy as np

from gsprof.measure import PerformanceProfiler

profiler = PerformanceProfiler(track_gpu=False, estimate_flops=True)
a = np.ones((30, 40))
b = np.ones((40, 50))


def count(function):
    with profiler.profile("it"):
        function()
    compute = profiler.get_metrics("it").compute
    return compute.estimated_flops, compute.flops_by_operator


def nested():
    with profiler.profile("outer"):
        a @ b
        with profiler.profile("inner"):
            a @ b
    return [profiler.get_metrics(name).compute.estimated_flops for name in ("outer", "inner")]


def beside():
    """Operations of another thread do not count for this block."""
    with profiler.profile("beside"):
        thread = threading.Thread(target=lambda: a @ b)
        thread.start()
        thread.join()
        a.T.copy() @ a
    return profiler.get_metrics("beside").compute.estimated_flops


def raises():
    try:
        with profiler.profile("fails"):
            a @ b
            raise KeyError
    except KeyError:
        pass
    return profiler.get_metrics("fails").compute.estimated_flops


gemm = 2 * 30 * 40 * 50
answers = {
    "matmul": (count(lambda: a @ b)[0], gemm),
    "dot": (count(lambda: np.dot(a, b))[0], gemm),
    "einsum": (count(lambda: np.einsum("ij,jk->ik", a, b, optimize=True))[0], gemm),
    "tensordot": (count(lambda: np.tensordot(a, b, 1))[0], gemm),
    "batch": (count(lambda: np.ones((7, 30, 40)) @ b)[0], 7 * gemm),
    "float": (count(lambda: a.astype("f") @ b.astype("f"))[0], gemm),
    "complex": (count(lambda: a.astype("D") @ b.astype("D"))[0], 4 * gemm),
    "transposed": (count(lambda: b.T @ a.T)[0], gemm),
    "vector": (count(lambda: a @ np.ones(40))[0], 2 * 30 * 40),
    "vectors": (count(lambda: np.ones(999) @ np.ones(999))[0], 2 * 999),
    "complex vectors": (count(lambda: np.vdot(np.ones(9, "D"), np.ones(9, "D")))[0], 8 * 9),
    # One triangle is computed, the other copied.
    "itself": (count(lambda: a @ a.T)[0], 30 * 31 * 40),
    "elements": (count(lambda: a * 2 + a)[0], None),
    "integers": (count(lambda: np.ones((9, 9), int) @ np.ones((9, 9), int))[0], None),
    "nested": (nested(), [2 * gemm, gemm]),
    "beside": (beside(), 2 * 40 * 30 * 40),
    "raises": (raises(), gemm),
}
assert np.allclose(a @ b, 40) and np.allclose(a @ a.T, 40), "the results are unchanged"
wrong = {name: pair for name, pair in answers.items() if pair[0] != pair[1]}
names = count(lambda: (a @ b, a @ np.ones(40)))[1]
assert sorted(names) == ["blas::gemm", "blas::gemv"], names
print(json.dumps({"wrong": wrong, "numpy": np.__version__}))
sys.exit(bool(wrong))
