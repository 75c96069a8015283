/* SPDX-License-Identifier: Apache-2.0 */
#include "memlog/view.h"

#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "model/tree.h"

static int64_t to_signed(uint64_t v)
{
    return v < INT64_MAX ? (int64_t)v : INT64_MAX;
}

/* ------------------------------------------------------------------------------------- values */

struct making {
    struct gsp_memlog_values *values;
    const struct gsp_memlog *log;
    const struct gsp_memlog_view_spec *question;
    struct gsp_memlog_replay replay;
};

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Adds the allocations of the tick that were freed within it. */
static void add_temporary(struct making *make)
{
    for (size_t i = 0; i < make->replay.changed_count; i++) {
        const uint32_t site = make->replay.changed[i];
        const struct gsp_memlog_count *now = &make->replay.counts[site];
        const struct gsp_memlog_count *before = &make->replay.before[i];
        struct gsp_memlog_value *value = &make->values->at[site];
        const uint64_t bytes = smaller(less(now->alloc_bytes, before->alloc_bytes),
                                       less(now->free_bytes, before->free_bytes));
        const uint64_t count = smaller(less(now->alloc_count, before->alloc_count),
                                       less(now->free_count, before->free_count));
        value->bytes = gsp_sum_i64(value->bytes, to_signed(bytes));
        value->count = gsp_sum_i64(value->count, to_signed(count));
    }
}

/* Stores the variance per live byte. The blocks of a site are similar, so it also applies to the
 * bytes at the peak. */
static void store_var(struct making *make)
{
    for (size_t i = 0; i < make->replay.changed_count; i++) {
        const uint32_t site = make->replay.changed[i];
        const struct gsp_memlog_count *now = &make->replay.counts[site];
        if (now->live_var && gsp_memlog_count_live(now))
            make->values->at[site].var = (double)now->live_var / (double)gsp_memlog_count_live(now);
    }
}

static void add_live(struct making *make, int sign)
{
    for (size_t i = 0; i < make->values->count; i++) {
        const struct gsp_memlog_count *count = &make->replay.counts[i];
        struct gsp_memlog_value *value = &make->values->at[i];
        value->bytes += sign * to_signed(gsp_memlog_count_live(count));
        value->count += sign * to_signed(count->alloc_count - count->free_count);
        value->alloc_bytes += (uint64_t)sign * count->alloc_bytes;
        value->alloc_count += (uint64_t)sign * count->alloc_count;
        /* Blocks that are live at both times have the same error at both, which cancels out. */
        value->var =
            sign > 0 ? fabs((double)count->live_var - value->var) : (double)count->live_var;
    }
}

/* Returns the variance per byte of a site that held nothing at any tick: that of small blocks,
 * which is the maximum. */
static double var_of_small(const struct gsp_memlog *log, size_t i)
{
    const struct gsp_memlog_site *site = gsp_memlog_site(log, i);
    return (double)gsp_memlog_process(log, site->process)->interval_bytes / (1 << 20);
}

static void set_peaks(struct making *make)
{
    for (size_t i = 0; i < make->values->count; i++) {
        const struct gsp_memlog_count *count = &make->replay.counts[i];
        double var = make->values->at[i].var;
        if (var <= 0)
            var = var_of_small(make->log, i);
        make->values->at[i] = (struct gsp_memlog_value){.bytes = to_signed(count->peak_bytes),
                                                        .count = to_signed(count->peak_count),
                                                        .var = var * (double)count->peak_bytes,
                                                        .alloc_bytes = count->alloc_bytes,
                                                        .alloc_count = count->alloc_count};
    }
}

/* Replays all ticks up to and including the time. */
static int replay_to(struct making *make, int64_t time_ns, struct gsp_err *err)
{
    const struct gsp_memlog_tick *tick;
    while ((tick = gsp_memlog_tick(make->log, make->replay.next)) && tick->time_ns <= time_ns) {
        /* Memory that an interpreter frees during shutdown is not temporary. */
        const bool is_end = tick->is_gone || tick->is_final;
        if (!gsp_memlog_replay_next(&make->replay))
            return gsp_err_nomem(err);
        if (make->question->view == GSP_MEMVIEW_TEMPORARY && !is_end)
            add_temporary(make);
        if (make->question->view == GSP_MEMVIEW_PEAK)
            store_var(make);
    }
    return GSP_OK;
}

