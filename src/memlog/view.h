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

enum gsp_memlog_view {
    GSP_MEMVIEW_PEAK,      /* each process at its own peak */
    GSP_MEMVIEW_AT,        /* at a time */
    GSP_MEMVIEW_DIFF,      /* between two times; may be negative */
    GSP_MEMVIEW_LEAKS,     /* growth of leaking groups since warm-up */
    GSP_MEMVIEW_TEMPORARY, /* allocated and freed within one tick */
};

struct gsp_memlog_view_spec {
    enum gsp_memlog_view view;
    int64_t from_ns; /* for DIFF */
    int64_t to_ns;   /* for DIFF and AT */
};

/* The value of a site or a group. */
struct gsp_memlog_value {
    int64_t bytes;
    int64_t count;        /* blocks */
    double var;           /* variance of bytes, KiB^2; 0: exact */
    uint64_t alloc_bytes; /* allocated up to that time (DIFF: between the times) */
    uint64_t alloc_count;
};

struct gsp_memlog_values {
    struct gsp_memlog_value *at; /* by site */
    size_t count;
    struct gsp_memlog_leaks leaks; /* for LEAKS */
};

/* groups: the groups among which LEAKS searches. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memlog_values_create(struct gsp_memlog_values *values,
                                            const struct gsp_memlog *log,
                                            const struct gsp_memlog_view_spec *question,
                                            const struct gsp_memlog_groups *groups,
                                            struct gsp_err *err);
void gsp_memlog_values_free(struct gsp_memlog_values *values);

struct gsp_memlog_row {
    uint32_t group;
    uint32_t stack; /* of its largest site */
    struct gsp_memlog_value value;
};

struct gsp_memlog_rows {
    struct gsp_memlog_row *at; /* groups that are not zero, largest absolute value first */
    size_t count;
    struct gsp_memlog_value all; /* sum over all sites */
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memlog_rows_create(struct gsp_memlog_rows *rows,
                                          const struct gsp_memlog *log,
                                          const struct gsp_memlog_values *values,
                                          const struct gsp_memlog_groups *groups,
                                          struct gsp_err *err);
void gsp_memlog_rows_free(struct gsp_memlog_rows *rows);

/* Returns the standard error of the bytes; 0 if they are exact. */
double gsp_memlog_value_error(const struct gsp_memlog_value *value);

/* Adds the positive values to the profile of the recording, as totals of bytes. Call it once per
 * recording. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memlog_values_fill(const struct gsp_memlog_values *values,
                                          const struct gsp_memlog *log, struct gsp_err *err);
/* The same for all sites, including those with 0 bytes. *out has the allocations of each total of
 * the profile, in the same order; the caller frees it. */
GSP_MUST_CHECK int gsp_memlog_values_fill_heap(const struct gsp_memlog_values *values,
                                               const struct gsp_memlog *log, struct gsp_total **out,
                                               struct gsp_err *err);
