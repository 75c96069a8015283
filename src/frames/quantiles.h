/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantiles.h -- exact quantiles of values in several passes, in constant memory.
 *
 * A radix select: a value is mapped to an integer with the same order. Each pass counts the next
 * eleven bits of those values whose higher bits equal those of the quantile. Once few values are
 * left, a pass collects and sorts them.
 *
 *   pass 1: _count() for each value, then _begin()
 *   while _need_pass(): _add() for each value, then _end_pass()
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SELECT_DIGIT_BITS 11U
#define SELECT_BUCKETS    (1U << SELECT_DIGIT_BITS)
/* Bytes of one table of counts. The same memory holds the collected values. */
#define SELECT_BYTES      (SELECT_BUCKETS * sizeof(uint32_t))
#define SELECT_COLLECT    (SELECT_BYTES / sizeof(uint64_t))
/* p50, p95 and p99, each between two neighbours. */
#define SELECT_RANKS      6U

/* Values with the same highest bits that contain at least one of the ranks. */
struct select_group {
    uint64_t prefix;
    void *memory; /* SELECT_BYTES, borrowed */
    uint64_t low; /* smallest and largest value of this pass */
    uint64_t high;
    uint32_t collected;
    bool collects;
};

struct select_rank {
    uint64_t rank; /* from 0, within its group */
    uint64_t key;  /* the result, if done */
    uint32_t group;
    bool done;
};

struct select {
    struct select_group groups[SELECT_RANKS];
    struct select_rank ranks[SELECT_RANKS];
    unsigned shift; /* bits below the prefix */
    uint32_t group_count;
};

/* Maps a value to an unsigned integer with the same order. */
static inline uint64_t gsp_frames__quantiles_key(double v)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof(bits));
    return bits >> 63 ? ~bits : bits | (UINT64_C(1) << 63);
}

double gsp_frames__quantiles_value(uint64_t key);

static inline void gsp_frames__quantiles_count(uint32_t *counts, double v)
{
    counts[gsp_frames__quantiles_key(v) >> (64 - SELECT_DIGIT_BITS)]++;
}

/* Starts the selection among count (>= 1) values with the counts of the first pass. */
void gsp_frames__quantiles_begin(struct select *s, uint64_t count, const uint32_t *counts);
/* Whether another pass is needed. Each group needs memory before it. */
bool gsp_frames__quantiles_need_pass(const struct select *s);
void gsp_frames__quantiles_add(struct select *s, double v);
void gsp_frames__quantiles_end_pass(struct select *s);
/* p50, p95 and p99, with linear interpolation between two neighbours. */
void gsp_frames__quantiles_get(const struct select *s, uint64_t count, double out[3]);
