/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h -- makes a recording of memory (.gspm): what is new, and what has changed since the tick
 * before.
 *
 * Every flush is one block with a checksum, so a file whose writer was killed, or whose disk was
 * full, is good up to the last flush.  The file has a budget: gsp_memwriter_pause_ns() says how
 * long to wait so that what is left of it lasts as long again as the recording did so far.
 *
 * Used by: cli/ (mem record).
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "memlog/log.h"
#include "memlog/table.h"

#define GSP_MEMLOG_BUDGET (UINT64_C(64) << 20)

struct gsp_memwriter; /* opaque */

struct gsp_memwriter_opts {
    int fd;                   /* borrowed; an empty file */
    int64_t start_ns;         /* CLOCK_MONOTONIC: time 0 of the ticks */
    int64_t start_real_ns;    /* CLOCK_REALTIME of the same moment */
    uint64_t budget_bytes;    /* 0: GSP_MEMLOG_BUDGET */
    const char *huge_setting; /* as in struct gsp_memlog_meta; NULL: not known */
};

/* What is known of a process whose counters are recorded from now on. */
struct gsp_memwriter_process {
    int32_t pid;
    int32_t ppid; /* -1: not known */
    struct gsp_sv cmdline;
};

/* Fails with NOMEM, IO, NOWRITE. */
GSP_MUST_CHECK int gsp_memwriter_new(const struct gsp_memwriter_opts *opts,
                                     struct gsp_memwriter **out, struct gsp_err *err);
void gsp_memwriter_free(struct gsp_memwriter *writer); /* NULL does nothing; writes nothing */

/* A process, of whose table a copy was taken.  *index is what the other calls want. */
GSP_MUST_CHECK int gsp_memwriter_begin(struct gsp_memwriter *writer,
                                       const struct gsp_memwriter_process *about,
                                       const struct gsp_memtable *table, uint32_t *index,
                                       struct gsp_err *err);
/* The last copy of its table as a tick.  Of totals only what the table does not know is looked at:
 * RSS, STEP, HUGE.  now_ns is of CLOCK_MONOTONIC. */
GSP_MUST_CHECK int gsp_memwriter_tick(struct gsp_memwriter *writer, uint32_t index, int64_t now_ns,
                                      const struct gsp_memtable *table,
                                      const int64_t totals[GSP_MEMTOTALS], struct gsp_err *err);
/* The process has ended, or is another one by now. */
void gsp_memwriter_gone(struct gsp_memwriter *writer, uint32_t index, int64_t now_ns);
/* Writes what the last calls made, as one block.  A disk that is full leaves the file as it was
 * before.  Fails with IO, NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_memwriter_flush(struct gsp_memwriter *writer, struct gsp_err *err);
/* The recording ends in order: the last block. */
GSP_MUST_CHECK int gsp_memwriter_end(struct gsp_memwriter *writer, struct gsp_err *err);

/* How long the next tick should wait for the budget's sake; 0: as short as one likes. */
int64_t gsp_memwriter_pause_ns(const struct gsp_memwriter *writer, int64_t now_ns);
uint64_t gsp_memwriter_bytes(const struct gsp_memwriter *writer); /* of the file */
