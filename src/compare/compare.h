/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare.h -- two recordings beside each other: what differs, by how much, and how surely.
 *
 * Reads:   two digests (a run, a session or a profile each).
 * Gives:   metrics, modules and functions with change, bounds, p, effect and verdict; one call tree
 *          with the values of both; a sentence.  Values that are not known are NaN.
 * Used by: cli/ (compare, report).
 * Threads: one owner; many readers once it is made.
 *
 * The same input gives the same output.  docs/compare.md has the method.
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

/* What is called significant. */
#define GSP_COMPARE_P_MAX      0.05
/* What is called a difference: less is none that matters, however sure it is. */
#define GSP_COMPARE_CHANGE_MIN 0.01
#define GSP_COMPARE_SIDE_MAX   32U

enum gsp_better { GSP_BETTER_NEITHER, GSP_BETTER_LOWER, GSP_BETTER_HIGHER };

enum gsp_compare_verdict {
    GSP_COMPARE_UNKNOWN, /* too few values to tell */
    GSP_COMPARE_SAME,    /* none that chance would not make, or that matters */
    GSP_COMPARE_BETTER,
    GSP_COMPARE_WORSE,
    GSP_COMPARE_CHANGED, /* of what is neither better nor worse for being more */
};

/* One thing that both have: index 0 is of the first recording, 1 of the second. */
struct gsp_compare_row {
    struct gsp_sv name;
    struct gsp_sv unit; /* "s", "bytes", "%", ... */
    enum gsp_better better;
    double value[2];
    size_t count[2]; /* values that there were */
    double change;   /* of value, as a share of the first; NaN when that is 0 */
    double low;      /* bounds of change */
    double high;
    double difference_low; /* bounds of the difference, in the unit */
    double difference_high;
    double p;            /* among many: corrected for their number */
    double effect;       /* Cliff's delta: -1 (all of the second lie below) to 1 */
    bool is_significant; /* chance would hardly make the difference, however small it is */
    enum gsp_compare_verdict verdict;
};

/* A function, and what it did itself (row: own time) and with what it called (total). */
struct gsp_compare_function {
    struct gsp_compare_row row;
    struct gsp_sv file; /* as people read it: "pkg/mod.py" */
    uint32_t line;      /* of the second recording if it has it; 0: not known */
    enum gsp_frame_kind kind;
    double total[2];
};

/* A node of the call tree of both. */
struct gsp_compare_node {
    int32_t parent; /* an earlier index; -1 */
    uint32_t frame; /* index of a function */
    double own[2];
    double total[2];
};

/* What the times of functions are divided by. */
enum gsp_compare_per {
    GSP_PER_AUTO,  /* steps when both have them, runs when both have times, else shares */
    GSP_PER_STEP,  /* seconds in a step, warm-up left out */
    GSP_PER_RUN,   /* seconds in all */
    GSP_PER_SHARE, /* percent of all */
};

struct gsp_compare_rule; /* rules.h */

struct gsp_compare {
    const struct gsp_digest *side[2]; /* borrowed */
    struct gsp_sv name[2];
    struct gsp_compare_row *metrics;
    size_t metric_count;
    struct gsp_compare_row *modules; /* the largest changes of time first */
    size_t module_count;
    struct gsp_compare_function *functions; /* nodes refer to them */
    size_t function_count;
    uint32_t *order; /* of functions: the largest change of own time first */
    struct gsp_compare_node *nodes;
    size_t node_count;
    const char *unit; /* of functions and nodes: "s", "samples", "bytes", "%"; NULL: no stacks */
    enum gsp_compare_per per;
    size_t warmup[2]; /* steps left out at the start */
    size_t steps[2];  /* steps that count */
    bool is_same;     /* nothing differs at all */
    struct gsp_sv verdict;
    struct gsp_sv *notes; /* what to keep in mind */
    size_t note_count;
    struct gsp_buf *texts; /* each a text that was made here */
    size_t text_count;
    bool no_memory;
};

struct gsp_compare_opts {
    const char *name[2]; /* what to call them; NULL: as the digests do */
    enum gsp_compare_per per;
    int64_t warmup; /* steps to leave out; negative: found out */
};

/* Compares.  The digests are borrowed until gsp_compare_free(); they should have been opened with
 * `values`.  opts may be NULL.  Fails with FORMAT (nothing in common) or NOMEM. */
GSP_MUST_CHECK int gsp_compare_new(const struct gsp_digest *a, const struct gsp_digest *b,
                                   const struct gsp_compare_opts *opts, struct gsp_compare **out,
                                   struct gsp_err *err);
/* The same of up to GSP_COMPARE_SIDE_MAX recordings on each side, each of which is one value: what
 * differs between two recordings of the same program is then no difference.  The tree and the
 * charts are those of the first of each.  opts is not NULL. */
GSP_MUST_CHECK int gsp_compare_several(const struct gsp_digest *const *const sides[2],
                                       const size_t counts[2], const struct gsp_compare_opts *opts,
                                       struct gsp_compare **out, struct gsp_err *err);
void gsp_compare_free(struct gsp_compare *compare); /* NULL does nothing */

/* "better", "worse", "same", "changed", "unknown". */
const char *gsp_compare_verdict_name(enum gsp_compare_verdict verdict);
/* The same for people: "too few values" for unknown. */
const char *gsp_compare_verdict_words(enum gsp_compare_verdict verdict);
