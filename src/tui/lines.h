/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h -- the lines of a live view as text, before anything is drawn.
 *
 * All text from a target is escaped here. A line is clipped to its width in columns.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tui/machine.h"
#include "tui/rows.h"

/* The smallest terminal that can show a table. */
#define GSP_TOP_WIDTH_MIN  80U
#define GSP_TOP_HEIGHT_MIN 10U

/* The data of the header above the table. */
struct gsp_top_facts {
    const char *title; /* "python3 train.py"; not escaped */
    int32_t pid;       /* 0 when unknown */
    bool is_replay;
    bool is_paused;
    bool is_ended;       /* replay: the last sample was shown; live: the target has exited */
    int64_t time_ns;     /* since the beginning */
    int64_t duration_ns; /* of the replayed recording; 0 if live */
    double gil_pct;
    double active_pct;
    uint32_t threads;
    uint32_t processes;
    uint64_t samples;
    double rate_hz; /* requested; 0 when unknown */
    struct gsp_losses losses;
    struct gsp_machine machine;
};

/* Fills gil_pct, active_pct and samples from the sums. */
void gsp_tui_top_facts_sum(const struct gsp_top *top, bool whole, struct gsp_top_facts *facts);
/* Fills threads and processes with those that have samples, for views without another source. */
void gsp_tui_top_facts_count(const struct gsp_top *top, struct gsp_top_facts *facts);

/* The position of the columns: column i has width[i] cells from start[i] on. */
struct gsp_top_layout {
    unsigned start[GSP_TOP_COLUMNS];
    unsigned width[GSP_TOP_COLUMNS];
};

void gsp_tui__layout_init(unsigned width, struct gsp_top_layout *out);
/* The column at x; GSP_TOP_COLUMNS if there is none. */
enum gsp_top_column gsp_tui__top_layout_at(const struct gsp_top_layout *layout, unsigned x);

/* All append one line without its newline. */
void gsp_tui__line_title(const struct gsp_top_facts *facts, struct gsp_buf *out);
void gsp_tui__line_facts(const struct gsp_top_facts *facts, struct gsp_buf *out);
void gsp_tui__line_machine(const struct gsp_top_facts *facts, struct gsp_buf *out);
/* The end of the machine's line. */
void gsp_tui__line_gpu(const struct gsp_top_facts *facts, struct gsp_buf *out);
/* The filters and the sort order. */
void gsp_tui__line_query(const struct gsp_top *top, const struct gsp_top_query *query,
                         struct gsp_buf *out);
void gsp_tui__line_columns(const struct gsp_top_layout *layout, enum gsp_top_column sort,
                           struct gsp_buf *out);
void gsp_tui__line_row(const struct gsp_top_layout *layout, const struct gsp_profile *profile,
                       const struct gsp_top_query *query, const struct gsp_top_row *row,
                       struct gsp_buf *out);

/* Appends text in exactly width cells: padded, or clipped with "~" at the end. */
void gsp_tui__text_fit(struct gsp_buf *out, struct gsp_sv text, size_t width, bool right);
/* The same, but clipped at the beginning. */
void gsp_tui__text_fit_end(struct gsp_buf *out, struct gsp_sv text, size_t width);
