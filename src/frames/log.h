/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h -- the frame log: metric frames in files, numbered from 1.
 *
 * A metric frame holds the values of all sources at one tick. The log stores it twice: as text, the
 * JSON object of session files and /metrics/latest; and as numbers, one double per metric, for
 * statistics. A session is a range of frame ids. Its file copies a range of the text, and its
 * statistics read a range of the numbers.
 *
 * Files in the state folder:
 *   frames/<first frame id>.num   a header with the metrics (name, device, unit), then rows of
 * fixed size: frame id, ts_ns, mono_ns, end of the text, checksum, and one double per metric
 *   frames/<first frame id>.text  one frame per line, frame_id in a field of fixed width
 * The two files are a segment. A new segment starts for a new metric (a GPU or a watched process
 * appeared) and at a size limit. A frame exists once its row of numbers is complete; opening the
 * log cuts off an incomplete end. Segments that no session needs are removed beyond a size limit.
 *
 * Threads: one writer (announce, begin, sink, end, set_period); all other functions from any
 * thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "collect/collect.h"

struct gsp_frame_log; /* opaque */

/* The name of a GPU if the driver does not provide one. */
#define GSP_GPU_UNNAMED "GPU"

struct gsp_frame_log_options {
    const char *folder;     /* the state folder; created if it does not exist */
    uint64_t segment_bytes; /* 0: 64 MB */
    uint64_t keep_bytes;    /* of segments that no session needs; 0: 1 GB */
    const char *host;
};

GSP_MUST_CHECK int gsp_frames_log_open(const struct gsp_frame_log_options *options,
                                       struct gsp_frame_log **out, struct gsp_err *err);
void gsp_frames_log_close(struct gsp_frame_log *frames); /* NULL does nothing */

/* One tick: announce, begin, rows through the sink, end. end writes the frame. If that fails (disk
 * full), the frame is lost and counted, and the next one is tried again. */
/* Call this before reading the clock for the tick. gsp_frames_log_next_announced_id() then returns
 * the id after this frame. */
void gsp_frames_log_announce(struct gsp_frame_log *frames);
void gsp_frames_log_begin(struct gsp_frame_log *frames, const struct gsp_collect_tick *tick);
struct gsp_collect_sink *gsp_frames_log_sink(struct gsp_frame_log *frames);
GSP_MUST_CHECK int gsp_frames_log_end(struct gsp_frame_log *frames, struct gsp_err *err);

/* Sets the time between two ticks, which defines what a gap is. Without it, the distance of the two
 * previous frames counts. */
void gsp_frames_log_set_period(struct gsp_frame_log *frames, int64_t period_ns);

/* The period that was set last; 0: none. */
int64_t gsp_frames_log_period(const struct gsp_frame_log *frames);

/* The id of the next frame that is written. Ids start at 1 and are never reused. */
uint64_t gsp_frames_log_next_id(struct gsp_frame_log *frames);
/* The id of the next frame that is announced. A frame that is being made does not count, because
 * its time has passed. */
uint64_t gsp_frames_log_next_announced_id(struct gsp_frame_log *frames);
/* Makes sure that no new frame has a smaller id. The journal may contain ids of frames that were
 * lost in a power cut. */
void gsp_frames_log_skip_to(struct gsp_frame_log *frames, uint64_t next_id);
/* The number of existing frames in [first, last]. */
uint64_t gsp_frames_log_count(struct gsp_frame_log *frames, uint64_t first, uint64_t last);
/* About how many bytes of text these frames have. */
uint64_t gsp_frames_log_text_bytes(struct gsp_frame_log *frames, uint64_t first, uint64_t last);
/* The time between two frames on the monotonic clock. Returns 0 if it is not known, because a frame
 * does not exist or the machine was rebooted in between. */
