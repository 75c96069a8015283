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

struct gsp_memreport {
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
GSP_MUST_CHECK int gsp_memreport_open(struct gsp_memreport *report, const char *path,
                                      enum gsp_memlog_group_by by, struct gsp_err *err);
GSP_MUST_CHECK int gsp_memreport_ask(struct gsp_memreport *report, struct gsp_err *err);
void gsp_memreport_close(struct gsp_memreport *report);

/* "peak", "at", "diff", "leaks", "temporary". */
const char *gsp_memreport_view_name(enum gsp_memlog_view view);
/* Whether all processes recorded every allocation; otherwise amounts are estimates. */
bool gsp_memreport_is_exact(const struct gsp_memreport *report);
/* The highest peak of a process; -1: unknown. */
struct gsp_mempeak {
    int64_t bytes;
    int64_t time_ns;
    int64_t rss_bytes;  /* the highest of that process */
    int64_t huge_bytes; /* the highest number of bytes in huge pages */
};
struct gsp_mempeak gsp_memreport_peak(const struct gsp_memreport *report);

/* Appends the text for a terminal. */
void gsp_memreport_text(const struct gsp_memreport *report, struct gsp_buf *out);
/* Appends one JSON object. */
void gsp_memreport_json(const struct gsp_memreport *report, struct gsp_buf *out);
/* The rows of the view, and the totals over time. The caller frees *out with gsp_rows_free(). Fail
 * with NOMEM. */
GSP_MUST_CHECK int gsp_memreport_table(const struct gsp_memreport *report,
                                       struct gsp_made_rows **out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_memreport_timeline(const struct gsp_memreport *report,
                                          struct gsp_made_rows **out, struct gsp_err *err);
/* The view as a report document, with at most `limit` call stacks. On success the caller frees *out
 * with gsp_digest_free(); on failure it is NULL. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memreport_document(const struct gsp_memreport *report,
                                          struct gsp_digest **out, struct gsp_err *err);

/* Parts of the text and of the document; all append to out. */
size_t gsp_memreport_process_count(const struct gsp_memreport *report);
/* "Peak of a process: 123 MiB at 3.2 s; resident at most 200 MiB"; nothing if unknown. */
void gsp_memreport_put_peak(const struct gsp_memreport *report, struct gsp_buf *out);
/* "32.0 MiB in huge pages (transparent_hugepage: madvise)"; nothing if none were used. */
void gsp_memreport_put_huge(const struct gsp_memreport *report, struct gsp_buf *out);
/* "Held at the peak" */
void gsp_memreport_put_view(const struct gsp_memreport *report, struct gsp_buf *out);
/* "120 MiB (estimated, +- 2.10 MiB with 95 % confidence) in 1,234 blocks" */
void gsp_memreport_put_total(const struct gsp_memreport *report, struct gsp_buf *out);
