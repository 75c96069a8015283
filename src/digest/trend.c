/* SPDX-License-Identifier: Apache-2.0 */
#include "digest/trend.h"

#include <math.h>
#include <stdlib.h>

#define STRETCHES    16U
#define LOOKS_MIN    16U  /* fewer tell nothing */
#define WARM_UP      0.2  /* of the time */
#define TAIL         0.35 /* the part at the end that must rise too */
#define TAIL_SHARE   0.3  /* ... at this share of the whole slope */
#define P_MAX        0.01
#define BYTES_MIN    1048576.0
#define NOISE_FACTOR 3.0
#define PAIRS_MAX    (STRETCHES * (STRETCHES - 1) / 2)

struct floors {
    double t[STRETCHES];
    double v[STRETCHES];
    size_t count;
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static double median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof(*values), compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The median of the slopes of all pairs from the first on. */
static double theil_sen(const struct floors *floors, size_t first)
{
    double slopes[PAIRS_MAX];
    size_t count = 0;
    for (size_t i = first; i < floors->count; i++) {
        for (size_t k = i + 1; k < floors->count; k++)
            slopes[count++] = (floors->v[k] - floors->v[i]) / (floors->t[k] - floors->t[i]);
    }
    return median(slopes, count);
}

/* One-sided, with ties. */
static double mann_kendall(const struct floors *floors)
{
    const double n = (double)floors->count;
    double ups = 0;
    double variance = n * (n - 1) * (2 * n + 5);
    for (size_t i = 0; i < floors->count; i++) {
        double before = 0;
        double same = 1;
        for (size_t k = 0; k < floors->count; k++) {
            const double a = floors->v[i];
            const double b = floors->v[k];
            if (k < i)
                before += a == b;
            else if (k > i) {
                ups += (b > a) - (b < a);
                same += a == b;
            }
        }
        if (before == 0) /* the first of its equals counts them */
            variance -= same * (same - 1) * (2 * same + 5);
    }
    if (variance <= 0 || ups <= 0)
        return 1;
    return 0.5 * erfc((ups - 1) / sqrt(variance / 18) / sqrt(2.0));
}

/* The lowest of each stretch of equal time. */
static struct floors find_floors(const double *t, const double *v, size_t count)
{
    struct floors floors = {0};
    bool is_set[STRETCHES] = {false};
    double lowest[STRETCHES] = {0};
    const double width = (t[count - 1] - t[0]) / STRETCHES;
    for (size_t i = 0; i < count; i++) {
        const double place = (t[i] - t[0]) / width;
        const size_t at = place < STRETCHES - 1 ? (size_t)place : STRETCHES - 1;
        if (!is_set[at] || v[i] < lowest[at])
            lowest[at] = v[i];
        is_set[at] = true;
    }
    for (size_t i = 0; i < STRETCHES; i++) {
        if (!is_set[i])
            continue;
        floors.t[floors.count] = t[0] + ((double)i + 0.5) * width;
        floors.v[floors.count++] = lowest[i];
    }
    return floors;
}

/* The depth of the deepest fall, and how many are at least half as deep. */
static double teeth(const double *v, size_t count, size_t *falls)
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

/* Of what the slope leaves unexplained: the median distance from its median. */
static double noise_of(const struct floors *floors, double slope)
{
    double rest[STRETCHES];
    for (size_t i = 0; i < floors->count; i++)
        rest[i] = floors->v[i] - slope * floors->t[i];
    const double middle = median(rest, floors->count);
    for (size_t i = 0; i < floors->count; i++)
        rest[i] = fabs(rest[i] - middle);
    return median(rest, floors->count);
}

struct gsp_trend gsp_trend_judge(const double *t, const double *v, size_t count)
{
    struct gsp_trend trend = {0};
    size_t first = 0;
    if (count == 0 || !(t[count - 1] > t[0]))
        return trend;
    while (first < count && t[first] < t[0] + WARM_UP * (t[count - 1] - t[0]))
        first++;
    count -= first;
    if (count < LOOKS_MIN || !(t[first + count - 1] > t[first]))
        return trend;
    const struct floors floors = find_floors(t + first, v + first, count);
    if (floors.count < STRETCHES / 2)
        return trend;
    trend.is_known = true;
    trend.slope = theil_sen(&floors, 0);
    trend.p = mann_kendall(&floors);
    const double last = floors.t[floors.count - 1];
    const double growth = trend.slope * (last - floors.t[0]);
    size_t tail = 0;
    while (floors.t[tail] < last - TAIL * (last - floors.t[0]))
        tail++;
    size_t falls = 0;
    const double depth = teeth(v + first, count, &falls);
    /* Of a few deep teeth only parts were seen: a rise may be half a tooth. */
    const bool is_tooth = growth < depth && falls < STRETCHES / 2;
    trend.is_growing = trend.p < P_MAX && growth >= BYTES_MIN &&
                       growth >= NOISE_FACTOR * noise_of(&floors, trend.slope) &&
                       theil_sen(&floors, tail) >= TAIL_SHARE * trend.slope && !is_tooth;
    return trend;
}
