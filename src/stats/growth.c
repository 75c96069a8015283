/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/growth.h"

#include <math.h>

#include "stats/basic.h"
#include "stats/trend.h"

#define WINDOWS      16U
#define VALUES_MIN   16U  /* required after the warm-up */
#define WARM_UP      0.2  /* share of the time that is ignored */
#define TAIL         0.35 /* share of the time at the end that must rise too */
#define TAIL_SHARE   0.3  /* ... by at least this share of the overall slope */
#define P_MAX        0.01
#define BYTES_MIN    1048576.0
#define NOISE_FACTOR 3.0

struct floors {
    double t[WINDOWS];
    double v[WINDOWS];
    size_t count;
};

/* Sorts the values. */
static double median(double *values, size_t count)
{
    gsp_stats_sort(values, count);
    return gsp_stats__quantile(values, count, 0.5);
}

/* Returns the lowest value of each window of equal time. */
static struct floors find_floors(const double *t, const double *v, size_t count)
{
    struct floors floors = {0};
    bool is_set[WINDOWS] = {false};
    double lowest[WINDOWS] = {0};
    const double width = (t[count - 1] - t[0]) / WINDOWS;
    for (size_t i = 0; i < count; i++) {
        const double position = (t[i] - t[0]) / width;
        const size_t at = position < WINDOWS - 1 ? (size_t)position : WINDOWS - 1;
        if (!is_set[at] || v[i] < lowest[at])
            lowest[at] = v[i];
        is_set[at] = true;
    }
    for (size_t i = 0; i < WINDOWS; i++) {
        if (!is_set[i])
            continue;
        floors.t[floors.count] = t[0] + ((double)i + 0.5) * width;
        floors.v[floors.count++] = lowest[i];
    }
    return floors;
}

/* Returns the depth of the deepest fall, and counts the falls that are at least half as deep. */
static double measure_falls(const double *v, size_t count, size_t *falls)
{
    double depth = 0;
    double top = v[0];
    for (size_t i = 0; i < count; i++) {
        top = v[i] > top ? v[i] : top;
        depth = top - v[i] > depth ? top - v[i] : depth;
    }
    *falls = 0;
    top = v[0];
    for (size_t i = 0; i < count && depth > 0; i++) {
        top = v[i] > top ? v[i] : top;
        if (top - v[i] >= depth / 2) {
            ++*falls;
            top = v[i];
        }
    }
    return depth;
}

/* The median absolute deviation of the residuals. */
static double noise_of(const struct floors *floors, double slope)
{
    double rest[WINDOWS];
    for (size_t i = 0; i < floors->count; i++)
        rest[i] = floors->v[i] - slope * floors->t[i];
    const double middle = median(rest, floors->count);
    for (size_t i = 0; i < floors->count; i++)
        rest[i] = fabs(rest[i] - middle);
    return median(rest, floors->count);
}

/* The one-sided p-value of z. */
static double one_sided_p(double z)
{
    return z > 0 ? gsp_stats__normal_cdf(-z) : 1;
}

/* Decides from the floors and from the falls between them. */
static bool is_growing(const struct gsp_growth *found, const struct floors *floors, double depth,
                       size_t falls)
{
    const double last = floors->t[floors->count - 1];
    const double seconds = last - floors->t[0];
    const double growth = found->slope * seconds;
    struct gsp_trend tail;
    size_t first = 0;
    while (floors->t[first] < last - TAIL * seconds)
        first++;
    if (!gsp_stats_trend(floors->t + first, floors->v + first, floors->count - first, &tail))
        return false;
    /* With only a few deep falls, the rise may be part of a sawtooth. */
    const bool is_tooth = growth < depth && falls < WINDOWS / 2;
    return found->p < P_MAX && growth >= BYTES_MIN &&
           growth >= NOISE_FACTOR * noise_of(floors, found->slope) &&
           tail.slope >= TAIL_SHARE * found->slope && !is_tooth;
}

struct gsp_growth gsp_stats_growth(const double *t, const double *v, size_t count)
{
    struct gsp_growth out = {0};
    struct gsp_trend whole;
    size_t first = 0;
    if (count == 0 || !(t[count - 1] > t[0]))
        return out;
    while (first < count && t[first] < t[0] + WARM_UP * (t[count - 1] - t[0]))
        first++;
    count -= first;
    if (count < VALUES_MIN || !(t[first + count - 1] > t[first]))
        return out;
    const struct floors floors = find_floors(t + first, v + first, count);
    if (floors.count < WINDOWS / 2 || !gsp_stats_trend(floors.t, floors.v, floors.count, &whole))
        return out;
    out.is_known = true;
    out.slope = whole.slope;
    out.p = one_sided_p(whole.z);
    size_t falls = 0;
    const double depth = measure_falls(v + first, count, &falls);
    out.is_growing = is_growing(&out, &floors, depth, falls);
    return out;
}
