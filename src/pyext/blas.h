/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blas.h -- products of vectors and matrices that are asked of BLAS, counted on their way there.
 *
 * Each hook stands for one function of CBLAS: it adds the operations to the thread's own counts and
 * calls the function.  Hooks stay callable for ever.
 *
 * Used by: blas.c (puts them in), blas_hooks.c (has them).
 * Threads: all; counts are each thread's own.
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
    const char *name; /* without the prefix of a library and without what tells 64-bit sizes */
    int is_wide;      /* sizes are int64_t */
    uintptr_t hook;   /* what is called instead */
    uintptr_t *real;  /* what the hook calls; set before the hook is put in */
};

/* All hooks; borrowed for ever. */
const struct gsp_blas_hook *gsp_pyext__blas_hooks(size_t *count);

/* What the calling thread has counted. */
const struct gsp_blas_counts *gsp_pyext__blas_counts(void);
