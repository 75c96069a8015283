/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_poll.h -- polls the allocation counters of a process and its descendants.
 *
 * A process is added once its counters exist. After it has exited its counters are read one last
 * time: they outlive it.
 *
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

struct gsp_memory_poll_process {
    pid_t pid;
    uint64_t start_time;
    int folder_fd;
    struct gsp_memlog_table *table; /* NULL: no counters at the moment */
    uint32_t index;                 /* in the recording */
    bool over;                      /* exited and read for the last time */
    bool is_fresh;                  /* its counters were found in this pass */
    int64_t huge_bytes;             /* in huge pages, when last read */
    int64_t huge_rss_bytes;         /* resident at that time; 0: not read yet */
};

struct gsp_memory_poll {
    pid_t pid;
    bool subprocesses;
    bool claims;                      /* allow only one recorder per process */
    bool reads_huge;                  /* read the bytes in huge pages from time to time */
    bool is_last;                     /* this is the last pass */
    struct gsp_memlog_writer *writer; /* borrowed; NULL: nothing is written */
    struct gsp_memory_poll_process *at;
    size_t count;
    size_t capacity;
    size_t live;        /* processes read in the last pass */
    size_t taken;       /* processes whose counters were found at all */
    bool is_claimed;    /* another recorder holds one of the processes */
    struct gsp_err err; /* why the last process with counters could not be read */
};

/* Reads the counters of all processes once. Fails like the writer. */
GSP_MUST_CHECK int gsp_record_memory_poll_read(struct gsp_memory_poll *poll, int64_t now_ns,
                                               struct gsp_err *err);
void gsp_record_memory_poll_free(struct gsp_memory_poll *poll); /* {0} does nothing */

/* Returns the resident bytes of a process, or GSP_MEMLOG_UNKNOWN. */
int64_t gsp_record_process_rss(pid_t pid);
