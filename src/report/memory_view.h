/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_view.h -- one view of a memory recording, and its forms: text, JSON, rows and report
 * document.
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
#include "memlog/group.h"
#include "memlog/log.h"
#include "memlog/view.h"
#include "model/row_list.h"
#include "report/document.h"

/* Rows of a page, unless the user wants another number. */
#define GSP_MEMORY_SITES_DEFAULT 1000U

struct gsp_memory_view {
    struct gsp_memlog *log;
    const char *path;
    struct gsp_memlog_view_spec question;
    struct gsp_memlog_groups groups;
    struct gsp_memlog_values values;
    struct gsp_memlog_rows rows;
    size_t limit; /* maximum number of rows; 0: all */
    unsigned width;
};

/* Opens a recording. Fails as gsp_memlog_open() does, and with EMPTY. Close it in any case. */
GSP_MUST_CHECK int gsp_report_memory_open(struct gsp_memory_view *report, const char *path,
                                          enum gsp_memlog_group_by by, struct gsp_err *err);
GSP_MUST_CHECK int gsp_report_memory_select(struct gsp_memory_view *report, struct gsp_err *err);
void gsp_report_memory_close(struct gsp_memory_view *report);

/* "peak", "at", "diff", "leaks", "temporary". */
const char *gsp_report__memory_view_name(enum gsp_memlog_view view);
/* Whether all processes recorded every allocation; otherwise amounts are estimates. */
bool gsp_report__memory_is_exact(const struct gsp_memory_view *report);
/* The highest peak of a process; -1: unknown. */
struct gsp_memory_peak {
    int64_t bytes;
    int64_t time_ns;
    int64_t rss_bytes;  /* the highest of that process */
    int64_t huge_bytes; /* the highest number of bytes in huge pages */
};
struct gsp_memory_peak gsp_report__memory_peak(const struct gsp_memory_view *report);

/* Appends the text for a terminal. */
void gsp_report_memory_text(const struct gsp_memory_view *report, struct gsp_buf *out);
/* Appends one JSON object. */
void gsp_report_memory_json(const struct gsp_memory_view *report, struct gsp_buf *out);
/* The rows of the view, and the totals over time. The caller frees *out with gsp_rows_free(). Fail
 * with NOMEM. */
GSP_MUST_CHECK int gsp_report_memory_rows(const struct gsp_memory_view *report,
                                          struct gsp_row_list **out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_report_memory_timeline(const struct gsp_memory_view *report,
                                              struct gsp_row_list **out, struct gsp_err *err);
/* The view as a report document, with at most `limit` call stacks. On success the caller frees *out
 * with gsp_report_free(); on failure it is NULL. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_report_memory_document(const struct gsp_memory_view *report,
                                              struct gsp_report **out, struct gsp_err *err);

/* Parts of the text and of the document; all append to out. */
size_t gsp_report__memory_process_count(const struct gsp_memory_view *report);
/* "Peak of a process: 123 MiB at 3.2 s; resident at most 200 MiB"; nothing if unknown. */
void gsp_report__memory_put_peak(const struct gsp_memory_view *report, struct gsp_buf *out);
/* "32.0 MiB in huge pages (transparent_hugepage: madvise)"; nothing if none were used. */
void gsp_report__memory_put_huge(const struct gsp_memory_view *report, struct gsp_buf *out);
/* "Held at the peak" */
void gsp_report__memory_put_view(const struct gsp_memory_view *report, struct gsp_buf *out);
/* "120 MiB (estimated, +- 2.10 MiB with 95 % confidence) in 1,234 blocks" */
void gsp_report__memory_put_total(const struct gsp_memory_view *report, struct gsp_buf *out);
