/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_table.h -- the lines of code that hold memory of a process: lines of a live view, text, JSON.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum gsp_memtop_column { GSP_MEMTOP_HELD, GSP_MEMTOP_GROWTH, GSP_MEMTOP_RATE, GSP_MEMTOP_COLUMNS };

struct gsp_memtop_row {
    struct gsp_sv name; /* not escaped */
    int64_t held_bytes;
    int64_t blocks;
    double growth; /* bytes per second, in the last interval */
    double rate;   /* allocated bytes per second, in the last interval */
};

struct gsp_memtop {
    struct gsp_sv title; /* not escaped */
    int32_t pid;
    size_t processes;
    int64_t elapsed_ns;
    int64_t rss_bytes;  /* of all processes; -1: not known */
    int64_t held_bytes; /* of all sites */
    int64_t peak_bytes;
    const char *mode;
    bool is_paused;
    enum gsp_memtop_column sort;
    struct gsp_memtop_row *rows;
    size_t count;
};

/* Sorts by the column, largest first. */
void gsp_tui_memtop_sort(struct gsp_memtop *top);
/* The header: two lines of facts and one of column titles. */
#define GSP_MEMTOP_HEAD_LINES 3U
void gsp_tui_memtop_head_line(const struct gsp_memtop *top, size_t i, struct gsp_buf *out);
void gsp_tui_memtop_row_line(const struct gsp_memtop_row *row, struct gsp_buf *out);
/* The header and at most limit rows (0: all). */
void gsp_tui_memtop_text(const struct gsp_memtop *top, unsigned width, size_t limit,
                         struct gsp_buf *out);
/* One object on one line; unknown values are null. */
void gsp_tui_memtop_json(const struct gsp_memtop *top, size_t limit, struct gsp_buf *out);
