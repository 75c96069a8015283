/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blas.h -- counts the operations of calls to BLAS.
 *
 * Each hook replaces one function of CBLAS: it adds the operations to the thread's counts and calls
 * the function. Hooks stay callable for ever.
 *
 * Threads: all; counts are per thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum gsp_blas_kind {
    GSP_BLAS_GEMM, /* matrix by matrix */
    GSP_BLAS_GEMV, /* matrix by vector */
    GSP_BLAS_SYRK, /* matrix by itself, transposed: half of it is computed */
    GSP_BLAS_DOT,  /* vector by vector */
    GSP_BLAS_KINDS
};

struct gsp_blas_counts {
    uint64_t calls;
    uint64_t flops[GSP_BLAS_KINDS];
};

struct gsp_blas_hook {
    const char *name; /* without the library's prefix and the suffix of 64-bit sizes */
    int is_wide;      /* sizes are int64_t */
    uintptr_t hook;   /* the replacement */
    uintptr_t *real;  /* the original, called by the hook; set before the hook is installed */
};

/* Returns all hooks; static. */
const struct gsp_blas_hook *gsp_pyext__blas_hooks(size_t *count);

/* Returns the counts of the calling thread. */
const struct gsp_blas_counts *gsp_pyext__blas_counts(void);
