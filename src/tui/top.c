/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "model/tree.h"

struct gsp_top {
    const struct gsp_profile *profile;
    struct gsp_hmap cells; /* thread, stack -> index of the sum */
    struct gsp_top_sum *sums;
    size_t count;
    size_t cap;
    int64_t *threads; /* weight of each; -1: no sample yet */
    size_t thread_cap;
    struct gsp_top_span all;
    struct gsp_top_span last;
    struct gsp_top_span now;
    int64_t now_ns;
    bool has_interval; /* last is a complete interval */
    bool paused;
};

int gsp_tui_top_new(const struct gsp_profile *profile, struct gsp_top **out, struct gsp_err *err)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return gsp_err_nomem(err);
    (*out)->profile = profile;
    return GSP_OK;
}

void gsp_tui_top_free(struct gsp_top *top)
{
    if (!top)
        return;
    gsp_hmap_free(&top->cells);
    free(top->sums);
    free(top->threads);
    free(top);
}

const struct gsp_profile *gsp_tui__top_profile(const struct gsp_top *top)
{
    return top->profile;
}

static struct gsp_top_sum *sum_of(struct gsp_top *top, uint32_t thread, uint32_t stack)
{
    const uint32_t *known = gsp_hmap_get(&top->cells, thread, stack);
    if (known)
        return &top->sums[*known];
    if (!gsp_array_fit(&top->sums, &top->cap, top->count + 1))
        return NULL;
    if (!gsp_hmap_put(&top->cells, thread, stack, (uint32_t)top->count))
        return NULL;
    struct gsp_top_sum *sum = &top->sums[top->count++];
    *sum = (struct gsp_top_sum){.thread = thread, .stack = stack};
    return sum;
}

static bool count_thread(struct gsp_top *top, uint32_t thread, int64_t weight)
{
    size_t known = top->thread_cap;
    if (!gsp_array_fit(&top->threads, &top->thread_cap, (size_t)thread + 1))
        return false;
    for (; known < top->thread_cap; known++)
        top->threads[known] = -1;
    int64_t before = top->threads[thread];
    top->threads[thread] = gsp_sum_i64(before < 0 ? 0 : before, weight < 0 ? 0 : weight);
    return true;
}

static void add_to_span(struct gsp_top_span *span, uint64_t count, int64_t weight, uint32_t flags)
{
    span->samples = gsp_sum_u64(span->samples, count);
    span->weight = gsp_sum_i64(span->weight, weight);
    if (flags & GSP_SAMPLE_HAS_GIL)
        span->gil = gsp_sum_i64(span->gil, weight);
    if (flags & GSP_SAMPLE_ON_CPU)
        span->active = gsp_sum_i64(span->active, weight);
}

static int add(struct gsp_top *top, const struct gsp_total *total, uint32_t flags,
               struct gsp_err *err)
{
    struct gsp_top_sum *sum = sum_of(top, total->thread, total->stack);
    if (!sum || !count_thread(top, total->thread, total->weight))
        return gsp_err_nomem(err);
    sum->count = gsp_sum_u64(sum->count, total->count);
    sum->weight = gsp_sum_i64(sum->weight, total->weight);
    sum->now = gsp_sum_i64(sum->now, total->weight);
    add_to_span(&top->all, total->count, total->weight, flags);
    add_to_span(&top->now, total->count, total->weight, flags);
    return GSP_OK;
}

int gsp_tui_top_add(struct gsp_top *top, const struct gsp_sample *sample, struct gsp_err *err)
{
    if (top->paused)
        return GSP_OK;
    const struct gsp_total total = {
        .thread = sample->thread, .stack = sample->stack, .count = 1, .weight = sample->weight};
    return add(top, &total, sample->flags, err);
}

int gsp_tui_top_add_totals(struct gsp_top *top, struct gsp_err *err)
{
    for (size_t i = 0; i < gsp_model_profile_total_count(top->profile); i++) {
        int rc = add(top, gsp_model_profile_total_at(top->profile, i), 0, err);
        if (rc < 0)
            return rc;
    }
    return GSP_OK;
}

void gsp_tui_top_advance(struct gsp_top *top, int64_t now_ns)
{
    int64_t passed = now_ns - top->now_ns;
    if (passed <= 0)
        return;
    top->now_ns = now_ns;
    if (top->paused)
        return;
    top->all.length_ns += passed;
    top->now.length_ns += passed;
}

void gsp_tui_top_end_interval(struct gsp_top *top)
{
    if (top->paused)
        return;
    for (size_t i = 0; i < top->count; i++) {
        top->sums[i].last = top->sums[i].now;
        top->sums[i].now = 0;
    }
    top->last = top->now;
    top->now = (struct gsp_top_span){0};
    top->has_interval = true;
}

void gsp_tui_top_reset(struct gsp_top *top)
{
    gsp_hmap_clear(&top->cells);
    top->count = 0;
    for (size_t i = 0; i < top->thread_cap; i++)
        top->threads[i] = -1;
    top->all = (struct gsp_top_span){0};
    top->last = top->all;
    top->now = top->all;
    top->has_interval = false;
}

void gsp_tui_top_seek(struct gsp_top *top, int64_t now_ns)
{
    gsp_tui_top_reset(top);
    top->now_ns = now_ns;
}

void gsp_tui_top_pause(struct gsp_top *top, bool paused)
{
    top->paused = paused;
}

const struct gsp_top_span *gsp_tui__top_all(const struct gsp_top *top)
{
    return &top->all;
}

const struct gsp_top_span *gsp_tui_top_recent(const struct gsp_top *top)
{
    return top->has_interval ? &top->last : &top->now;
}

int64_t gsp_tui__top_sum_recent(const struct gsp_top *top, const struct gsp_top_sum *sum)
{
    return top->has_interval ? sum->last : sum->now;
}

size_t gsp_tui__top_sum_count(const struct gsp_top *top)
{
    return top->count;
}

const struct gsp_top_sum *gsp_tui__top_sum_at(const struct gsp_top *top, size_t i)
{
    return i < top->count ? &top->sums[i] : NULL;
}

int64_t gsp_tui__top_thread_weight(const struct gsp_top *top, uint32_t thread)
{
    return thread < top->thread_cap ? top->threads[thread] : -1;
}

double gsp_tui__top_percent(const struct gsp_top *top, const struct gsp_top_span *span,
                            int64_t weight)
{
    bool is_time = gsp_model_profile_meta_get(top->profile)->unit == GSP_UNIT_NS;
    int64_t whole = is_time && span->length_ns > 0 ? span->length_ns : span->weight;
    return whole > 0 ? 100 * (double)weight / (double)whole : 0;
}
