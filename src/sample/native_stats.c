/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/native_stats.h"

#include "base/time.h"
#include "sample/mixed.h"

#define STEP (13.0 / 12)

/* The upper bound of a bucket. */
static int64_t edge_ns(size_t bucket)
{
    double edge = (double)GSP_NS_PER_US;
    for (size_t i = 0; i < bucket; i++)
        edge *= STEP;
    return (int64_t)edge;
}

void gsp_sample__native_stats_add(struct gsp_native_stats *stats,
                                  const struct gsp_mixed_stack *stack)
{
    stats->stacks++;
    stats->whole += stack->whole;
    stats->bridged += stack->bridged;
    stats->by_way[stack->way]++;
    if (stack->way != GSP_CAPTURE_STOP)
        return;
    size_t bucket = 0;
    double edge = (double)GSP_NS_PER_US;
    for (; bucket + 1 < GSP_STOP_BUCKETS && (double)stack->stopped_ns > edge; bucket++)
        edge *= STEP;
    stats->stops[bucket]++;
    if (stack->stopped_ns > stats->stop_max_ns)
        stats->stop_max_ns = stack->stopped_ns;
}

int64_t gsp_sample_native_stats_stop_ns(const struct gsp_native_stats *stats, double share)
{
    double threshold = share * (double)stats->by_way[GSP_CAPTURE_STOP];
    uint64_t seen = 0;
    for (size_t i = 0; i < GSP_STOP_BUCKETS && threshold > 0; i++) {
        seen += stats->stops[i];
        if ((double)seen >= threshold) {
            int64_t edge = edge_ns(i);
            return edge < stats->stop_max_ns ? edge : stats->stop_max_ns;
        }
    }
    return 0;
}
