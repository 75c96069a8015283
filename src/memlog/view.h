/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h -- views of a memory recording: the peak, one time, growth between two times, leaks, and
 * temporary allocations.
 *
 * Gives:   a value for each site; from these, rows by group, and totals in a profile, from which
 *          export/ writes flame graphs and files.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "memlog/group.h"
#include "memlog/leak.h"
#include "memlog/log.h"

enum gsp_memview {
    GSP_MEMVIEW_PEAK,      /* each process at its own peak */
    GSP_MEMVIEW_AT,        /* at a time */
    GSP_MEMVIEW_DIFF,      /* between two times; may be negative */
    GSP_MEMVIEW_LEAKS,     /* growth of leaking groups since warm-up */
    GSP_MEMVIEW_TEMPORARY, /* allocated and freed within one tick */
};

struct gsp_memquestion {
    enum gsp_memview view;
    int64_t from_ns; /* for DIFF */
    int64_t to_ns;   /* for DIFF and AT */
};

/* The value of a site or a group. */
struct gsp_memvalue {
    int64_t bytes;
    int64_t count;        /* blocks */
    double var;           /* variance of bytes, KiB^2; 0: exact */
    uint64_t alloc_bytes; /* allocated up to that time (DIFF: between the times) */
    uint64_t alloc_count;
};

struct gsp_memvalues {
    struct gsp_memvalue *at; /* by site */
    size_t count;
    struct gsp_memleaks leaks; /* for LEAKS */
};

/* groups: the groups among which LEAKS searches. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memvalues_make(struct gsp_memvalues *values, const struct gsp_memlog *log,
                                      const struct gsp_memquestion *question,
                                      const struct gsp_memgroups *groups, struct gsp_err *err);
void gsp_memvalues_free(struct gsp_memvalues *values);

struct gsp_memrow {
    uint32_t group;
    uint32_t stack; /* of its largest site */
    struct gsp_memvalue value;
};

struct gsp_memrows {
    struct gsp_memrow *at; /* groups that are not zero, largest absolute value first */
    size_t count;
    struct gsp_memvalue all; /* sum over all sites */
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memrows_make(struct gsp_memrows *rows, const struct gsp_memlog *log,
                                    const struct gsp_memvalues *values,
                                    const struct gsp_memgroups *groups, struct gsp_err *err);
void gsp_memrows_free(struct gsp_memrows *rows);

/* Returns the standard error of the bytes; 0 if they are exact. */
double gsp_memvalue_error(const struct gsp_memvalue *value);

/* Adds the positive values to the profile of the recording, as totals of bytes. Call it once per
 * recording. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memvalues_fill(const struct gsp_memvalues *values,
                                      const struct gsp_memlog *log, struct gsp_err *err);
/* The same for all sites, including those with 0 bytes. *out has the allocations of each total of
 * the profile, in the same order; the caller frees it. */
GSP_MUST_CHECK int gsp_memvalues_fill_heap(const struct gsp_memvalues *values,
                                           const struct gsp_memlog *log, struct gsp_total **out,
                                           struct gsp_err *err);
