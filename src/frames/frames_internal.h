/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames_internal.h -- what the files of the frame log share: segments on disk, the catalogue of
 * metrics, the rows of one tick.
 *
 * Used by: frames*.c alone.
 * Threads: see frames.h; "lock" guards what is written beside it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/lock.h"
#include "base/map.h"
#include "frames/frames.h"

#define FRAMES_BOOT_BYTES   16
#define FRAMES_METRICS_MAX  16384U
#define FRAMES_STRINGS_MAX  65536U
#define FRAMES_HEADER_MAX   (16U << 20)
#define FRAMES_TEXT_MAX     (8U << 20) /* bytes of one frame */
#define FRAMES_GPUS_MAX     256U
/* A line begins so; the number, right-aligned, follows in FRAMES_ID_WIDTH bytes. */
#define FRAMES_LINE_BEGIN   "{\"frame_id\":"
#define FRAMES_ID_WIDTH     12U
/* And ends so: what stands between two elements of an array. */
#define FRAMES_LINE_END     ",\n"
#define FRAMES_LINE_END_LEN 2U

/* What a metric's sum over time means. */
enum frames_kind {
    FRAMES_PLAIN,  /* nothing */
    FRAMES_RATE,   /* per second: the integral is an amount */
    FRAMES_AMOUNT, /* since the frame before: the sum is an amount */
};

struct frames_metric {
    const char *name;
    const char *device;
    const char *label;
    const char *unit;
    uint64_t seen_id; /* the newest frame with a value; of the writer only */
    enum frames_kind kind;
};

/* The fixed part of a row of numbers, in the machine's byte order; doubles follow. */
struct frames_row {
    uint64_t frame_id;
    int64_t ts_ns;
    int64_t mono_ns;
    uint64_t text_end; /* in the segment's text, past the line */
    int64_t period_ns; /* 0: not known */
    uint32_t lost;     /* frames before this one that could not be written */
    uint32_t check;    /* over the row, with 0 here, and its text */
};

/* One segment, as memory has it. */
struct frames_segment {
    uint64_t first_id;
    uint64_t rows;
    uint64_t text_bytes;
    uint32_t header_bytes;
    uint32_t row_bytes;
    bool synced;
};

/* A segment's header, read. */
struct frames_head {
    struct frames_metric *metrics; /* texts point into bytes */
    struct gsp_buf bytes;
    uint64_t first_id;
    uint64_t run; /* differs when the daemon was started again */
    uint32_t metric_count;
    uint32_t header_bytes;
    uint32_t row_bytes;
    unsigned char boot[FRAMES_BOOT_BYTES];
};

/* The metrics of the segment being written, and which row's column is which. */
struct frames_catalog {
    struct frames_metric *metrics; /* name, device, label: owned */
    double *values;                /* of this frame; NULL doubles where there is none */
    int32_t *columns;              /* groups of metric indexes, -1: none yet */
    struct gsp_hmap groups;        /* (table and generation, key) -> start in columns */
    size_t count;
    size_t cap;
    size_t column_count;
    size_t column_cap;
    uint64_t refused; /* beyond FRAMES_METRICS_MAX */
    bool grown;       /* a metric was added since the segment began */
};

struct frames_strings {
    char **texts; /* escaped for JSON, with the quotes */
    char **plain;
    size_t count; /* ids are 1..count */
    size_t cap;
    uint64_t refused;
    struct gsp_hmap ids;
};

struct frames_gpu {
    int64_t index;
    uint32_t name; /* string id */
};

struct gsp_frames {
    struct gsp_sink sink; /* first: the sink is cast back */
    uint64_t segment_bytes;
    uint64_t keep_bytes;
    char *host;
    int folder_fd;
    int num_fd; /* of the newest segment when it is being written; else -1 */
    int text_fd;
    uint64_t run;
    unsigned char boot[FRAMES_BOOT_BYTES];

    /* Of the writer alone. */
    struct gsp_tick tick;
    struct gsp_buf rows[GSP_TABLE_COUNT];
    struct frames_strings strings;
    struct frames_catalog catalog;
    struct frames_gpu gpus[FRAMES_GPUS_MAX];
    size_t gpu_count;
    uint32_t gpu_generation;   /* changes with a GPU's name */
    uint32_t lost_pending;     /* since the newest frame */
    _Atomic int64_t period_ns; /* others may read it */
    int64_t zone_s;            /* the second that zone_text is of */
    char zone_text[40];
    struct gsp_buf line;
    struct gsp_buf row;

