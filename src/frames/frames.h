/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.h -- the one stream of frames: what all sources told at one tick, numbered, on disk.
 *
 * A frame is kept twice: as text, the JSON object that session files and /metrics/latest show,
 * made once; and as numbers, one double for each metric, for statistics.  A session is a first
 * and a last frame number, so its file is a copy of a stretch of the text, and its statistics
 * are a pass over a stretch of the numbers.
 *
 * On disk, in the state folder:
 *   frames/<first frame id>.num   header with the metrics (name, device, unit), then fixed rows:
 *                                 frame id, ts_ns, mono_ns, end of its text, a check sum,
 *                                 a double a metric
 *   frames/<first frame id>.text  one frame a line, frame_id in a field of fixed width
 * A segment ends when there is a new metric (a GPU or a watched process came), or by size.
 * A frame is there when its row of numbers is whole; a torn end is cut off when the log is
 * opened again.  Segments that no session needs are removed beyond a limit in bytes.
 *
 * Used by: daemon/.
 * Threads: one writer (begin, sink, end, set_period); everything else from any thread at any time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "collect/collect.h"

struct gsp_frames; /* opaque */

/* In the place of a GPU's name, where the driver does not tell it. */
#define GSP_GPU_UNNAMED "GPU"

struct gsp_frames_options {
    const char *folder;     /* the state folder; made when it is not there */
    uint64_t segment_bytes; /* 0: 64 MB */
    uint64_t keep_bytes;    /* of segments no session needs; 0: 1 GB */
    const char *host;
};

GSP_MUST_CHECK int gsp_frames_open(const struct gsp_frames_options *options,
                                   struct gsp_frames **out, struct gsp_err *err);
void gsp_frames_close(struct gsp_frames *frames); /* NULL does nothing */

/* One tick: announce, begin, rows through the sink, end.  end writes the frame; on failure (disk
 * full) the frame is lost and counted, and the log goes on when there is space again. */
/* Before the time of the tick is taken: gsp_frames_coming_id() is that of the frame behind it. */
void gsp_frames_announce(struct gsp_frames *frames);
void gsp_frames_begin(struct gsp_frames *frames, const struct gsp_collect_tick *tick);
struct gsp_collect_sink *gsp_frames_sink(struct gsp_frames *frames);
GSP_MUST_CHECK int gsp_frames_end(struct gsp_frames *frames, struct gsp_err *err);

/* What lies between two ticks from now on; by it gaps are known.  Without it, what lay between the
 * two frames before. */
void gsp_frames_set_period(struct gsp_frames *frames, int64_t period_ns);

/* What was set last; 0: nothing. */
int64_t gsp_frames_period(const struct gsp_frames *frames);

uint64_t gsp_frames_next_id(struct gsp_frames *frames); /* the first is 1; never used twice */
/* The same of the next one that is announced: one that is being made is of an earlier moment. */
uint64_t gsp_frames_coming_id(struct gsp_frames *frames);
/* No frame from now on has a smaller id: the journal knows ids that a power cut took away. */
void gsp_frames_advance(struct gsp_frames *frames, uint64_t next_id);
/* How many frames of [first, last] there are. */
uint64_t gsp_frames_count(struct gsp_frames *frames, uint64_t first, uint64_t last);
/* Time from one frame to another, whatever the wall clock did meanwhile; 0: not known, for one is
 * not there or the machine was started between them. */
int64_t gsp_frames_elapsed_ns(struct gsp_frames *frames, uint64_t first, uint64_t last);
/* The newest frame's JSON object, appended; and its id (0: none yet). */
uint64_t gsp_frames_latest(struct gsp_frames *frames, struct gsp_buf *out);

/* Frames from this id on are needed (0: none): older segments may go. */
void gsp_frames_keep_from(struct gsp_frames *frames, uint64_t frame_id);

/* A segment as it is now: what lies in it can be read from its file, also by another process and
 * while more is written (frames_rows.h). */
struct gsp_frames_stretch {
    uint64_t first_id;
    uint64_t count;
};
/* All there are, in order; the caller frees *out. */
GSP_MUST_CHECK int gsp_frames_stretches(struct gsp_frames *frames, struct gsp_frames_stretch **out,
                                        size_t *count, struct gsp_err *err);

/* Frames become safe from a power cut; without it they are safe from a killed daemon. */
GSP_MUST_CHECK int gsp_frames_sync(struct gsp_frames *frames, struct gsp_err *err);

struct gsp_frames_status {
    uint64_t frames_lost; /* could not be written, since the log was opened */
    uint64_t values_lost; /* metrics or names beyond the limits */
    uint64_t bytes;       /* on disk */
    size_t segments;
    char error[240]; /* why the newest frame is lost; "" when it is not */
};
void gsp_frames_status(struct gsp_frames *frames, struct gsp_frames_status *out);

struct gsp_frames_gap {
    uint64_t after_id;    /* the frame before the gap */
    uint64_t after_count; /* its place in the range, from 1 */
    int64_t from_ns;      /* its time */
    int64_t to_ns;        /* the next one's */
    uint64_t lost;        /* frames that could not be written */
    const char *cause;    /* "late", "lost", "restart" (of the daemon), "reboot"; a constant */
};

/* Statistics of frames [first, last], exact. */
struct gsp_metric_stats {
    const char *name;   /* "system.cpu.util_percent" */
    const char *device; /* "" for the machine */
    const char *label;  /* a GPU's "host:index:name"; else "" */
    const char *unit;
    const char *integral_unit; /* "" where integral is NaN */
    uint64_t count;            /* frames with a value */
    double mean, std, min, max, p50, p95, p99;
    /* Of rates over monotonic time, gaps left out; of amounts since the frame before, their sum;
     * NaN where it has no meaning. */
    double integral;
    double integral_s; /* seconds that integral covers */
};

struct gsp_frames_stats {
    struct gsp_metric_stats *metrics;
    size_t count;
    struct gsp_frames_gap *gaps; /* longer than three periods; the first GSP_FRAMES_GAPS_MAX */
    size_t gap_count;
    uint64_t gaps_total;
    uint64_t frames;      /* in the range */
    uint64_t lost;        /* could not be written, within the range */
    uint64_t damaged;     /* rows that are not what was written */
    uint64_t clock_steps; /* times that the wall clock went back */
    int64_t first_ns;     /* CLOCK_REALTIME of the first and last frame; 0: none */
    int64_t last_ns;
    int64_t period_ns; /* of the last frame; 0: not known */
    void *memory;      /* what the texts live in */
};
#define GSP_FRAMES_GAPS_MAX 1000U

GSP_MUST_CHECK int gsp_frames_stats(struct gsp_frames *frames, uint64_t first, uint64_t last,
                                    struct gsp_frames_stats *out, struct gsp_err *err);
void gsp_frames_stats_free(struct gsp_frames_stats *stats);

/* Copies the text of frames [first, last] to a descriptor, numbered from 1, separated by commas:
 * the inside of a JSON array.  Flat memory, gigabytes a second. */
GSP_MUST_CHECK int gsp_frames_copy(struct gsp_frames *frames, uint64_t first, uint64_t last, int fd,
                                   uint64_t *copied, struct gsp_err *err);
