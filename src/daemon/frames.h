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
 *                                 frame id, ts_ns, mono_ns, text offset, running sums' validity,
 *                                 a double a metric
 *   frames/<first frame id>.text  one frame a line, frame_id in a field of fixed width
 * A segment ends when the metrics change (a GPU or a watched process came or went), or by size.
 * A frame is there when its row of numbers is whole; a torn end is cut off when the log is
 * opened again.  Segments that no session needs are removed beyond a limit in bytes.
 *
 * Used by: daemon/.
 * Threads: one writer; readers at any time (they read the files).
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

struct gsp_frames_options {
    const char *folder;     /* the state folder; made when it is not there */
    uint64_t segment_bytes; /* 0: 64 MB */
    uint64_t keep_bytes;    /* of segments no session needs; 0: 1 GB */
    const char *host;
};

GSP_MUST_CHECK int gsp_frames_open(const struct gsp_frames_options *options,
                                   struct gsp_frames **out, struct gsp_err *err);
void gsp_frames_close(struct gsp_frames *frames); /* NULL does nothing */

/* One tick: begin, rows through the sink, end.  end writes the frame; on failure (disk full) the
 * frame is lost and counted, and the log goes on when there is space again. */
void gsp_frames_begin(struct gsp_frames *frames, const struct gsp_tick *tick);
struct gsp_sink *gsp_frames_sink(struct gsp_frames *frames);
GSP_MUST_CHECK int gsp_frames_end(struct gsp_frames *frames, struct gsp_err *err);

uint64_t gsp_frames_next_id(const struct gsp_frames *frames); /* the first is 1; never used twice */
/* The newest frame's JSON object, appended; and its id (0: none yet). */
uint64_t gsp_frames_latest(struct gsp_frames *frames, struct gsp_buf *out);

/* Frames from this id on are needed (0: none): older segments may go. */
void gsp_frames_keep_from(struct gsp_frames *frames, uint64_t frame_id);

struct gsp_frames_gap {
    uint64_t after_id; /* the frame before the gap */
    int64_t from_ns;   /* its time */
    int64_t to_ns;     /* the next one's */
};

/* Statistics of frames [first, last], exact. */
struct gsp_metric_stats {
    const char *name;   /* "system.cpu.util_percent" */
    const char *device; /* "" for the machine */
    const char *unit;
    uint64_t count; /* frames with a value */
    double mean, std, min, max, p50, p95, p99;
    double integral; /* of the value over time, unit times seconds; NaN where it has no meaning */
};

struct gsp_frames_stats {
    struct gsp_metric_stats *metrics;
    size_t count;
    struct gsp_frames_gap *gaps; /* longer than three periods */
    size_t gap_count;
    uint64_t frames; /* in the range */
};
GSP_MUST_CHECK int gsp_frames_stats(struct gsp_frames *frames, uint64_t first, uint64_t last,
                                    struct gsp_frames_stats *out, struct gsp_err *err);
void gsp_frames_stats_free(struct gsp_frames_stats *stats);

/* Copies the text of frames [first, last] to a descriptor, numbered from 1, separated by commas:
 * the inside of a JSON array.  Flat memory, gigabytes a second. */
GSP_MUST_CHECK int gsp_frames_copy(struct gsp_frames *frames, uint64_t first, uint64_t last, int fd,
                                   uint64_t *copied, struct gsp_err *err);
