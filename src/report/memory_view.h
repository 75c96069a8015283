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
#include "report/document.h"

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
