/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h -- the rows that a live view shows of its sums, for one query.
 *
 * A list has a row per function (or line). A tree has a row per visible node, with processes and
 * threads on top. No terminal is needed.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "model/tree.h"
#include "tui/top.h"

#define GSP_TOP_FILTER_MAX 64U

enum gsp_top_column {
    GSP_TOP_OWN_PCT,
    GSP_TOP_TOTAL_PCT,
    GSP_TOP_OWN,
    GSP_TOP_TOTAL,
    GSP_TOP_FUNCTION,
    GSP_TOP_FILE,
    GSP_TOP_COLUMNS, /* the number of columns */
};

/* "own", "total", "own-time", "total-time", "function", "file"; NULL past the last. */
const char *gsp_tui_top_column_name(size_t i);

/* What to show, and in which order. */
struct gsp_top_query {
    struct gsp_view_options view;
    enum gsp_top_column sort;
    bool tree;
    bool whole;       /* percentages of all time since the reset, not of the last interval */
    bool folded;      /* default state of tree nodes: folded or open */
    uint32_t thread;  /* only this one; GSP_NO_INDEX: all */
    uint32_t process; /* the same */
    char filter[GSP_TOP_FILTER_MAX]; /* part of the name of a function or file; "": no filter */
    struct gsp_hmap toggled;         /* paths of nodes whose state is not the default -> 1 */
};

void gsp_tui__top_query_init(struct gsp_top_query *query);
void gsp_tui__top_query_free(struct gsp_top_query *query);
/* Folds an open node or opens a folded one. Does nothing if memory runs out. */
void gsp_tui__top_query_toggle(struct gsp_top_query *query, uint64_t path);
bool gsp_tui__top_query_is_open(const struct gsp_top_query *query, uint64_t path);

enum gsp_top_row_kind { GSP_TOP_ROW_FRAME, GSP_TOP_ROW_THREAD, GSP_TOP_ROW_PROCESS };

struct gsp_top_row {
    enum gsp_top_row_kind kind;
    uint32_t id; /* frame id, or index of the thread or process */
    uint32_t depth;
    uint32_t parent; /* index of a row; GSP_NO_INDEX at the top */
    bool has_children;
    bool is_open;
    uint64_t path; /* identifies the node in query->toggled */
    uint64_t own_count;
    uint64_t total_count;
    int64_t own_weight; /* since the reset */
    int64_t total_weight;
    int64_t own_recent; /* in the last interval */
    int64_t total_recent;
    double own_pct; /* of the last interval, or of all time (query->whole) */
    double total_pct;
};

struct gsp_top_rows {
    struct gsp_top_row *rows;
    size_t count;
};

/* Replaces the rows of *out ({0} at first). Fails with NOMEM; *out is then empty. */
GSP_MUST_CHECK int gsp_tui_rows_build(const struct gsp_top *top, const struct gsp_top_query *query,
                                      struct gsp_top_rows *out, struct gsp_err *err);
void gsp_tui_rows_free(struct gsp_top_rows *rows);

/* Appends the name of a row; not escaped. */
void gsp_tui__top_row_name(const struct gsp_profile *profile, const struct gsp_top_row *row,
                           struct gsp_buf *out);
/* Appends "file.py:12"; nothing for threads and processes. Not escaped. */
void gsp_tui__row_location(const struct gsp_profile *profile, const struct gsp_view_options *view,
                           const struct gsp_top_row *row, struct gsp_buf *out);
/* The line to show; 0 if it is unknown or hidden. */
uint32_t gsp_tui__top_row_line(const struct gsp_profile *profile,
                               const struct gsp_view_options *view, const struct gsp_top_row *row);

/* "MainThread (4242)", "4243: python3 worker.py". */
void gsp_tui__top_thread_name(const struct gsp_profile *profile, uint32_t thread,
                              struct gsp_buf *out);
void gsp_tui__top_process_name(const struct gsp_profile *profile, uint32_t process,
                               struct gsp_buf *out);
