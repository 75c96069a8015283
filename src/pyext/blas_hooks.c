/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"
#include "pyext/blas.h"

/* Operations of a multiply-add: with complex numbers, four multiplications and four additions. */
#define REAL_OPS    2U
#define COMPLEX_OPS 8U

static _Thread_local struct gsp_blas_counts counts;

/* BLAS does nothing for a negative size. */
static uint64_t size_of(int64_t n)
{
    return n > 0 ? (uint64_t)n : 0;
}

static void add(enum gsp_blas_kind kind, uint64_t flops)
{
    counts.calls++;
    counts.flops[kind] += flops;
}

/* The parameters are those of CBLAS. size: type of sizes; scalar: type of factors; ops: operations
 * of one element. */
// NOLINTBEGIN(readability-function-size, bugprone-macro-parentheses)
#define GEMM(name, size, scalar, ops)                                                              \
    static uintptr_t name##_real;                                                                  \
    static void name##_hook(int order, int trans_a, int trans_b, size m, size n, size k,           \
                            scalar alpha, const void *a, size lda, const void *b, size ldb,        \
                            scalar beta, void *c, size ldc)                                        \
    {                                                                                              \
        void (*real)(int, int, int, size, size, size, scalar, const void *, size, const void *,    \
                     size, scalar, void *, size) = (__typeof__(real))name##_real;                  \
        add(GSP_BLAS_GEMM, (ops)*size_of(m) * size_of(n) * size_of(k));                            \
        real(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);               \
    }

#define GEMV(name, size, scalar, ops)                                                              \
    static uintptr_t name##_real;                                                                  \
    static void name##_hook(int order, int trans, size m, size n, scalar alpha, const void *a,     \
                            size lda, const void *x, size inc_x, scalar beta, void *y, size inc_y) \
    {                                                                                              \
        void (*real)(int, int, size, size, scalar, const void *, size, const void *, size, scalar, \
                     void *, size) = (__typeof__(real))name##_real;                                \
        add(GSP_BLAS_GEMV, (ops)*size_of(m) * size_of(n));                                         \
        real(order, trans, m, n, alpha, a, lda, x, inc_x, beta, y, inc_y);                         \
    }

#define SYRK(name, size, scalar, ops)                                                              \
    static uintptr_t name##_real;                                                                  \
    static void name##_hook(int order, int part, int trans, size n, size k, scalar alpha,          \
                            const void *a, size lda, scalar beta, void *c, size ldc)               \
    {                                                                                              \
        void (*real)(int, int, int, size, size, scalar, const void *, size, scalar, void *,        \
                     size) = (__typeof__(real))name##_real;                                        \
        add(GSP_BLAS_SYRK, (ops) / 2 * size_of(n) * (size_of(n) + 1) * size_of(k));                \
        real(order, part, trans, n, k, alpha, a, lda, beta, c, ldc);                               \
    }

#define DOT(name, size, scalar, ops)                                                               \
    static uintptr_t name##_real;                                                                  \
    static scalar name##_hook(size n, const void *x, size inc_x, const void *y, size inc_y)        \
    {                                                                                              \
        scalar (*real)(size, const void *, size, const void *, size) =                             \
            (__typeof__(real))name##_real;                                                         \
        add(GSP_BLAS_DOT, (ops)*size_of(n));                                                       \
        return real(n, x, inc_x, y, inc_y);                                                        \
    }

/* The last parameter points to the result. */
#define DOT_TO(name, size, scalar, ops)                                                            \
    static uintptr_t name##_real;                                                                  \
    static void name##_hook(size n, const void *x, size inc_x, const void *y, size inc_y,          \
                            scalar out)                                                            \
    {                                                                                              \
        void (*real)(size, const void *, size, const void *, size, scalar) =                       \
            (__typeof__(real))name##_real;                                                         \
        add(GSP_BLAS_DOT, (ops)*size_of(n));                                                       \
        real(n, x, inc_x, y, inc_y, out);                                                          \
    }

/* shape, function, type of factors, operations of an element */
#define FUNCTIONS(X)                                                                               \
    X(GEMM, cblas_sgemm, float, REAL_OPS)                                                          \
    X(GEMM, cblas_dgemm, double, REAL_OPS)                                                         \
    X(GEMM, cblas_cgemm, const void *, COMPLEX_OPS)                                                \
    X(GEMM, cblas_zgemm, const void *, COMPLEX_OPS)                                                \
    X(GEMV, cblas_sgemv, float, REAL_OPS)                                                          \
    X(GEMV, cblas_dgemv, double, REAL_OPS)                                                         \
    X(GEMV, cblas_cgemv, const void *, COMPLEX_OPS)                                                \
    X(GEMV, cblas_zgemv, const void *, COMPLEX_OPS)                                                \
    X(SYRK, cblas_ssyrk, float, REAL_OPS)                                                          \
    X(SYRK, cblas_dsyrk, double, REAL_OPS)                                                         \
    X(SYRK, cblas_csyrk, const void *, COMPLEX_OPS)                                                \
    X(SYRK, cblas_zsyrk, const void *, COMPLEX_OPS)                                                \
    X(DOT, cblas_sdot, float, REAL_OPS)                                                            \
    X(DOT, cblas_ddot, double, REAL_OPS)                                                           \
    X(DOT_TO, cblas_cdotu_sub, void *, COMPLEX_OPS)                                                \
    X(DOT_TO, cblas_zdotu_sub, void *, COMPLEX_OPS)                                                \
    X(DOT_TO, cblas_cdotc_sub, void *, COMPLEX_OPS)                                                \
    X(DOT_TO, cblas_zdotc_sub, void *, COMPLEX_OPS)

#define DEFINE(shape, name, scalar, ops)                                                           \
    shape(name, int, scalar, ops) shape(name##_wide, int64_t, scalar, ops)
FUNCTIONS(DEFINE)
#undef DEFINE
// NOLINTEND(readability-function-size, bugprone-macro-parentheses)

#define ROW(shape, name, scalar, ops)                                                              \
    {#name, 0, (uintptr_t)name##_hook, &name##_real},                                              \
        {#name, 1, (uintptr_t)name##_wide_hook, &name##_wide_real},
static const struct gsp_blas_hook hooks[] = {FUNCTIONS(ROW)};
#undef ROW

const struct gsp_blas_hook *gsp_pyext__blas_hooks(size_t *count)
{
    *count = GSP_COUNT(hooks);
    return hooks;
}

const struct gsp_blas_counts *gsp_pyext__blas_counts(void)
{
    return &counts;
}