    struct gsp_lock lock;
    struct frames_segment *segments; /* in order */
    size_t segment_count;
    size_t segment_cap;
    uint64_t next_id;
    bool is_making; /* the frame with that id has begun */
    uint64_t keep_from;
    uint64_t lost;
    uint64_t values_lost;
    struct gsp_buf latest;
    uint64_t latest_id;
    char error[240];
};

/* frames_catalog.c */
void gsp_frames__catalog_free(struct frames_catalog *catalog);
/* Forgets the values of the frame before. */
void gsp_frames__catalog_begin(struct frames_catalog *catalog);
/* Drops metrics not seen since the given frame. */
void gsp_frames__catalog_prune(struct frames_catalog *catalog, uint64_t since_id);
/* Takes all rows of the tick: sets values, makes metrics that are new, rounds the rows' numbers to
 * what the text shows. */
void gsp_frames__take_numbers(struct gsp_frames *frames);
/* 100 * part / whole as it is shown; NULL when either is not known. */
double gsp_frames__percent(int64_t part, int64_t whole);
double gsp_frames__round(double v);
/* The busiest disk of the tick. */
double gsp_frames__disk_busiest(const struct gsp_frames *frames);
/* "host:index:name", appended. */
void gsp_frames__gpu_id(const struct gsp_frames *frames, int64_t gpu, struct gsp_buf *out);

/* frames_text.c: the frame's line, into frames->line. */
void gsp_frames__take_text(struct gsp_frames *frames, uint64_t frame_id);
void gsp_frames__strings_free(struct frames_strings *strings);
uint32_t gsp_frames__string(struct frames_strings *strings, struct gsp_sv text);
/* Writes the number right-aligned over FRAMES_ID_WIDTH bytes. */
void gsp_frames__put_id(char *out, uint64_t id);

/* frames_segment.c */
void gsp_frames__head_free(struct frames_head *head);
/* Reads a header from the front of bytes, which are copied.  Fails with FORMAT, LIMIT, NOMEM. */
GSP_MUST_CHECK int gsp_frames__head_parse(struct gsp_sv bytes, struct frames_head *out,
                                          struct gsp_err *err);
/* Sets the check sum of the header at the front of bytes. */
void gsp_frames__head_seal(char *bytes, size_t len);
/* Opens a segment's numbers and reads its header.  Fails with NOFILE when it was removed. */
GSP_MUST_CHECK int gsp_frames__segment_open(const struct gsp_frames *frames, uint64_t first_id,
                                            struct frames_head *head, int *fd, struct gsp_err *err);
int gsp_frames__text_open(const struct gsp_frames *frames, uint64_t first_id);
/* All segments in the folder, the torn end of the newest cut off. */
GSP_MUST_CHECK int gsp_frames__segments_load(struct gsp_frames *frames, struct gsp_err *err);
GSP_MUST_CHECK int gsp_frames__segment_begin(struct gsp_frames *frames, struct gsp_err *err);
/* Appends frames->line and the row of numbers. */
GSP_MUST_CHECK int gsp_frames__segment_append(struct gsp_frames *frames, uint64_t frame_id,
                                              struct gsp_err *err);
void gsp_frames__segment_end(struct gsp_frames *frames);
void gsp_frames__segment_remove(const struct gsp_frames *frames, uint64_t first_id);
uint64_t gsp_frames__segment_bytes(const struct frames_segment *segment);

/* frames.c: a copy of the segments that hold frames of [first, last]; the caller frees it. */
GSP_MUST_CHECK int gsp_frames__snapshot(struct gsp_frames *frames, uint64_t first, uint64_t last,
                                        struct frames_segment **out, size_t *count,
                                        struct gsp_err *err);
/* The rows of the segment that lie in [first, last]: their place and number. */
uint64_t gsp_frames__clip(const struct frames_segment *segment, uint64_t first, uint64_t last,
                          uint64_t *count);
/* Reads n bytes at an offset, all of them.  Fails with IO, FORMAT (the file ends before). */
GSP_MUST_CHECK int gsp_frames__pread(int fd, void *out, size_t n, uint64_t offset,
                                     struct gsp_err *err);
