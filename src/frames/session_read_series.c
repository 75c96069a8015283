/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/time.h"
#include "frames/session_read_internal.h"

#define BIN_FIRST_NS GSP_NS_PER_MS

static int add_series(struct session_reader *reader, struct gsp_sv metric, struct gsp_sv device,
                      struct gsp_err *err)
{
    struct gsp_session_data *data = reader->data;
    if (!gsp_array_fit(&data->series, &reader->series_cap, data->series_count + 1))
        return gsp_err_nomem(err);
    struct gsp_session_series *series = &data->series[data->series_count];
    *series = (struct gsp_session_series){.metric = gsp_sv_dup(metric),
                                          .device = gsp_sv_dup(device),
                                          .min = (double)INFINITY,
                                          .max = -(double)INFINITY};
    data->series_count++;
    if (!series->metric || !series->device)
        return gsp_err_nomem(err);
    if (reader->options->bins && reader->options->bins(reader->options->ctx, series->metric)) {
        series->bins = calloc(GSP_SESSION_BINS, sizeof(*series->bins));
        if (!series->bins)
            return gsp_err_nomem(err);
    }
    return GSP_OK;
}

int gsp_frames__session_series(struct session_reader *reader, struct gsp_sv metric,
                               struct gsp_sv device, uint32_t *out, struct gsp_err *err)
{
    uint64_t a = gsp_hash_bytes(metric.p, metric.len, 1);
    uint64_t b = gsp_hash_bytes(device.p, device.len, a);
    const uint32_t *found = gsp_hmap_get(&reader->series, a, b);
    if (found) {
        *out = *found;
        return GSP_OK;
    }
    *out = UINT32_MAX;
    if (reader->data->series_count >= GSP_SESSION_SERIES_MAX) {
        reader->data->series_lost++;
        return GSP_OK;
    }
    int rc = add_series(reader, metric, device, err);
    if (rc < 0)
        return rc;
    *out = (uint32_t)(reader->data->series_count - 1);
    return gsp_hmap_put(&reader->series, a, b, *out) ? GSP_OK : gsp_err_nomem(err);
}

static void merge_bin(struct gsp_session_bin *into, const struct gsp_session_bin *from)
{
    if (!from->count)
        return;
    if (!into->count) {
        *into = *from;
        return;
    }
    into->sum += from->sum;
    into->count += from->count;
    into->min = from->min < into->min ? from->min : into->min;
    into->max = from->max > into->max ? from->max : into->max;
}

/* Doubles the width of the bins, so that they cover twice the time. */
static void widen_bins(struct gsp_session_data *data)
{
    data->bin_ns *= 2;
    for (size_t k = 0; k < data->series_count; k++) {
        struct gsp_session_bin *bins = data->series[k].bins;
        for (size_t i = 0; bins && i < GSP_SESSION_BINS / 2; i++) {
            struct gsp_session_bin both = bins[2 * i];
            merge_bin(&both, &bins[2 * i + 1]);
            bins[i] = both;
        }
        if (bins)
            memset(bins + GSP_SESSION_BINS / 2, 0, GSP_SESSION_BINS / 2 * sizeof(*bins));
    }
}

static size_t find_bin(struct session_reader *reader)
{
    struct gsp_session_data *data = reader->data;
    if (!data->bin_ns) {
        data->bin_ns = BIN_FIRST_NS;
        data->first_ns = reader->time_ns;
        data->last_ns = reader->time_ns;
    }
    int64_t since = reader->time_ns - data->first_ns;
    if (since < 0)
        return 0; /* the clock was set back before the start */
    while (since / data->bin_ns >= GSP_SESSION_BINS)
        widen_bins(data);
    data->last_ns = reader->time_ns > data->last_ns ? reader->time_ns : data->last_ns;
    return (size_t)(since / data->bin_ns);
}

static void add_value(struct gsp_session_series *series, double v)
{
    double deviation = v - series->mean;
    series->count++;
    series->mean += deviation / (double)series->count;
    series->square += deviation * (v - series->mean);
    series->min = v < series->min ? v : series->min;
    series->max = v > series->max ? v : series->max;
}

int gsp_frames__session_add(struct session_reader *reader, struct gsp_err *err)
{
    struct gsp_session_data *data = reader->data;
    if (reader->values.failed)
        return gsp_err_nomem(err);
    data->frames++;
    data->timeless += !reader->has_time;
    size_t bin = reader->has_time ? find_bin(reader) : 0;
    struct session_value value;
    for (size_t at = 0; at < reader->values.len; at += sizeof(value)) {
        memcpy(&value, reader->values.p + at, sizeof(value));
        struct gsp_session_series *series = &data->series[value.series];
        add_value(series, value.v);
        if (!series->bins || !reader->has_time)
            continue;
        merge_bin(&series->bins[bin],
                  &(struct gsp_session_bin){value.v, (float)value.v, (float)value.v, 1});
    }
    gsp_buf_clear(&reader->values);
    return GSP_OK;
}

double gsp_frames_series_std(const struct gsp_session_series *series)
{
    return series->count > 1 ? sqrt(series->square / (double)(series->count - 1)) : (double)NAN;
}
