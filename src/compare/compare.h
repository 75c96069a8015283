/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare.h -- compares two recordings: differences, their size and their significance.
 *
 * The same input gives the same output. docs/compare.md describes the method.
 *
 * Reads:   two report documents, each of a run, a session or a profile.
 * Gives:   metrics, modules and functions with change, interval, p value, effect size and verdict;
 * a merged call tree; one sentence. Unknown values are NaN. Threads: one owner; many readers once
 * it is complete.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "report/document.h"

/* p below this is significant. */
#define GSP_COMPARE_P_MAX      0.05
/* A smaller change counts as "same", even if it is significant. */
#define GSP_COMPARE_CHANGE_MIN 0.01
#define GSP_COMPARE_SIDE_MAX   32U

enum gsp_compare_better { GSP_BETTER_NEITHER, GSP_BETTER_LOWER, GSP_BETTER_HIGHER };

enum gsp_compare_verdict {
    GSP_COMPARE_UNKNOWN, /* too few values */
    GSP_COMPARE_SAME,    /* not significant, or too small */
    GSP_COMPARE_BETTER,
    GSP_COMPARE_WORSE,
    GSP_COMPARE_CHANGED, /* significant, in a metric without a better direction */
};

/* One compared value. Index 0 is the first recording, 1 the second. */
struct gsp_compare_row {
    struct gsp_sv name;
    struct gsp_sv unit; /* "s", "bytes", "%", ... */
    enum gsp_compare_better better;
    double value[2];
    size_t count[2]; /* number of values */
    double change;   /* relative to the first value; NaN if that is 0 */
    double low;      /* 95 % interval of change */
    double high;
    double difference_low; /* 95 % interval of the difference, in the unit */
    double difference_high;
    double p;            /* corrected for the number of rows if there are many */
    double effect;       /* Cliff's delta: -1 (all values of the second are lower) to 1 */
    bool is_significant; /* regardless of the size of the difference */
    enum gsp_compare_verdict verdict;
};

/* A function: row is its own time, total includes its callees. */
struct gsp_compare_function {
    struct gsp_compare_row row;
    struct gsp_sv file; /* as displayed: "pkg/mod.py" */
    uint32_t line;      /* of the second recording if it has the function; 0: unknown */
    enum gsp_frame_kind kind;
    double total[2];
};

/* A node of the merged call tree. */
struct gsp_compare_node {
    int32_t parent; /* an earlier index, or -1 */
    uint32_t frame; /* index of a function */
    double own[2];
    double total[2];
};

/* How the times of functions are normalized. */
enum gsp_compare_per {
    GSP_PER_AUTO,  /* by step if both have steps, by run if both have times, else by share */
    GSP_PER_STEP,  /* seconds per step, without warm-up */
    GSP_PER_RUN,   /* seconds in total */
    GSP_PER_SHARE, /* percent of the total */
};

struct gsp_compare_rule; /* rules.h */

struct gsp_compare {
    const struct gsp_report *side[2]; /* borrowed */
    struct gsp_sv name[2];
    struct gsp_compare_row *metrics;
    size_t metric_count;
    struct gsp_compare_row *modules; /* the largest change of time first */
    size_t module_count;
    struct gsp_compare_function *functions; /* referenced by nodes */
    size_t function_count;
    uint32_t *order; /* indexes of functions, the largest change of own time first */
    struct gsp_compare_node *nodes;
    size_t node_count;
    const char *unit; /* of functions and nodes: "s", "samples", "bytes", "%"; NULL: no stacks */
    enum gsp_compare_per per;
    size_t warmup[2]; /* steps excluded at the start */
    size_t steps[2];  /* steps included */
    bool is_same;     /* all values are equal */
    struct gsp_sv verdict;
    struct gsp_sv *notes; /* caveats */
    size_t note_count;
    struct gsp_buf *texts; /* texts owned by the comparison */
    size_t text_count;
    bool no_memory;
};

struct gsp_compare_opts {
    const char *name[2]; /* display names; NULL: names of the documents */
    enum gsp_compare_per per;
    int64_t warmup; /* steps to exclude; negative: detect */
};

/* Compares two documents, which must outlive the comparison and should have been opened with
 * `values`. opts may be NULL. Fails with FORMAT (nothing in common) or NOMEM. */
GSP_MUST_CHECK int gsp_compare__new(const struct gsp_report *a, const struct gsp_report *b,
                                    const struct gsp_compare_opts *opts, struct gsp_compare **out,
                                    struct gsp_err *err);
/* Compares up to GSP_COMPARE_SIDE_MAX recordings on each side. Each recording gives one value, so
 * the variation between recordings of the same program is taken into account. The tree and the
 * charts are those of the first recording of each side. opts must not be NULL. */
GSP_MUST_CHECK int gsp_compare_many(const struct gsp_report *const *const sides[2],
                                    const size_t counts[2], const struct gsp_compare_opts *opts,
                                    struct gsp_compare **out, struct gsp_err *err);
void gsp_compare_free(struct gsp_compare *compare); /* NULL does nothing */

/* "better", "worse", "same", "changed", "unknown". */
const char *gsp_compare__verdict_name(enum gsp_compare_verdict verdict);
/* The name for display: "too few values" for unknown. */
const char *gsp_compare__verdict_text(enum gsp_compare_verdict verdict);
