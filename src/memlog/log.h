/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h -- a recording of memory (.gspm): who allocated how much, tick by tick.
 *
 * Reads:   files that `gsprof mem record` writes, also such that end in the middle: all up to the
 *          last whole block.
 * Gives:   strings, frames, stacks, threads and processes as a profile (model/profile.h) to which
 *          a view adds its sums; sites; ticks with their totals; counts at any tick by replay.
 * Used by: view.h, cli/ (mem report, query).
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

/* Bytes of a file that is read. */
#define GSP_MEMLOG_FILE_MAX      ((size_t)1 << 29)
#define GSP_MEMLOG_SITES_MAX     (1U << 22)
#define GSP_MEMLOG_TICKS_MAX     (1U << 22)
#define GSP_MEMLOG_UNKNOWN       INT64_MIN

#define GSP_MEMLOG_SETTING_BYTES 16U

/* What is known of a process at a tick: bytes where nothing else is said. */
enum gsp_memtotal {
    GSP_MEMTOTAL_RSS,
    GSP_MEMTOTAL_LIVE,   /* all that follows up to Python, as the engine counts it */
    GSP_MEMTOTAL_MALLOC, /* of the C library, and operator new */
    GSP_MEMTOTAL_MMAP,   /* anonymous mappings */
    GSP_MEMTOTAL_PYTHON, /* of the interpreter's allocators */
    GSP_MEMTOTAL_DEVICE, /* of the GPU's caching allocator */
    GSP_MEMTOTAL_DEVICE_RESERVED,
    GSP_MEMTOTAL_PEAK,    /* the most that LIVE was */
    GSP_MEMTOTAL_PEAK_NS, /* when; since the recording began */
    GSP_MEMTOTAL_STEP,    /* the training step */
    GSP_MEMTOTAL_LOST,    /* allocations that are not, or not rightly, accounted for */
    GSP_MEMTOTAL_HUGE,    /* of RSS, in huge pages; as of the last time when that was asked */
    GSP_MEMTOTALS
};

/* "rss_bytes", "live_bytes", ...: the columns of a timeline; NULL past the last. */
const char *gsp_memtotal_name(size_t i);

struct gsp_memlog_site {
    uint32_t process; /* indexes in the profile */
    uint32_t thread;
    uint32_t stack;
    uint32_t allocator;
};

/* A process as long as its counters were the same ones: one that becomes another program, or whose
 * engine is started anew, is two. */
struct gsp_memlog_process {
    enum gsp_memory_mode mode;
    uint64_t interval_bytes; /* 0: exact */
    int64_t last_ns;         /* of its last tick */
    bool leaving;            /* its interpreter is ending */
    bool gone;               /* it has ended */
};

struct gsp_memlog_tick {
    int64_t time_ns; /* since the recording began */
    uint32_t process;
    bool is_gone;  /* the process has ended: it holds nothing any more */
    bool is_final; /* of its last looks: what an interpreter frees on its way out is in it */
    uint32_t change_count;
    size_t changes; /* where they are among the file's bytes */
    size_t changes_end;
    int64_t total[GSP_MEMTOTALS]; /* GSP_MEMLOG_UNKNOWN */
};

struct gsp_memlog_meta {
    int64_t start_ns;                            /* CLOCK_REALTIME */
    int64_t duration_ns;                         /* up to the last tick */
    bool truncated;                              /* the end is missing */
    uint64_t lost_bytes;                         /* of the file, that could not be read */
    char huge_setting[GSP_MEMLOG_SETTING_BYTES]; /* "always", "madvise"; "": not known */
};

struct gsp_memlog; /* opaque */

/* Fails with NOFILE, PERM, FORMAT (no such file, or one that nobody of ours wrote), LIMIT, NOMEM.
 */
GSP_MUST_CHECK int gsp_memlog_open(const char *path, struct gsp_memlog **out, struct gsp_err *err);
/* The same of bytes, which are borrowed until gsp_memlog_close(). */
GSP_MUST_CHECK int gsp_memlog_parse(struct gsp_sv bytes, struct gsp_memlog **out,
                                    struct gsp_err *err);
void gsp_memlog_close(struct gsp_memlog *log); /* NULL does nothing */
/* Whether these first bytes of a file are a recording's. */
bool gsp_memlog_looks(struct gsp_sv head);

const struct gsp_memlog_meta *gsp_memlog_meta(const struct gsp_memlog *log);
/* Lent; a view adds sums to it. */
struct gsp_profile *gsp_memlog_profile(const struct gsp_memlog *log);
size_t gsp_memlog_site_count(const struct gsp_memlog *log);
const struct gsp_memlog_site *gsp_memlog_site(const struct gsp_memlog *log, size_t i);
const struct gsp_memlog_process *gsp_memlog_process(const struct gsp_memlog *log, size_t i);
/* The last moment at which all ran that ran to the end: before the first of them was on its way
 * out.  That of the last look when no process has ended. */
int64_t gsp_memlog_end_ns(const struct gsp_memlog *log);
size_t gsp_memlog_tick_count(const struct gsp_memlog *log);
const struct gsp_memlog_tick *gsp_memlog_tick(const struct gsp_memlog *log, size_t i);

/* The counts of all sites, tick after tick. */
struct gsp_memreplay {
    const struct gsp_memlog *log;
    size_t next;                 /* tick */
    struct gsp_memcount *counts; /* by site */
    uint32_t *changed;           /* sites that the last tick changed, ascending */
    struct gsp_memcount *before; /* what they had before it, in the same order */
    size_t changed_count;
    size_t changed_cap;
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memreplay_begin(struct gsp_memreplay *replay, const struct gsp_memlog *log,
                                       struct gsp_err *err);
/* Goes one tick on; lends it, NULL after the last, or without memory (then replay->next is not at
 * the end). */
const struct gsp_memlog_tick *gsp_memreplay_next(struct gsp_memreplay *replay);
void gsp_memreplay_end(struct gsp_memreplay *replay);
