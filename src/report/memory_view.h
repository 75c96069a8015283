/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_report.h -- a view of a recording of memory, and the forms in which it is told.
 *
 * Used by: cmd_mem_report.c.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "memlog/group.h"
#include "memlog/log.h"
#include "memlog/view.h"
#include "model/row_list.h"

struct gsp_memreport {
    struct gsp_memlog *log;
    const char *path;
    struct gsp_memlog_view_spec question;
    struct gsp_memlog_groups groups;
    struct gsp_memlog_values values;
    struct gsp_memlog_rows rows;
    size_t limit; /* rows that are told; 0: all */
    unsigned width;
};

/* Fails with what log.h and view.h fail with, and EMPTY. */
GSP_MUST_CHECK int gsp_memreport_open(struct gsp_memreport *report, const char *path,
                                      enum gsp_memlog_group_by by, struct gsp_err *err);
GSP_MUST_CHECK int gsp_memreport_ask(struct gsp_memreport *report, struct gsp_err *err);
void gsp_memreport_close(struct gsp_memreport *report);

/* "peak", "at", "diff", "leaks", "temporary". */
const char *gsp_memreport_view_name(enum gsp_memlog_view view);
/* The largest error of any process: whether amounts are estimates. */
bool gsp_memreport_is_exact(const struct gsp_memreport *report);
/* The highest peak of a process, when it was (-1: not known) and its resident bytes at the next
 * look (-1). */
struct gsp_mempeak {
    int64_t bytes;
    int64_t time_ns;
    int64_t rss_bytes;  /* the most that was seen of that process */
    int64_t huge_bytes; /* the most of it that was in huge pages; -1: not known */
};
struct gsp_mempeak gsp_memreport_peak(const struct gsp_memreport *report);

/* For people. */
void gsp_memreport_text(const struct gsp_memreport *report, struct gsp_buf *out);
/* One document. */
void gsp_memreport_json(const struct gsp_memreport *report, struct gsp_buf *out);
/* For spreadsheets; the caller frees *out.  Fail with NOMEM. */
GSP_MUST_CHECK int gsp_memreport_table(const struct gsp_memreport *report,
                                       struct gsp_made_rows **out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_memreport_timeline(const struct gsp_memreport *report,
                                          struct gsp_made_rows **out, struct gsp_err *err);
/* The page: facts and rows, and the place of the flame graph behind them. */
void gsp_memreport_page(const struct gsp_memreport *report, struct gsp_buf *out);

/* What grew from one recording to the other, by name. */
struct gsp_memcontrast_row {
    struct gsp_buf name;
    int64_t before;
    int64_t after;
    double var; /* of both, KiB^2 */
};
struct gsp_memcontrast {
    struct gsp_memcontrast_row *at; /* the largest difference first */
    size_t count;
};
GSP_MUST_CHECK int gsp_memcontrast_make(struct gsp_memcontrast *contrast,
                                        const struct gsp_memreport *a,
                                        const struct gsp_memreport *b, struct gsp_err *err);
void gsp_memcontrast_free(struct gsp_memcontrast *contrast);
void gsp_memcontrast_text(const struct gsp_memcontrast *contrast, const struct gsp_memreport *b,
                          struct gsp_buf *out);
GSP_MUST_CHECK int gsp_memcontrast_table(const struct gsp_memcontrast *contrast,
                                         struct gsp_made_rows **out, struct gsp_err *err);
