/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_read.h -- reads a session file: its metadata, and its metric frames as time series.
 *
 * Reads:   the format of session_format.h, of any length; parts may be missing (only frames,
 *          numbers as strings). Memory depends only on the number of series.
 * Gives:   the summary rows of the file; for each series its count, mean, deviation and extremes
 *          and, if requested, its mean and extremes per bin of time.
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

/* One row of "summary". Missing numbers are NaN. */
struct gsp_session_row {
    char *metric;
    char *device;
    char *unit;
    char *integral_unit;
    double count, mean, std, min, max, p50, p95, p99, integral;
};

struct gsp_session_data {
    struct gsp_buf metadata; /* this and the next four: JSON; empty if missing */
    struct gsp_buf by_device;
    struct gsp_buf by_client;
    struct gsp_buf losses;
    struct gsp_buf gaps;
    char name[256]; /* this and the next three are from the metadata; "" if missing */
    char host[256];
    char start_time[64];
    char end_time[64];
    double duration_s;   /* NaN if missing */
    double frequency_ms; /* NaN if missing */
    bool has_format;     /* written by gsprof: units are those of docs/formats/session.md */
    struct gsp_session_row *rows;
    size_t row_count;
    struct gsp_session_series *series;
    size_t series_count;
    uint64_t series_lost; /* values of series beyond GSP_SESSION_SERIES_MAX */
    uint64_t frames;
    uint64_t timeless; /* metric frames without a valid time */
    int64_t first_ns;  /* CLOCK_REALTIME of the first and the last metric frame; 0: none */
    int64_t last_ns;
    int32_t zone_s; /* UTC offset of the first metric frame */
    bool has_zone;
    int64_t bin_ns; /* width of a bin; the first begins at first_ns */
};

struct gsp_session_read_options {
    bool values; /* read the series; otherwise only count the metric frames */
    bool (*bins)(void *ctx, const char *metric); /* whether to collect bins for a metric; or NULL */
    void *ctx;
};

/* Reads a whole file through the callback `read`. The caller frees *out with
 * gsp_frames_session_data_free(); it is NULL on failure. Fails with FORMAT (not JSON, not a
 * session), LIMIT or NOMEM, or as read does. */
GSP_MUST_CHECK int gsp_frames_session_read(gsp_json_scan_reader read, void *ctx,
                                           const struct gsp_session_read_options *options,
                                           struct gsp_session_data **out, struct gsp_err *err);
void gsp_frames_session_data_free(struct gsp_session_data *data); /* NULL does nothing */

/* Returns the standard deviation of a series; NaN for fewer than two values. */
double gsp_frames_series_std(const struct gsp_session_series *series);
