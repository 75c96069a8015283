/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h -- lines of fields in a file that only grows, each whole or not there.
 *
 * A line is a check sum and fields between tabs.  Lines of several threads become safe from a
 * power cut by one fdatasync.  A torn end is cut off when the journal is opened again; a line
 * that is damaged is left out and counted.
 * Used by: daemon/sessions.
 * Threads: append and rewrite by one at a time (the caller's lock); sync by all at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define GSP_JOURNAL_FIELDS_MAX 16U

struct gsp_journal; /* opaque */

/* Called with each line that there is, in order.  Fields are borrowed for the call. */
typedef void gsp_journal_reader(void *ctx, const struct gsp_sv *fields, size_t count);

/* Opens or makes the file and holds a lock on it.
 * Fails with EXISTS (another process has it), FORMAT (not a journal, or of another version),
 * NOWRITE, IO, NOMEM. */
GSP_MUST_CHECK int gsp_journal_open(const char *path, gsp_journal_reader *reader, void *ctx,
                                    struct gsp_journal **out, struct gsp_err *err);
void gsp_journal_close(struct gsp_journal *journal); /* NULL does nothing */

/* Writes a line; it is safe from a killed process then.  *mark is for sync.
 * On failure (NOWRITE) nothing of it is there. */
GSP_MUST_CHECK int gsp_journal_append(struct gsp_journal *journal, const struct gsp_sv *fields,
                                      size_t count, uint64_t *mark, struct gsp_err *err);
/* Comes back when everything up to the mark is safe from a power cut. */
GSP_MUST_CHECK int gsp_journal_sync(struct gsp_journal *journal, uint64_t mark,
                                    struct gsp_err *err);

/* One line as it stands in the file, appended: for rewrite and tests. */
void gsp_journal_line(struct gsp_buf *out, const struct gsp_sv *fields, size_t count);
/* Puts these lines in place of all. */
GSP_MUST_CHECK int gsp_journal_rewrite(struct gsp_journal *journal, struct gsp_sv lines,
                                       size_t line_count, struct gsp_err *err);

/* Reads the text of a journal without its first line; worth the bytes of whole lines. */
size_t gsp_journal_parse(struct gsp_sv text, gsp_journal_reader *reader, void *ctx, size_t *lines,
                         size_t *damaged);

size_t gsp_journal_lines(const struct gsp_journal *journal);
size_t gsp_journal_damaged(const struct gsp_journal *journal);
