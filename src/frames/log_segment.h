/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_segment.h -- the numbers of one segment of the frame log: header and rows on disk.
 *
 * frames.h describes the files. Rows can be read while the daemon appends more.
 *
 * Threads: one owner for each struct.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#define FRAMES_BOOT_BYTES 16

/* Whether a metric has an integral over time. */
enum frames_kind {
    FRAMES_PLAIN,  /* no */
    FRAMES_RATE,   /* per second: the integral is an amount */
    FRAMES_AMOUNT, /* since the previous frame: the sum is an amount */
};

struct frames_metric {
    const char *name;
    const char *device;
    const char *label;
    const char *unit;
    uint64_t seen_id; /* the newest frame with a value; only for the writer */
    enum frames_kind kind;
};

/* The fixed part of a row of numbers, in the machine's byte order. Doubles follow. */
struct frames_row {
    uint64_t frame_id;
    int64_t ts_ns;
    int64_t mono_ns;
    uint64_t text_end; /* offset in the segment's text, past the line */
    int64_t period_ns; /* 0: not known */
    uint32_t lost;     /* frames just before this one that were not written */
    uint32_t check;    /* checksum of the row, with 0 here, and of its text */
};

/* The parsed header of a segment. */
struct frames_head {
    struct frames_metric *metrics; /* texts point into bytes */
    struct gsp_buf bytes;
    uint64_t first_id;
    uint64_t run; /* differs for each start of the daemon */
    uint32_t metric_count;
    uint32_t header_bytes;
    uint32_t row_bytes;
    unsigned char boot[FRAMES_BOOT_BYTES];
};

/* Opens the numbers of a segment and reads its header. The caller closes *fd and frees *head.
 * Fails with NOFILE (it was removed), FORMAT, IO, NOMEM. */
GSP_MUST_CHECK int gsp_frames_segment_open(int folder_fd, uint64_t first_id,
                                           struct frames_head *head, int *fd, struct gsp_err *err);
void gsp_frames_head_free(struct frames_head *head); /* {0} does nothing */
