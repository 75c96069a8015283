/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h -- an append-only file of lines, each of which exists completely or not at all.
 *
 * A line is a checksum and fields separated by tabs. One fdatasync syncs the lines of several
 * threads. Opening the journal cuts off an incomplete end and skips damaged lines.
 *
 * Threads: append and rewrite from one thread at a time (the caller's lock); sync from any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define GSP_JOURNAL_FIELDS_MAX 16U

struct gsp_journal; /* opaque */

/* Called for each line, in order. The fields are borrowed for the call. */
typedef void gsp_journal_reader(void *ctx, const struct gsp_sv *fields, size_t count);

/* Opens or creates the file and holds a lock on it.
 * Fails with EXISTS (another process uses it), FORMAT (not a journal of this version),
 * NOWRITE, IO, NOMEM. */
GSP_MUST_CHECK int gsp_frames_journal_open(const char *path, gsp_journal_reader *reader, void *ctx,
                                           struct gsp_journal **out, struct gsp_err *err);
void gsp_frames_journal_close(struct gsp_journal *journal); /* NULL does nothing */

/* Writes a line, which then survives a kill of this process. *mark is for
 * gsp_frames_journal_sync(). Fails with NOWRITE and NOMEM; no part of the line is written then. */
GSP_MUST_CHECK int gsp_frames_journal_append(struct gsp_journal *journal,
                                             const struct gsp_sv *fields, size_t count,
                                             uint64_t *mark, struct gsp_err *err);
/* Returns once everything up to the mark is synced to disk. */
GSP_MUST_CHECK int gsp_frames_journal_sync(struct gsp_journal *journal, uint64_t mark,
                                           struct gsp_err *err);

/* Appends one line in the format of the file, for gsp_frames_journal_rewrite(). */
void gsp_frames_journal_line(struct gsp_buf *out, const struct gsp_sv *fields, size_t count);
/* Replaces all lines. */
GSP_MUST_CHECK int gsp_frames_journal_rewrite(struct gsp_journal *journal, struct gsp_sv lines,
                                              size_t line_count, struct gsp_err *err);

/* Reads the text of a journal without its first line. Returns the number of bytes of complete
 * lines. */
size_t gsp_frames__journal_parse(struct gsp_sv text, gsp_journal_reader *reader, void *ctx,
                                 size_t *lines, size_t *damaged);

size_t gsp_frames_journal_lines(const struct gsp_journal *journal);
