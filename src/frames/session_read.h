/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_read.h -- a session's file: what it says of itself, and its frames as series over time.
 *
 * Reads:   docs/formats/session.md, and files of that kind that lack parts of it (only frames,
 *          numbers as strings), of any length: memory depends on the number of series alone.
 * Gives:   summary rows as the file has them; of each series count, mean, deviation, extremes and,
 *          where wanted, bins of time with extremes and mean.
 * Used by: cli/cmd_stat, export/plot.
 * Threads: one owner.
 *
 * A series is a metric of a device: "disk.read_bytes_per_s" of "sda", "gpu_util" of
 * "box:0:A100", "cpu.util_percent" of "".
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

struct gsp_series {
    char *metric;
    char *device; /* "" for the machine */
    uint64_t count;
    double mean;
    double square; /* of deviations from the mean, summed */
    double min;
    double max;
    struct gsp_session_bin *bins; /* GSP_SESSION_BINS, or NULL when they are not wanted */
};

/* One row of "summary"; numbers that the file does not have are NaN. */
struct gsp_session_row {
    char *metric;
    char *device;
    char *unit;
    char *integral_unit;
    double count, mean, std, min, max, p50, p95, p99, integral;
};

struct gsp_session_data {
    struct gsp_buf metadata; /* JSON, as all of these; empty when the file lacks it */
    struct gsp_buf by_device;
    struct gsp_buf by_client;
    struct gsp_buf losses;
    struct gsp_buf gaps;
    char name[256]; /* of metadata, "" when not there */
    char host[256];
    char start_time[64];
    char end_time[64];
    double duration_s;   /* NaN when not there */
    double frequency_ms; /* the same */
    bool has_format;     /* written by gsprof: units are those of the document */
    struct gsp_session_row *rows;
    size_t row_count;
    struct gsp_series *series;
    size_t series_count;
    uint64_t series_lost; /* values beyond GSP_SESSION_SERIES_MAX */
    uint64_t frames;
    uint64_t timeless; /* frames without a time that can be read */
    int64_t first_ns;  /* CLOCK_REALTIME of the first and the last frame; 0: none */
    int64_t last_ns;
    int32_t zone_s; /* offset of the first frame's zone */
    bool has_zone;
    int64_t bin_ns; /* a bin's width; the first begins at first_ns */
};

struct gsp_session_want {
    bool values; /* statistics of series; without: frames are counted */
    bool (*bins)(void *ctx, const char *metric); /* whether the metric's bins are wanted, or NULL */
    void *ctx;
};

/* Reads a whole file by `read`.  On failure *out is NULL.  Fails with FORMAT (not JSON, no
 * session), LIMIT, NOMEM, and what read fails with. */
GSP_MUST_CHECK int gsp_session_read(gsp_scan_read read, void *ctx,
                                    const struct gsp_session_want *want,
                                    struct gsp_session_data **out, struct gsp_err *err);
void gsp_session_data_free(struct gsp_session_data *data); /* NULL does nothing */

/* Standard deviation of a series; NaN below two values. */
double gsp_series_std(const struct gsp_series *series);

/* "2026-01-31T12:34:56.789+01:00" (zone and fraction may be missing) as CLOCK_REALTIME
 * nanoseconds and the zone's offset.  False when it is no such time. */
bool gsp_session_parse_time(struct gsp_sv text, int64_t *out_ns, int32_t *zone_s, bool *has_zone);
