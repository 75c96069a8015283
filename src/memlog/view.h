/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h -- one question asked of a recording of memory: what was held at the peak, at a time, what
 * grew between two, what leaks, what was allocated only to be freed.
 *
 * Gives:   a value for each site; from these, rows by group and the sums of a profile, which
 *          export/ makes flame graphs and files of.
 * Used by: cli/ (mem report).
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
    GSP_MEMVIEW_LEAKS,     /* what accused groups have gained since warm-up */
    GSP_MEMVIEW_TEMPORARY, /* allocated and freed again within one tick */
};

struct gsp_memquestion {
    enum gsp_memview view;
    int64_t from_ns; /* of DIFF */
    int64_t to_ns;   /* of DIFF and AT */
};

/* Of one site or of a group. */
struct gsp_memvalue {
    int64_t bytes;
    int64_t count;        /* blocks */
    double var;           /* of bytes, KiB^2; 0: exact */
    uint64_t alloc_bytes; /* that were allocated until then (DIFF: between) */
    uint64_t alloc_count;
};

struct gsp_memvalues {
    struct gsp_memvalue *at; /* by site */
    size_t count;
    struct gsp_memleaks leaks; /* of LEAKS */
};

/* groups are those that LEAKS accuses.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memvalues_make(struct gsp_memvalues *values, const struct gsp_memlog *log,
                                      const struct gsp_memquestion *question,
                                      const struct gsp_memgroups *groups, struct gsp_err *err);
void gsp_memvalues_free(struct gsp_memvalues *values);

struct gsp_memrow {
    uint32_t group;
    uint32_t stack; /* of its site that has the most */
    struct gsp_memvalue value;
};

struct gsp_memrows {
    struct gsp_memrow *at; /* those that have something, the most first (of DIFF: either way) */
    size_t count;
    struct gsp_memvalue all; /* of all sites */
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memrows_make(struct gsp_memrows *rows, const struct gsp_memlog *log,
                                    const struct gsp_memvalues *values,
                                    const struct gsp_memgroups *groups, struct gsp_err *err);
void gsp_memrows_free(struct gsp_memrows *rows);

/* The standard error of a value's bytes; 0 when they are exact. */
double gsp_memvalue_error(const struct gsp_memvalue *value);

/* Adds what is more than 0 to the recording's profile, as sums of bytes.  Once a recording.
 * Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memvalues_fill(const struct gsp_memvalues *values,
                                      const struct gsp_memlog *log, struct gsp_err *err);
/* The same with all sites, also those that hold nothing, and what each sum allocated in *out, by
 * the profile's sums; the caller frees it. */
GSP_MUST_CHECK int gsp_memvalues_fill_heap(const struct gsp_memvalues *values,
                                           const struct gsp_memlog *log, struct gsp_total **out,
                                           struct gsp_err *err);
