/* SPDX-License-Identifier: Apache-2.0 */
#include "report/decimate.h"

#include <math.h>

struct gsp_decimation gsp_report__decimation_begin(const double *v, size_t stride_bytes,
                                                   size_t count, size_t max)
{
    const size_t stretches = max > 4 ? max / 2 - 1 : 1;
    return (struct gsp_decimation){.v = (const char *)v,
                                   .stride = stride_bytes,
                                   .count = count,
                                   .width = count <= max ? 1 : (count + stretches - 1) / stretches,
                                   .pending = SIZE_MAX};
}

static double value_at(const struct gsp_decimation *thin, size_t i)
{
    double v;
    __builtin_memcpy(&v, thin->v + i * thin->stride, sizeof(v));
    return v;
}

/* The lowest and the highest value of an interval; its first if all are NaN. */
static void extremes(const struct gsp_decimation *thin, size_t from, size_t to, size_t out[2])
{
    out[0] = from;
    out[1] = from;
    for (size_t i = from + 1; i < to; i++) {
        const double v = value_at(thin, i);
        if (isnan(v))
            continue;
        const double low = value_at(thin, out[0]);
        const double high = value_at(thin, out[1]);
        if (isnan(low) || v < low)
            out[0] = i;
        if (isnan(high) || v > high)
            out[1] = i;
    }
}

bool gsp_report__decimation_next(struct gsp_decimation *thin, size_t *out)
{
    if (thin->pending != SIZE_MAX) {
        *out = thin->pending;
        thin->pending = SIZE_MAX;
        return true;
    }
    if (thin->at >= thin->count)
        return false;
    if (thin->width == 1 || thin->at == 0 || thin->at + 1 == thin->count) {
        *out = thin->at++;
        return true;
    }
    /* The first and the last point are intervals of their own. */
    const size_t end = thin->count - 1;
    const size_t to = thin->at + thin->width < end ? thin->at + thin->width : end;
    size_t found[2];
    extremes(thin, thin->at, to, found);
    thin->at = to;
    const size_t first = found[0] < found[1] ? found[0] : found[1];
    const size_t second = found[0] < found[1] ? found[1] : found[0];
    *out = first;
    if (second != first)
        thin->pending = second;
    return true;
}
