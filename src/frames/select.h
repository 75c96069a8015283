/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames_select.h -- order statistics of values that pass by several times: exact, in memory that
 * does not depend on how many there are.
 *
 * A value's bits are made to sort as the value does and are looked at from the highest on, eleven
 * at a time: each pass counts the next eleven bits of the values that agree with the wanted one so
 * far.  When few are left they are collected and sorted.
 *
 *   pass 1: gsp_frames__select_count() with each value, then _begin()
 *   while _live(): each value through _see(), then _advance()
 *
 * Used by: frames_stats.c.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SELECT_DIGIT_BITS 11U
#define SELECT_BUCKETS    (1U << SELECT_DIGIT_BITS)
/* Bytes of one table of counts; the same memory holds the values that are collected. */
#define SELECT_BYTES      (SELECT_BUCKETS * sizeof(uint32_t))
#define SELECT_COLLECT    (SELECT_BYTES / sizeof(uint64_t))
/* p50, p95, p99, each between two neighbours. */
#define SELECT_RANKS      6U

/* Values that agree in their highest bits, of which some ranks are wanted. */
struct select_group {
    uint64_t prefix;
    void *memory; /* SELECT_BYTES, borrowed */
    uint64_t low; /* smallest and largest seen in this pass */
    uint64_t high;
    uint32_t collected;
    bool collects;
};

struct select_rank {
    uint64_t rank; /* from 0, within its group */
    uint64_t key;  /* the answer, when done */
    uint32_t group;
    bool done;
};

struct select {
    struct select_group groups[SELECT_RANKS];
    struct select_rank ranks[SELECT_RANKS];
    unsigned shift; /* bits below the prefix */
    uint32_t group_count;
};

/* Bits that compare as unsigned numbers as the values do. */
static inline uint64_t gsp_frames__sortable(double v)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof(bits));
    return bits >> 63 ? ~bits : bits | (UINT64_C(1) << 63);
}

double gsp_frames__unsortable(uint64_t key);

static inline void gsp_frames__select_count(uint32_t *counts, double v)
{
    counts[gsp_frames__sortable(v) >> (64 - SELECT_DIGIT_BITS)]++;
}

/* Which ranks are wanted of count (>= 1) values, and what the first pass counted. */
void gsp_frames__select_begin(struct select *s, uint64_t count, const uint32_t *counts);
/* Whether another pass is needed; each group needs memory before it. */
bool gsp_frames__select_live(const struct select *s);
void gsp_frames__select_see(struct select *s, double v);
void gsp_frames__select_advance(struct select *s);
/* p50, p95, p99: between two neighbours in proportion, as is usual. */
void gsp_frames__select_results(const struct select *s, uint64_t count, double out[3]);
