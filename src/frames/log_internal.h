/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_internal.h -- the state of the frame log: segments on disk, the metrics of the current
 * segment, the rows of the current tick.
 *
 * Threads: see frames.h.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/lock.h"
#include "base/map.h"
#include "frames/log.h"
#include "frames/log_segment.h"

#define FRAMES_METRICS_MAX  16384U
#define FRAMES_STRINGS_MAX  65536U
#define FRAMES_HEADER_MAX   (16U << 20)
#define FRAMES_TEXT_MAX     (8U << 20) /* bytes of one frame */
#define FRAMES_GPUS_MAX     256U
/* The start of a line. The id follows, right-aligned in FRAMES_ID_WIDTH bytes. */
#define FRAMES_LINE_BEGIN   "{\"frame_id\":"
#define FRAMES_ID_WIDTH     12U
/* The end of a line, which also separates the elements of an array. */
#define FRAMES_LINE_END     ",\n"
#define FRAMES_LINE_END_LEN 2U

/* One segment. */
struct frames_segment {
    uint64_t first_id;
    uint64_t rows;
    uint64_t text_bytes;
    uint32_t header_bytes;
    uint32_t row_bytes;
    bool synced;
};

/* The metrics of the current segment, and the metric of each column of a row. */
struct frames_catalog {
    struct frames_metric *metrics; /* name, device, label: owned */
    double *values;                /* of this frame; gsp_null_f64() if missing */
    int32_t *columns;              /* groups of indexes into metrics; -1: none yet */
    struct gsp_hmap groups;        /* (table and generation, key) -> start in columns */
    size_t count;
    size_t cap;       /* of metrics */
    size_t value_cap; /* of values */
    size_t column_count;
    size_t column_cap;
    uint64_t refused; /* beyond FRAMES_METRICS_MAX */
    bool grown;       /* a metric was added since the segment started */
};

struct frames_strings {
    char **texts; /* escaped for JSON, with quotes */
    char **plain;
    size_t count; /* ids are 1..count */
    size_t cap;
    size_t plain_cap;
    uint64_t refused;
    struct gsp_hmap ids;
};

struct frames_gpu {
    int64_t index;
    uint32_t name; /* string id */
};

struct gsp_frame_log {
    struct gsp_collect_sink sink; /* first, because it is cast back */
    uint64_t segment_bytes;
    uint64_t keep_bytes;
    char *host;
    int folder_fd;
    int num_fd; /* of the newest segment while it is written; otherwise -1 */
    int text_fd;
    uint64_t run;
    unsigned char boot[FRAMES_BOOT_BYTES];

    /* Only the writer uses these. */
    struct gsp_collect_tick tick;
    struct gsp_buf rows[GSP_TABLE_COUNT];
    struct frames_strings strings;
    struct frames_catalog catalog;
    struct frames_gpu gpus[FRAMES_GPUS_MAX];
    size_t gpu_count;
    uint32_t gpu_generation;   /* grows if the name of a GPU changes */
    uint32_t lost_pending;     /* lost frames since the newest frame */
    _Atomic int64_t period_ns; /* any thread may read it */
    int64_t time_s;            /* the second of time_text */
    char time_text[40];
    struct gsp_buf line;
    struct gsp_buf row;

    /* Only the writer changes segments, next_id and latest; it may read them without the lock. */
    struct gsp_lock lock;
    struct frames_segment *segments GSP_GUARDED_BY(lock); /* in order */
    size_t segment_count GSP_GUARDED_BY(lock);
    size_t segment_cap GSP_GUARDED_BY(lock);
    uint64_t next_id GSP_GUARDED_BY(lock);
    bool is_making GSP_GUARDED_BY(lock); /* the frame with that id was announced */
    uint64_t keep_from GSP_GUARDED_BY(lock);
    uint64_t lost GSP_GUARDED_BY(lock);
    uint64_t values_lost GSP_GUARDED_BY(lock);
    struct gsp_buf latest GSP_GUARDED_BY(lock);
    uint64_t latest_id GSP_GUARDED_BY(lock);
    char error[240] GSP_GUARDED_BY(lock);
};

/* catalog.c */
void gsp_frames__metrics_free(struct frames_catalog *catalog);
/* Clears the values of the previous frame. */
void gsp_frames__metrics_clear(struct frames_catalog *catalog);
/* Removes the metrics that have had no value since the given frame. */
void gsp_frames__metrics_prune(struct frames_catalog *catalog, uint64_t since_id);
/* Sets the values from all rows of the tick, adds new metrics, and rounds the numbers in the rows
 * to what the text shows. */
void gsp_frames__numbers_set(struct gsp_frame_log *frames);
/* 100 * part / whole, rounded; gsp_null_f64() if either is not known. */
double gsp_frames__percent(int64_t part, int64_t whole);
double gsp_frames__round(double v);
/* The highest utilization of a disk in this tick. */
double gsp_frames__disk_busiest(const struct gsp_frame_log *frames);
/* Appends "host:index:name". */
void gsp_frames__gpu_id(const struct gsp_frame_log *frames, int64_t gpu, struct gsp_buf *out);

/* text.c */
/* Writes the line of the frame to frames->line. */
void gsp_frames__text_write(struct gsp_frame_log *frames, uint64_t frame_id);
void gsp_frames__strings_free(struct frames_strings *strings);
uint32_t gsp_frames__string_intern(struct frames_strings *strings, struct gsp_sv text);
/* Writes the number right-aligned to FRAMES_ID_WIDTH bytes. */
void gsp_frames__put_id(char *out, uint64_t id);

/* segment.c */
/* Parses the header at the start of bytes, and copies it. Fails with FORMAT, NOMEM. */
GSP_MUST_CHECK int gsp_frames__head_parse(struct gsp_sv bytes, struct frames_head *out,
                                          struct gsp_err *err);
/* Sets the checksum of the header at the start of bytes. */
void gsp_frames__head_seal(char *bytes, size_t len);
int gsp_frames__text_open(const struct gsp_frame_log *frames, uint64_t first_id);
/* Loads all segments of the folder, and cuts off the incomplete end of the newest. */
GSP_MUST_CHECK int gsp_frames__segments_load(struct gsp_frame_log *frames, struct gsp_err *err);
/* Starts a segment with the metrics of the catalog. */
GSP_MUST_CHECK int gsp_frames__segment_begin(struct gsp_frame_log *frames, struct gsp_err *err);
/* Appends frames->line and the row of numbers. */
GSP_MUST_CHECK int gsp_frames__segment_append(struct gsp_frame_log *frames, uint64_t frame_id,
                                              struct gsp_err *err);
void gsp_frames__segment_end(struct gsp_frame_log *frames);
void gsp_frames__segment_remove(const struct gsp_frame_log *frames, uint64_t first_id);
uint64_t gsp_frames__segment_bytes(const struct frames_segment *segment);

/* frames.c */
/* Copies the list of segments that contain frames of [first, last]. The caller frees it. */
GSP_MUST_CHECK int gsp_frames__snapshot(struct gsp_frame_log *frames, uint64_t first, uint64_t last,
                                        struct frames_segment **out, size_t *count,
                                        struct gsp_err *err);
/* The first row of the segment in [first, last], and the number of such rows. */
uint64_t gsp_frames__clip(const struct frames_segment *segment, uint64_t first, uint64_t last,
                          uint64_t *count);
/* Reads exactly n bytes at an offset. Fails with IO, FORMAT (the file is too short). */
GSP_MUST_CHECK int gsp_frames__pread(int fd, void *out, size_t n, uint64_t offset,
                                     struct gsp_err *err);
