/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h -- what a live view shows of its sums: the rows for one way of looking.
 *
 * A list has a row per function (or line); a tree has a row per node that is not folded away,
 * processes and threads on top.  No terminal is needed to make rows.
 *
 * Used by: tui/ (ui, lines, screen, text), cli/ (top).
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
    GSP_TOP_COLUMNS, /* how many there are */
};

/* "own", "total", "own-time", "total-time", "function", "file"; NULL past the last. */
const char *gsp_top_column_name(size_t i);

/* What to show, and in which order. */
struct gsp_top_query {
    struct gsp_view view;
    enum gsp_top_column sort;
    bool tree;
    bool whole;       /* shares of everything since the reset, not of the last interval */
    bool folded;      /* nodes of a tree are folded unless toggled, else open unless toggled */
    uint32_t thread;  /* this one only; GSP_NO_INDEX: all */
    uint32_t process; /* the same */
    char filter[GSP_TOP_FILTER_MAX]; /* part of a function's or file's name; "" lets all pass */
    struct gsp_hmap toggled;         /* paths of nodes whose fold is not the usual one -> 1 */
};

void gsp_top_query_init(struct gsp_top_query *query);
void gsp_top_query_free(struct gsp_top_query *query);
/* Folds an open node or opens a folded one; without memory nothing changes. */
void gsp_top_query_toggle(struct gsp_top_query *query, uint64_t path);
bool gsp_top_query_is_open(const struct gsp_top_query *query, uint64_t path);

enum gsp_top_row_kind { GSP_TOP_ROW_FRAME, GSP_TOP_ROW_THREAD, GSP_TOP_ROW_PROCESS };

struct gsp_top_row {
    enum gsp_top_row_kind kind;
    uint32_t id; /* of the frame; index of the thread or process */
    uint32_t depth;
    uint32_t parent; /* index of a row of the same tree, GSP_NO_INDEX at the top */
    bool has_children;
    bool is_open;
    uint64_t path; /* what the node is called by its fold */
    uint64_t own_count;
    uint64_t total_count;
    int64_t own_weight; /* since the reset */
    int64_t total_weight;
    int64_t own_recent; /* in the last interval */
    int64_t total_recent;
    double own_pct; /* as the query says: of the last interval, or of all */
    double total_pct;
};

struct gsp_top_rows {
    struct gsp_top_row *rows;
    size_t count;
};

/* Replaces what *out held ({0} at first).  Fails with NOMEM; *out is empty then. */
GSP_MUST_CHECK int gsp_top_rows_make(const struct gsp_top *top, const struct gsp_top_query *query,
                                     struct gsp_top_rows *out, struct gsp_err *err);
void gsp_top_rows_free(struct gsp_top_rows *rows);

/* Append the texts of a row as bytes of the target: whoever shows them escapes them. */
void gsp_top_row_name(const struct gsp_profile *profile, const struct gsp_top_row *row,
                      struct gsp_buf *out);
/* "file.py:12"; nothing for threads and processes. */
void gsp_top_row_place(const struct gsp_profile *profile, const struct gsp_view *view,
                       const struct gsp_top_row *row, struct gsp_buf *out);
/* The line that the view shows; 0 when unknown or not shown. */
uint32_t gsp_top_row_line(const struct gsp_profile *profile, const struct gsp_view *view,
                          const struct gsp_top_row *row);

/* "MainThread (4242)", "4243: python3 worker.py". */
void gsp_top_thread_name(const struct gsp_profile *profile, uint32_t thread, struct gsp_buf *out);
void gsp_top_process_name(const struct gsp_profile *profile, uint32_t process, struct gsp_buf *out);
