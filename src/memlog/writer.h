/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h -- writes a memory recording (.gspm): new definitions, and the changes since the
 * previous tick.
 *
 * Every flush is one block with a checksum. So if the writer is killed or the disk is full, the
 * file is valid up to the last flush. The file has a budget: gsp_memlog_writer_pause_ns() returns
 * how long to wait so that the rest covers at least as much time as already recorded.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "memlog/log.h"
#include "memlog/table.h"

#define GSP_MEMLOG_BUDGET (UINT64_C(64) << 20)

struct gsp_memlog_writer; /* opaque */

struct gsp_memlog_writer_opts {
    int fd;                   /* borrowed; an empty file */
    int64_t start_ns;         /* CLOCK_MONOTONIC: time 0 of the ticks */
    int64_t start_real_ns;    /* CLOCK_REALTIME of the same moment */
    uint64_t budget_bytes;    /* 0: GSP_MEMLOG_BUDGET */
    const char *huge_setting; /* as in struct gsp_memlog_meta; NULL: unknown */
};

/* A process to record. */
struct gsp_memlog_writer_process {
    int32_t pid;
    int32_t ppid; /* -1: unknown */
    struct gsp_sv cmdline;
};

/* Fails with NOMEM or IO. */
GSP_MUST_CHECK int gsp_memlog_writer_new(const struct gsp_memlog_writer_opts *opts,
                                         struct gsp_memlog_writer **out, struct gsp_err *err);
void gsp_memlog_writer_free(
    struct gsp_memlog_writer *writer); /* NULL does nothing; writes nothing */

/* Adds a process. Its table must have a copy. *index identifies the process in the other calls. */
GSP_MUST_CHECK int gsp_memlog_writer_add_process(struct gsp_memlog_writer *writer,
                                                 const struct gsp_memlog_writer_process *about,
                                                 const struct gsp_memlog_table *table,
                                                 uint32_t *index, struct gsp_err *err);
/* Writes the last copy of its table as a tick. Of totals, only those that the table does not
 * contain are used: RSS, STEP, HUGE. now_ns is CLOCK_MONOTONIC. */
GSP_MUST_CHECK int gsp_memlog_writer_tick(struct gsp_memlog_writer *writer, uint32_t index,
                                          int64_t now_ns, const struct gsp_memlog_table *table,
                                          const int64_t totals[GSP_MEMTOTALS], struct gsp_err *err);
/* Records that the process has ended or has been replaced by another. */
void gsp_memlog_writer_end_process(struct gsp_memlog_writer *writer, uint32_t index,
                                   int64_t now_ns);
/* Writes the records of the last calls as one block. If the disk is full, the file stays unchanged.
 * Fails with IO, LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_memlog_writer_flush(struct gsp_memlog_writer *writer, struct gsp_err *err);
/* Writes the last block and marks the recording as complete. */
GSP_MUST_CHECK int gsp_memlog_writer_end(struct gsp_memlog_writer *writer, struct gsp_err *err);

/* Returns how long the next tick should wait to stay within the budget; 0: any time. */
int64_t gsp_memlog_writer_pause_ns(const struct gsp_memlog_writer *writer, int64_t now_ns);
uint64_t gsp_memlog_writer_bytes(const struct gsp_memlog_writer *writer); /* size of the file */
