/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_read.h -- reads a session file: its metadata and summary, and its frames as time series.
 *
 * Reads:   session_format.h, and incomplete files of that kind (only frames, numbers as strings).
 *          Memory depends on the number of series, not on the number of frames.
 * Gives:   the rows of the summary; for each series count, mean, deviation and extremes and, on
 *          request, time bins with extremes and mean.
 * Threads: one owner.
 *
 * A series is a metric of one device: "disk.read_bytes_per_s" of "sda", "gpu_util" of
 * "box:0:A100", "cpu.util_percent" of "" (the machine).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_scan.h"
#include "base/str.h"

#define GSP_SESSION_BINS       2048U
#define GSP_SESSION_SERIES_MAX 4096U
#define GSP_SESSION_ROWS_MAX   100000U

struct gsp_session_bin {
    double sum;
    float min;
    float max;
    uint32_t count;
};

struct gsp_session_series {
    char *metric;
    char *device; /* "" for the machine */
    uint64_t count;
    double mean;
    double square; /* sum of squared deviations from the mean */
    double min;
    double max;
    struct gsp_session_bin *bins; /* GSP_SESSION_BINS, or NULL if not requested */
};

/* One row of the summary. Missing numbers are NaN. */
struct gsp_session_row {
    char *metric;
    char *device;
    char *unit;
    char *integral_unit;
    double count, mean, std, min, max, p50, p95, p99, integral;
};

struct gsp_session_data {
    struct gsp_buf metadata; /* JSON, like the next four; empty if missing */
    struct gsp_buf by_device;
    struct gsp_buf by_client;
    struct gsp_buf losses;
    struct gsp_buf gaps;
    char name[256]; /* of the metadata, like the next five; "" or NaN if missing */
    char host[256];
    char start_time[64];
    char end_time[64];
    double duration_s;
    double frequency_ms;
    bool has_format; /* written by gsprof, so the units are those of the document */
    struct gsp_session_row *rows;
    size_t row_count;
    struct gsp_session_series *series;
    size_t series_count;
    uint64_t series_lost; /* values of series beyond GSP_SESSION_SERIES_MAX */
    uint64_t frames;
    uint64_t timeless; /* frames without a valid time */
    int64_t first_ns;  /* CLOCK_REALTIME of the first and the last frame; 0: none */
    int64_t last_ns;
    int32_t zone_s; /* UTC offset of the first metric frame */
    bool has_zone;
    int64_t bin_ns; /* width of a bin; the first starts at first_ns */
};

struct gsp_session_read_options {
    bool values; /* read the values of the frames; otherwise only count the frames */
    bool (*bins)(void *ctx,
                 const char *metric); /* whether to fill bins for the metric; may be NULL */
    void *ctx;
};

/* Reads a complete file with `read`. On failure *out is NULL. Fails with FORMAT (not JSON, not a
 * session file), LIMIT, NOMEM, and as read does. */
GSP_MUST_CHECK int gsp_session_read(gsp_json_scan_reader read, void *ctx,
                                    const struct gsp_session_read_options *want,
                                    struct gsp_session_data **out, struct gsp_err *err);
void gsp_session_data_free(struct gsp_session_data *data); /* NULL does nothing */

/* The standard deviation of a series; NaN for fewer than two values. */
double gsp_series_std(const struct gsp_session_series *series);