static int set_leaks(struct making *make, const struct gsp_memlog_groups *groups,
                     struct gsp_err *err)
{
    struct gsp_memlog_leaks *leaks = &make->values->leaks;
    int rc = gsp_memlog_leaks_find(make->log, groups, leaks, err);
    bool *is_leak = rc == GSP_OK ? calloc(groups->count + 1, sizeof(*is_leak)) : NULL;
    if (!is_leak)
        return rc < 0 ? rc : gsp_err_nomem(err);
    for (size_t i = 0; i < leaks->count; i++)
        is_leak[leaks->at[i].group] = true;
    rc = replay_to(make, leaks->from_ns, err);
    if (rc == GSP_OK)
        add_live(make, -1);
    if (rc == GSP_OK)
        rc = replay_to(make, leaks->to_ns, err);
    if (rc == GSP_OK)
        add_live(make, 1);
    for (size_t i = 0; i < make->values->count; i++)
        if (!is_leak[groups->of_site[i]])
            make->values->at[i] = (struct gsp_memlog_value){0};
    free(is_leak);
    return rc;
}

static int fill_values(struct making *make, const struct gsp_memlog_groups *groups,
                       struct gsp_err *err)
{
    int rc = GSP_OK;
    switch (make->question->view) {
    case GSP_MEMVIEW_PEAK:
        rc = replay_to(make, INT64_MAX, err);
        set_peaks(make);
        break;
    case GSP_MEMVIEW_TEMPORARY:
        rc = replay_to(make, INT64_MAX, err);
        for (size_t i = 0; i < make->values->count; i++) {
            make->values->at[i].alloc_bytes = make->replay.counts[i].alloc_bytes;
            make->values->at[i].alloc_count = make->replay.counts[i].alloc_count;
        }
        break;
    case GSP_MEMVIEW_DIFF:
        rc = replay_to(make, make->question->from_ns, err);
        add_live(make, -1);
        if (rc == GSP_OK)
            rc = replay_to(make, make->question->to_ns, err);
        add_live(make, 1);
        break;
    case GSP_MEMVIEW_AT:
        rc = replay_to(make, make->question->to_ns, err);
        add_live(make, 1);
        break;
    case GSP_MEMVIEW_LEAKS:
        rc = set_leaks(make, groups, err);
        break;
    }
    return rc;
}

int gsp_memlog_values_create(struct gsp_memlog_values *values, const struct gsp_memlog *log,
                             const struct gsp_memlog_view_spec *question,
                             const struct gsp_memlog_groups *groups, struct gsp_err *err)
{
    struct making make = {.values = values, .log = log, .question = question};
    *values = (struct gsp_memlog_values){.count = gsp_memlog_site_count(log)};
    values->at = calloc(values->count + 1, sizeof(*values->at));
    int rc = values->at ? gsp_memlog_replay_begin(&make.replay, log, err) : gsp_err_nomem(err);
    if (rc == GSP_OK)
        rc = fill_values(&make, groups, err);
    gsp_memlog_replay_end(&make.replay);
    if (rc < 0)
        gsp_memlog_values_free(values);
    return rc;
}

void gsp_memlog_values_free(struct gsp_memlog_values *values)
{
    free(values->at);
    gsp_memlog_leaks_free(&values->leaks);
    *values = (struct gsp_memlog_values){0};
}

double gsp_memlog_value_error(const struct gsp_memlog_value *value)
{
    return 1024 * sqrt(fmax(value->var, 0));
}

/* --------------------------------------------------------------------------------------- rows */

static void add_value(struct gsp_memlog_value *sum, const struct gsp_memlog_value *value)
{
    sum->bytes = gsp_sum_i64(sum->bytes, value->bytes);
    sum->count = gsp_sum_i64(sum->count, value->count);
    sum->var += value->var;
    sum->alloc_bytes += value->alloc_bytes;
    sum->alloc_count += value->alloc_count;
}

