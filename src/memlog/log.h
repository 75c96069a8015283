/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h -- reads a memory recording (.gspm): the allocation counters of processes over time.
 *
 * A tick is one snapshot of the counters of one process.
 *
 * Reads:   files that `gsprof mem record` writes. Of a truncated file, everything up to the last
 *          complete block.
 * Gives:   strings, frames, stacks, threads and processes as a profile (model/profile.h), to which
 *          a view adds its totals; sites; ticks with their totals; counts at any tick by replay.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "memlog/table.h"
#include "model/profile.h"
#include "wire/memory.h"

/* Largest file that is read. */
#define GSP_MEMLOG_FILE_MAX      ((size_t)1 << 29)
#define GSP_MEMLOG_SITES_MAX     (1U << 22)
#define GSP_MEMLOG_TICKS_MAX     (1U << 22)
#define GSP_MEMLOG_UNKNOWN       INT64_MIN

#define GSP_MEMLOG_SETTING_BYTES 16U

/* The totals of a process at a tick, in bytes unless noted. */
enum gsp_memlog_total {
    GSP_MEMTOTAL_RSS,
    GSP_MEMTOTAL_LIVE,   /* sum of MALLOC, MMAP and PYTHON */
    GSP_MEMTOTAL_MALLOC, /* malloc and its family, operator new */
    GSP_MEMTOTAL_MMAP,   /* anonymous mappings */
    GSP_MEMTOTAL_PYTHON, /* the interpreter's allocators */
    GSP_MEMTOTAL_DEVICE, /* the GPU's caching allocator */
    GSP_MEMTOTAL_DEVICE_RESERVED,
    GSP_MEMTOTAL_PEAK,    /* maximum of LIVE */
    GSP_MEMTOTAL_PEAK_NS, /* its time, ns since the start of the recording */
    GSP_MEMTOTAL_STEP,    /* training step, a number */
    GSP_MEMTOTAL_LOST,    /* number of allocations that were lost or counted incompletely */
    GSP_MEMTOTAL_HUGE,    /* part of RSS in huge pages, when last read */
    GSP_MEMTOTALS
};

/* "rss_bytes", "live_bytes", ...: the columns of a timeline; NULL past the last. */
const char *gsp_memlog_total_name(size_t i);

struct gsp_memlog_site {
    uint32_t process; /* indexes in the profile */
    uint32_t thread;
    uint32_t stack;
    uint32_t allocator;
};

/* A process with one set of counters. A process that calls exec, or whose engine restarts, counts
 * as a new one. */
struct gsp_memlog_process {
    enum gsp_memory_mode mode;
    uint64_t interval_bytes; /* 0: exact */
    int64_t last_ns;         /* of its last tick */
    bool leaving;            /* its interpreter is shutting down */
    bool gone;               /* it has ended */
};

struct gsp_memlog_tick {
    int64_t time_ns; /* since the start of the recording */
    uint32_t process;
    bool is_gone;  /* the process has ended and holds no memory */
    bool is_final; /* taken while the interpreter was shutting down */
    uint32_t change_count;
    size_t changes; /* offset of the changes in the file */
    size_t changes_end;
    int64_t total[GSP_MEMTOTALS]; /* GSP_MEMLOG_UNKNOWN */
};

struct gsp_memlog_meta {
    int64_t start_ns;                            /* CLOCK_REALTIME */
    int64_t duration_ns;                         /* up to the last tick */
    bool truncated;                              /* the end is missing */
    uint64_t lost_bytes;                         /* bytes of the file that could not be read */
    char huge_setting[GSP_MEMLOG_SETTING_BYTES]; /* "always", "madvise"; "": unknown */
};

struct gsp_memlog; /* opaque */

/* Fails with NOFILE, PERM, FORMAT (not a memory recording, or malformed), VERSION, LIMIT, NOMEM or
 * IO. */
GSP_MUST_CHECK int gsp_memlog_open(const char *path, struct gsp_memlog **out, struct gsp_err *err);
/* The same for bytes in memory, which are borrowed until gsp_memlog_close(). */
GSP_MUST_CHECK int gsp_memlog__parse(struct gsp_sv bytes, struct gsp_memlog **out,
                                     struct gsp_err *err);
void gsp_memlog_close(struct gsp_memlog *log); /* NULL does nothing */
/* Whether a file that starts with these bytes is a memory recording. */
bool gsp_memlog_is_recording(struct gsp_sv head);

const struct gsp_memlog_meta *gsp_memlog_meta(const struct gsp_memlog *log);
/* Borrowed; a view adds totals to it. */
struct gsp_profile *gsp_memlog_profile(const struct gsp_memlog *log);
size_t gsp_memlog_site_count(const struct gsp_memlog *log);
const struct gsp_memlog_site *gsp_memlog_site(const struct gsp_memlog *log, size_t i);
const struct gsp_memlog_process *gsp_memlog_process(const struct gsp_memlog *log, size_t i);
/* Returns the time of the last tick before any process that ran until the end started to shut down.
 * If no process has ended, it is the time of the last tick. */
int64_t gsp_memlog_end_ns(const struct gsp_memlog *log);
size_t gsp_memlog_tick_count(const struct gsp_memlog *log);
const struct gsp_memlog_tick *gsp_memlog_tick(const struct gsp_memlog *log, size_t i);

/* Computes the counts of all sites, tick by tick. */
struct gsp_memlog_replay {
    const struct gsp_memlog *log;
    size_t next;                     /* tick */
    struct gsp_memlog_count *counts; /* by site */
    uint32_t *changed;               /* sites that the last tick changed, ascending */
    struct gsp_memlog_count *before; /* their counts before it, in the same order */
    size_t changed_count;
    size_t changed_cap;
    size_t before_cap;
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memlog_replay_begin(struct gsp_memlog_replay *replay,
                                           const struct gsp_memlog *log, struct gsp_err *err);
/* Advances by one tick and returns it, borrowed. Returns NULL after the last tick, or if memory
 * runs out (then replay->next is not at the end). */
const struct gsp_memlog_tick *gsp_memlog_replay_next(struct gsp_memlog_replay *replay);
void gsp_memlog_replay_end(struct gsp_memlog_replay *replay);