int64_t gsp_frames__log_elapsed_ns(struct gsp_frame_log *frames, uint64_t first, uint64_t last);
/* Appends the JSON object of the newest frame. Returns its id; 0: none yet. */
uint64_t gsp_frames_log_latest(struct gsp_frame_log *frames, struct gsp_buf *out);

/* Keeps the frames from this id on (0: none). Older segments may be removed. */
void gsp_frames_log_keep_from(struct gsp_frame_log *frames, uint64_t frame_id);

/* The frames of a segment. Another process can read them from its files while more are written
 * (source/metric_frames.h). */
struct gsp_frame_log_range {
    uint64_t first_id;
    uint64_t count;
};
/* Returns all segments in order. The caller frees *out. */
GSP_MUST_CHECK int gsp_frames_log_ranges(struct gsp_frame_log *frames,
                                         struct gsp_frame_log_range **out, size_t *count,
                                         struct gsp_err *err);

/* Syncs all frames to disk. Without it they survive a kill of the daemon, but not a power cut. */
GSP_MUST_CHECK int gsp_frames_log_sync(struct gsp_frame_log *frames, struct gsp_err *err);

struct gsp_frame_log_status {
    uint64_t frames_lost; /* not written, since the log was opened */
    uint64_t values_lost; /* metrics and names beyond the limits */
    uint64_t bytes;       /* on disk */
    size_t segments;
    char error[240]; /* why the newest frame is lost; "": it is not */
};
void gsp_frames_log_status(struct gsp_frame_log *frames, struct gsp_frame_log_status *out);

struct gsp_frame_log_gap {
    uint64_t after_id;    /* the frame before the gap */
    uint64_t after_count; /* its number in the range, from 1 */
    int64_t from_ns;      /* its time */
    int64_t to_ns;        /* time of the next frame */
    uint64_t lost;        /* frames that were not written */
    const char *cause;    /* "late", "lost", "restart" (of the daemon), "reboot"; a constant */
};

/* Exact statistics of one metric over a range of frames. */
struct gsp_metric_stats {
    const char *name;   /* "system.cpu.util_percent" */
    const char *device; /* "" for the machine */
    const char *label;  /* a GPU's "host:index:name"; else "" */
    const char *unit;
    const char *integral_unit; /* "" if integral is NaN */
    uint64_t count;            /* frames with a value */
    double mean, std, min, max, p50, p95, p99;
    /* Of a rate: the integral over monotonic time without gaps. Of an amount since the previous
     * frame: the sum. NaN for other metrics. */
    double integral;
    double integral_s; /* seconds that the integral covers */
};

struct gsp_frame_log_stats {
    struct gsp_metric_stats *metrics;
    size_t count;
    struct gsp_frame_log_gap *gaps; /* longer than three periods; the first GSP_FRAME_GAPS_MAX */
    size_t gap_count;
    uint64_t gaps_total;
    uint64_t frames;      /* in the range */
    uint64_t lost;        /* in the range, not written */
    uint64_t damaged;     /* rows with an invalid frame id */
    uint64_t clock_steps; /* how often the wall clock went back */
    int64_t first_ns;     /* CLOCK_REALTIME of the first and last frame; 0: none */
    int64_t last_ns;
    int64_t period_ns; /* of the last frame; 0: not known */
    void *memory;      /* of the texts */
};
#define GSP_FRAME_GAPS_MAX 1000U

GSP_MUST_CHECK int gsp_frames__log_stats(struct gsp_frame_log *frames, uint64_t first,
                                         uint64_t last, struct gsp_frame_log_stats *out,
                                         struct gsp_err *err);
void gsp_frames__log_stats_free(struct gsp_frame_log_stats *stats);

/* Copies the text of frames [first, last] to a descriptor: the elements of a JSON array, separated
 * by commas and numbered from 1. Memory does not depend on the number of frames. */
GSP_MUST_CHECK int gsp_frames__log_copy(struct gsp_frame_log *frames, uint64_t first, uint64_t last,
                                        int fd, uint64_t *copied, struct gsp_err *err);