static uint64_t amount(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

static int by_amount(const void *a, const void *b)
{
    const struct gsp_memlog_row *x = a;
    const struct gsp_memlog_row *y = b;
    const uint64_t p = amount(x->value.bytes);
    const uint64_t q = amount(y->value.bytes);
    if (p != q)
        return p < q ? 1 : -1;
    return (x->group > y->group) - (x->group < y->group);
}

int gsp_memlog_rows_create(struct gsp_memlog_rows *rows, const struct gsp_memlog *log,
                           const struct gsp_memlog_values *values,
                           const struct gsp_memlog_groups *groups, struct gsp_err *err)
{
    *rows = (struct gsp_memlog_rows){0};
    rows->at = calloc(groups->count + 1, sizeof(*rows->at));
    uint64_t *most = calloc(groups->count + 1, sizeof(*most));
    if (!rows->at || !most) {
        free(most);
        gsp_memlog_rows_free(rows);
        return gsp_err_nomem(err);
    }
    for (uint32_t g = 0; g < groups->count; g++)
        rows->at[g].group = g;
    for (size_t i = 0; i < values->count; i++) {
        const struct gsp_memlog_value *value = &values->at[i];
        const uint32_t g = groups->of_site[i];
        struct gsp_memlog_row *row = &rows->at[g];
        add_value(&row->value, value);
        add_value(&rows->all, value);
        if (amount(value->bytes) > most[g]) {
            most[g] = amount(value->bytes);
            row->stack = gsp_memlog_site(log, i)->stack;
        }
    }
    free(most);
    for (size_t g = 0; g < groups->count; g++)
        if (rows->at[g].value.bytes != 0 || rows->at[g].value.count != 0)
            rows->at[rows->count++] = rows->at[g];
    if (rows->count)
        qsort(rows->at, rows->count, sizeof(*rows->at), by_amount);
    return GSP_OK;
}

void gsp_memlog_rows_free(struct gsp_memlog_rows *rows)
{
    free(rows->at);
    *rows = (struct gsp_memlog_rows){0};
}

static struct gsp_total total_of(const struct gsp_memlog *log, const struct gsp_memlog_value *value,
                                 size_t site)
{
    const struct gsp_memlog_site *at = gsp_memlog_site(log, site);
    return (struct gsp_total){.thread = at->thread,
                              .stack = at->stack,
                              .count = value->count > 0 ? (uint64_t)value->count : 0,
                              .weight = value->bytes > 0 ? value->bytes : 0};
}

int gsp_memlog_values_fill(const struct gsp_memlog_values *values, const struct gsp_memlog *log,
                           struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < values->count; i++) {
        const struct gsp_total total = total_of(log, &values->at[i], i);
        if (total.weight > 0)
            rc = gsp_model_profile_add_total(gsp_memlog_profile(log), &total, err);
    }
    return rc;
}

int gsp_memlog_values_fill_heap(const struct gsp_memlog_values *values,
                                const struct gsp_memlog *log, struct gsp_total **out,
                                struct gsp_err *err)
{
    struct gsp_profile *profile = gsp_memlog_profile(log);
    struct gsp_hmap map = {0};
    int rc = GSP_OK;
    *out = calloc(values->count + 1, sizeof(**out));
    if (!*out)
        return gsp_err_nomem(err);
    for (size_t i = 0; rc == GSP_OK && i < values->count; i++) {
        const struct gsp_total total = total_of(log, &values->at[i], i);
        const uint32_t *known = gsp_hmap_get(&map, total.thread, total.stack);
        /* The totals of a profile are in the order of their first addition. */
        const uint32_t at = known ? *known : (uint32_t)map.count;
        if (!known && !gsp_hmap_put(&map, total.thread, total.stack, at))
            rc = gsp_err_nomem(err);
        if (rc == GSP_OK)
            rc = gsp_model_profile_add_total(profile, &total, err);
        (*out)[at].count += values->at[i].alloc_count;
        (*out)[at].weight = gsp_sum_i64((*out)[at].weight, to_signed(values->at[i].alloc_bytes));
    }
    gsp_hmap_free(&map);
    if (rc < 0) {
        free(*out);
        *out = NULL;
    }
    return rc;
}
