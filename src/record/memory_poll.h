/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_take.h -- the counters of memory of a process and its children, looked at again and again.
 *
 * A process is taken up when its counters are there, and let go when it has ended, after one last
 * look: its counters outlive it.
 *
 * Used by: cli/ (mem record, top --mem).
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "memlog/table.h"
#include "memlog/writer.h"

struct gsp_memtake_process {
    pid_t pid;
    uint64_t start_time;
    int folder_fd;
    struct gsp_memlog_table *table; /* NULL: has none at present */
    uint32_t index;                 /* in the recording */
    bool over;                      /* looked at for the last time */
    bool is_fresh;                  /* taken up in this round */
    int64_t huge_bytes;             /* in huge pages, when that was asked last */
    int64_t huge_rss_bytes;         /* resident then; 0: was not asked yet */
};

struct gsp_memtake {
    pid_t pid;
    bool subprocesses;
    bool claims;                      /* each process has one recorder */
    bool asks_huge;                   /* how much is in huge pages, now and then */
    bool is_last;                     /* no round comes after this one */
    struct gsp_memlog_writer *writer; /* borrowed; NULL: nothing is written */
    struct gsp_memtake_process *at;
    size_t count;
    size_t live;        /* processes that were looked at in the last round */
    size_t taken;       /* processes whose counters were seen at all */
    bool is_claimed;    /* another recorder has one of them */
    struct gsp_err err; /* why the last process that has counters could not be looked at */
};

/* One look at all of them.  Fails with what the writer fails with. */
GSP_MUST_CHECK int gsp_memtake_round(struct gsp_memtake *take, int64_t now_ns, struct gsp_err *err);
void gsp_memtake_free(struct gsp_memtake *take); /* {0} does nothing */

/* Resident bytes of a process; GSP_MEMLOG_UNKNOWN. */
int64_t gsp_memtake_rss(pid_t pid);
