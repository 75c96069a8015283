/* SPDX-License-Identifier: Apache-2.0 */
#include "frames/quantiles.h"

#include <stdlib.h>

#include "base/attr.h"

static const double SHARES[] = {0.50, 0.95, 0.99};

double gsp_frames__quantiles_value(uint64_t key)
{
    uint64_t bits = key >> 63 ? key & ~(UINT64_C(1) << 63) : ~key;
    double v = 0;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* The rank below a quantile among count values, and the fraction beyond it. */
static uint64_t rank_of(double share, uint64_t count, double *past)
{
    double at = share * (double)(count - 1);
    uint64_t rank = (uint64_t)at;
    *past = at - (double)rank;
    return rank;
}

/* Rebuilds the groups after the prefix of each rank grew by a digit. */
static void regroup(struct select *s, const uint64_t prefixes[SELECT_RANKS],
                    const uint64_t sizes[SELECT_RANKS])
{
    s->group_count = 0;
    for (uint32_t i = 0; i < SELECT_RANKS; i++) {
        if (s->ranks[i].done)
            continue;
        uint32_t g = 0;
        while (g < s->group_count && s->groups[g].prefix != prefixes[i])
            g++;
        if (g == s->group_count)
            s->groups[s->group_count++] = (struct select_group){
                .prefix = prefixes[i], .low = UINT64_MAX, .collects = sizes[i] <= SELECT_COLLECT};
        s->ranks[i].group = g;
    }
}

/* Finds the bucket of a rank. The rank becomes relative to the bucket. */
static uint32_t find_bucket(const uint32_t *counts, uint64_t *rank)
{
    uint32_t b = 0;
    while (b + 1 < SELECT_BUCKETS && *rank >= counts[b])
        *rank -= counts[b++];
    return b;
}

void gsp_frames__quantiles_begin(struct select *s, uint64_t count, const uint32_t *counts)
{
    *s = (struct select){.shift = 64 - SELECT_DIGIT_BITS};
    uint64_t prefixes[SELECT_RANKS];
    uint64_t sizes[SELECT_RANKS];
    uint32_t b = 0;
    uint64_t below = 0; /* values before bucket b */
    for (uint32_t i = 0; i < SELECT_RANKS; i++) {
        double past = 0;
        uint64_t rank = rank_of(SHARES[i / 2], count, &past) + (i % 2);
        rank = rank < count ? rank : count - 1;
        if (rank < below) { /* rare: the ranks ascend unless there are few values */
            b = 0;
            below = 0;
        }
        while (b + 1 < SELECT_BUCKETS && rank - below >= counts[b])
            below += counts[b++];
        s->ranks[i].rank = rank - below;
        prefixes[i] = b;
        sizes[i] = counts[b];
    }
    regroup(s, prefixes, sizes);
}

bool gsp_frames__quantiles_need_pass(const struct select *s)
{
    return s->group_count != 0;
}

void gsp_frames__quantiles_add(struct select *s, double v)
{
    uint64_t key = gsp_frames__quantiles_key(v);
    uint64_t top = key >> s->shift;
    for (uint32_t i = 0; i < s->group_count; i++) {
        struct select_group *g = &s->groups[i];
        if (g->prefix != top)
            continue;
        g->low = key < g->low ? key : g->low;
        g->high = key > g->high ? key : g->high;
        if (!g->collects) {
            unsigned bits = s->shift < SELECT_DIGIT_BITS ? s->shift : SELECT_DIGIT_BITS;
            uint32_t *counts = g->memory;
            counts[(key >> (s->shift - bits)) & ((1U << bits) - 1)]++;
        } else if (g->collected < SELECT_COLLECT) {
            uint64_t *keys = g->memory;
            keys[g->collected++] = key;
        }
        return;
    }
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = 0;
    uint64_t y = 0;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

void gsp_frames__quantiles_end_pass(struct select *s)
{
    unsigned bits = s->shift < SELECT_DIGIT_BITS ? s->shift : SELECT_DIGIT_BITS;
    uint64_t prefixes[SELECT_RANKS] = {0};
    uint64_t sizes[SELECT_RANKS] = {0};
    for (uint32_t i = 0; i < s->group_count; i++)
        if (s->groups[i].collects && s->groups[i].collected)
            qsort(s->groups[i].memory, s->groups[i].collected, sizeof(uint64_t), by_key);
    for (uint32_t i = 0; i < SELECT_RANKS; i++) {
        struct select_rank *r = &s->ranks[i];
        if (r->done)
            continue;
        const struct select_group *g = &s->groups[r->group];
        if (g->low >= g->high) { /* all values are equal */
            r->key = g->high;
            r->done = true;
        } else if (g->collects) {
            const uint64_t *keys = g->memory;
            r->key = keys[r->rank < g->collected ? r->rank : g->collected - 1];
            r->done = true;
        } else {
            const uint32_t *counts = g->memory;
            uint32_t b = find_bucket(counts, &r->rank);
            prefixes[i] = (g->prefix << bits) | b;
            sizes[i] = counts[b];
            /* Done if no bits are left. */
            r->done = s->shift == bits;
            r->key = prefixes[i];
        }
    }
    s->shift -= bits;
    regroup(s, prefixes, sizes);
}

void gsp_frames__quantiles_get(const struct select *s, uint64_t count, double out[3])
{
    for (size_t i = 0; i < GSP_COUNT(SHARES); i++) {
        double past = 0;
        rank_of(SHARES[i], count, &past);
        double below = gsp_frames__quantiles_value(s->ranks[2 * i].key);
        double above = gsp_frames__quantiles_value(s->ranks[2 * i + 1].key);
        out[i] = below == above ? below : below + (above - below) * past;
    }
}
