/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/time.h"
#include "frames/log_internal.h"
#include "frames/quantiles.h"

#define CHUNK_BYTES    (128U << 10)
/* Tables of counts in memory at a time: 16 MB for any number of metrics and frames. */
#define POOL_TABLES    2048U
#define GAP_PERIODS    3
#define FRAMES_MAX     UINT32_MAX /* limit of a table of counts */
#define SMALLEST_CHUNK 64U

/* The statistics of one metric so far. */
struct tally {
    uint64_t count;
    double sum;
    double rest; /* rounding errors of the sum */
    double mean;
    double squares; /* of the distances from the mean */
    double min;
    double max;
    double integral;
    double integral_s;
    double before;       /* value in the row before_row */
    uint64_t before_row; /* number of the row in the range, from 1 */
    enum frames_kind kind;
    uint32_t *counts; /* of the first pass; borrowed from the pool */
    struct select select;
    bool squares_done;
    bool live; /* part of this pass */
};

/* One pass over the rows of a range. */
struct pass {
    struct gsp_frame_log *frames;
    const struct frames_segment *segments;
    size_t segment_count;
    uint64_t first;
    uint64_t last;
    struct gsp_frame_log_stats *out;
    struct tally *tallies;
    uint32_t **maps;       /* for each segment: metric -> tally */
    struct gsp_buf active; /* uint32_t: the metrics of the segment that are part of this pass */
    struct gsp_buf chunk;
    void (*row)(struct pass *pass, const struct frames_head *head, const uint32_t *map,
                const char *row);

    /* The previous row, for gaps and integrals in the first pass. */
    struct frames_row before;
    unsigned char boot[FRAMES_BOOT_BYTES];
    uint64_t run;
    uint64_t rows;
    double step_s; /* since the previous row; 0: after a gap */
    size_t tables; /* tables of counts that fit in memory */
    size_t from;   /* tallies of this batch */
    size_t to;
};

/* The chunk and all its rows are aligned for doubles. */
static const double *values_of(const char *row)
{
    return (const double *)(const void *)(row + sizeof(struct frames_row));
}

/* Lists the metrics that are part of this pass. Most metrics need only one or two passes. */
static bool list_active(struct pass *pass, const struct frames_head *head, const uint32_t *map)
{
    gsp_buf_clear(&pass->active);
    for (uint32_t i = 0; i < head->metric_count; i++)
        if (pass->tallies[map[i]].live)
            gsp_buf_put(&pass->active, &i, sizeof(i));
    return !pass->active.failed;
}

static int pass_segment(struct pass *pass, size_t index, struct gsp_err *err)
{
    const struct frames_segment *segment = &pass->segments[index];
    uint64_t count = 0;
    uint64_t at = gsp_frames__clip(segment, pass->first, pass->last, &count);
    struct frames_head head = {0};
    int opened = -1;
    int rc =
        gsp_frames_segment_open(pass->frames->folder_fd, segment->first_id, &head, &opened, err);
    gsp_auto_fd fd = opened;
    if (rc == GSP_E_NOFILE || !pass->maps[index])
        count = 0; /* it was removed, so no session needs it */
    else if (rc)
        return rc;
    rc = 0;
    if (count && !list_active(pass, &head, pass->maps[index]))
        rc = gsp_err_nomem(err);
    size_t per_chunk = CHUNK_BYTES / segment->row_bytes;
    per_chunk = per_chunk < SMALLEST_CHUNK ? SMALLEST_CHUNK : per_chunk;
    while (count && rc == 0) {
        size_t n = count < per_chunk ? (size_t)count : per_chunk;
        gsp_buf_clear(&pass->chunk);
        char *p = gsp_buf_reserve(&pass->chunk, n * segment->row_bytes);
        if (!p) {
            rc = gsp_err_nomem(err);
            break;
        }
        rc = gsp_frames__pread(fd, p, n * segment->row_bytes,
                               segment->header_bytes + at * segment->row_bytes, err);
        for (size_t i = 0; i < n && rc == 0; i++)
            pass->row(pass, &head, pass->maps[index], p + i * segment->row_bytes);
        at += n;
        count -= n;
    }
    gsp_frames_head_free(&head);
    return rc;
}

static int run_pass(struct pass *pass, struct gsp_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < pass->segment_count && rc == 0; i++)
        rc = pass_segment(pass, i, err);
    return rc;
}

/* The metrics in the range. */

#define METRIC_TEXTS 5U

/* A metric. Texts are offsets in joining.texts, which moves when it grows. */
struct joined {
    size_t texts[METRIC_TEXTS]; /* name, device, label, unit, unit of the integral */
    enum frames_kind kind;
};

struct joining {
    struct gsp_buf texts;
    struct gsp_buf items;  /* struct joined */
    struct gsp_hmap index; /* hash of the texts -> index */
};

static const char *integral_unit(const struct frames_metric *m)
{
    if (m->kind == FRAMES_AMOUNT)
        return m->unit;
    if (m->kind == FRAMES_PLAIN)
        return "";
    return strcmp(m->unit, "W") == 0 ? "J" : strcmp(m->unit, "bytes/s") == 0 ? "bytes" : "1";
}

static uint32_t join_metric(struct joining *j, const struct frames_metric *m)
{
    uint64_t a = gsp_hash_bytes(m->name, strlen(m->name), 1);
    uint64_t b = gsp_hash_bytes(m->device, strlen(m->device), 2);
    b = gsp_hash_bytes(m->label, strlen(m->label), b);
    const uint32_t *found = gsp_hmap_get(&j->index, a, b);
    if (found)
        return *found;
    uint32_t index = (uint32_t)(j->items.len / sizeof(struct joined));
    struct joined item = {.kind = m->kind};
    const char *texts[METRIC_TEXTS] = {m->name, m->device, m->label, m->unit, integral_unit(m)};
    for (size_t i = 0; i < METRIC_TEXTS; i++) {
        item.texts[i] = j->texts.len;
        gsp_buf_put(&j->texts, texts[i], strlen(texts[i]) + 1);
    }
    gsp_buf_put(&j->items, &item, sizeof(item));
    if (!gsp_hmap_put(&j->index, a, b, index))
        j->items.failed = true;
    return index;
}

static int join_segment(struct pass *pass, struct joining *j, size_t i, struct gsp_err *err)
{
    struct frames_head head = {0};
    int opened = -1;
    int rc = gsp_frames_segment_open(pass->frames->folder_fd, pass->segments[i].first_id, &head,
                                     &opened, err);
    gsp_fd_close(&opened);
    if (rc)
        return rc == GSP_E_NOFILE ? 0 : rc;
    pass->maps[i] = calloc((size_t)head.metric_count + 1, sizeof(*pass->maps[i]));
    for (uint32_t m = 0; m < head.metric_count && pass->maps[i]; m++)
        pass->maps[i][m] = join_metric(j, &head.metrics[m]);
    gsp_frames_head_free(&head);
    if (!pass->maps[i] || j->items.failed || j->texts.failed)
        return gsp_err_nomem(err);
    return 0;
}

/* Creates the list of metrics for the caller, and a tally for each. */
static int list_metrics(struct pass *pass, struct joining *j, struct gsp_err *err)
{
    struct gsp_frame_log_stats *out = pass->out;
    size_t n = j->items.len / sizeof(struct joined);
    out->metrics = calloc(n + 1, sizeof(*out->metrics));
    pass->tallies = calloc(n + 1, sizeof(*pass->tallies));
    if (!out->metrics || !pass->tallies)
        return gsp_err_nomem(err);
    out->count = n;
    out->memory = j->texts.p;
    for (size_t i = 0; i < n; i++) {
        struct joined item;
        memcpy(&item, j->items.p + i * sizeof(item), sizeof(item));
        pass->tallies[i].kind = item.kind;
        out->metrics[i].name = j->texts.p + item.texts[0];
        out->metrics[i].device = j->texts.p + item.texts[1];
        out->metrics[i].label = j->texts.p + item.texts[2];
        out->metrics[i].unit = j->texts.p + item.texts[3];
        out->metrics[i].integral_unit = j->texts.p + item.texts[4];
    }
    j->texts = (struct gsp_buf){0}; /* now owned by out->memory */
    return 0;
}

/* Creates the list of metrics, and the map from the metrics of each segment to it. */
static int join_metrics(struct pass *pass, struct gsp_err *err)
{
    struct joining j = {0};
    int rc = 0;
    pass->maps = calloc(pass->segment_count + 1, sizeof(*pass->maps));
    if (!pass->maps)
        rc = gsp_err_nomem(err);
    for (size_t i = 0; i < pass->segment_count && rc == 0; i++)
        rc = join_segment(pass, &j, i, err);
    if (rc == 0)
        rc = list_metrics(pass, &j, err);
    gsp_buf_free(&j.texts);
    gsp_buf_free(&j.items);
    gsp_hmap_free(&j.index);
    return rc;
}

/* The first pass. */

/* The time between two rows. A damaged row may have any time: -1 if it is out of range. */
static int64_t step_ns(const struct frames_row *before, const struct frames_row *row)
{
    int64_t step = 0;
    return __builtin_sub_overflow(row->mono_ns, before->mono_ns, &step) ? -1 : step;
}

/* Why there is a gap between the previous row and this one; NULL: there is none. */
static const char *gap_cause(const struct pass *pass, const struct frames_head *head,
                             const struct frames_row *row, int64_t before_step_ns)
{
    const struct frames_row *b = &pass->before;
    if (memcmp(pass->boot, head->boot, sizeof(pass->boot)) != 0)
        return "reboot";
    int64_t period = b->period_ns > row->period_ns ? b->period_ns : row->period_ns;
    if (period <= 0)
        period = before_step_ns;
    int64_t step = step_ns(b, row);
    bool is_long = period > 0 && (double)step > (double)GAP_PERIODS * (double)period;
    if (row->lost)
        return "lost";
    if (step < 0 || row->frame_id != b->frame_id + 1 || (is_long && pass->run != head->run))
        return "restart";
    return is_long ? "late" : NULL;
}

static void add_gap(struct gsp_frame_log_stats *out, const struct frames_row *before,
                    const struct frames_row *row, const char *cause)
{
    out->gaps_total++;
    if (out->gap_count >= GSP_FRAME_GAPS_MAX)
        return;
    if (!out->gaps)
        out->gaps = calloc(GSP_FRAME_GAPS_MAX, sizeof(*out->gaps));
    if (out->gaps)
        out->gaps[out->gap_count++] = (struct gsp_frame_log_gap){.after_id = before->frame_id,
                                                                 .after_count = out->frames,
                                                                 .from_ns = before->ts_ns,
                                                                 .to_ns = row->ts_ns,
                                                                 .lost = row->lost,
                                                                 .cause = cause};
}

/* Compares the time of a row with the previous one. Sets step_s. */
static void check_time(struct pass *pass, const struct frames_head *head,
                       const struct frames_row *row)
{
    struct gsp_frame_log_stats *out = pass->out;
    int64_t step = step_ns(&pass->before, row);
    int64_t before_step = pass->step_s > 0 ? (int64_t)(pass->step_s * (double)GSP_NS_PER_S) : 0;
    pass->step_s = 0;
    if (out->frames == 0) {
        out->first_ns = row->ts_ns;
    } else {
        const char *cause = gap_cause(pass, head, row, before_step);
        if (cause)
            add_gap(out, &pass->before, row, cause);
        else
            pass->step_s = (double)step / (double)GSP_NS_PER_S;
        out->clock_steps += row->ts_ns < pass->before.ts_ns;
        out->lost += row->lost;
    }
    out->frames++;
    out->last_ns = row->ts_ns;
    out->period_ns = row->period_ns ? row->period_ns : before_step;
    pass->before = *row;
    pass->run = head->run;
    memcpy(pass->boot, head->boot, sizeof(pass->boot));
}

static void tally_value(struct tally *t, double v, uint64_t row, double step_s)
{
    /* Neumaier summation: the rounding errors are summed separately. */
    double sum = t->sum + v;
    t->rest += fabs(t->sum) >= fabs(v) ? (t->sum - sum) + v : (v - sum) + t->sum;
    t->sum = sum;
    if (!t->count || v < t->min)
        t->min = v;
    if (!t->count || v > t->max)
        t->max = v;
    t->count++;
    if (t->kind == FRAMES_RATE) {
        if (step_s > 0 && t->before_row + 1 == row) {
            t->integral += step_s * (t->before + v) / 2;
            t->integral_s += step_s;
        }
        t->before = v;
        t->before_row = row;
    } else if (t->kind == FRAMES_AMOUNT) {
        t->integral_s += step_s;
    }
    gsp_frames__quantiles_count(t->counts, v);
}

static void first_row(struct pass *pass, const struct frames_head *head, const uint32_t *map,
                      const char *bytes)
{
    struct frames_row row;
    memcpy(&row, bytes, sizeof(row));
    if (row.frame_id < pass->first || row.frame_id > pass->last) {
        pass->out->damaged += pass->from == 0;
        return;
    }
    /* Only the first batch of metrics reports times; the others compute the same steps. */
    if (pass->from == 0) {
        check_time(pass, head, &row);
    } else {
        struct gsp_frame_log_stats scratch = *pass->out;
        struct gsp_frame_log_stats *out = pass->out;
        scratch.frames = pass->rows;
        scratch.gap_count = GSP_FRAME_GAPS_MAX;
        pass->out = &scratch;
        check_time(pass, head, &row);
        pass->out = out;
    }
    pass->rows++;
    const double *values = values_of(bytes);
    for (uint32_t i = 0; i < head->metric_count; i++) {
        double v = values[i];
        if (map[i] >= pass->from && map[i] < pass->to && isfinite(v))
            tally_value(&pass->tallies[map[i]], v, pass->rows, pass->step_s);
    }
}

static int first_pass(struct pass *pass, uint32_t *pool, struct gsp_err *err)
{
    int rc = 0;
    for (pass->from = 0; rc == 0; pass->from = pass->to) {
        size_t left = pass->out->count - pass->from;
        size_t n = left < pass->tables ? left : pass->tables;
        pass->to = pass->from + n;
        memset(pool, 0, n * SELECT_BYTES);
        for (size_t i = 0; i < n; i++)
            pass->tallies[pass->from + i].counts = pool + i * SELECT_BUCKETS;
        pass->rows = 0;
        pass->step_s = 0;
        rc = run_pass(pass, err);
        for (size_t i = pass->from; i < pass->to && rc == 0; i++) {
            struct tally *t = &pass->tallies[i];
            if (!t->count)
                continue;
            t->mean = (t->sum + t->rest) / (double)t->count;
            gsp_frames__quantiles_begin(&t->select, t->count, t->counts);
        }
        if (pass->to >= pass->out->count)
            break;
    }
    return rc;
}

/* The passes of the quantiles. */

static void later_row(struct pass *pass, const struct frames_head *head, const uint32_t *map,
                      const char *bytes)
{
    struct frames_row row;
    memcpy(&row, bytes, sizeof(row));
    if (row.frame_id < pass->first || row.frame_id > pass->last)
        return;
    const double *values = values_of(bytes);
    const uint32_t *active = (const uint32_t *)(const void *)pass->active.p;
    size_t n = pass->active.len / sizeof(*active);
    for (size_t i = 0; i < n && active[i] < head->metric_count; i++) {
        struct tally *t = &pass->tallies[map[active[i]]];
        double v = values[active[i]];
        if (!isfinite(v))
            continue;
        if (!t->squares_done)
            t->squares += (v - t->mean) * (v - t->mean);
        gsp_frames__quantiles_add(&t->select, v);
    }
}

/* Assigns the memory to as many metrics as possible. Returns how many are part of this pass. */
static size_t enlist(struct pass *pass, char *pool)
{
    size_t used = 0;
    size_t live = 0;
    for (size_t i = 0; i < pass->out->count; i++) {
        struct tally *t = &pass->tallies[i];
        bool needs_pass =
            t->count && t->min < t->max && gsp_frames__quantiles_need_pass(&t->select);
        t->live = needs_pass && used + t->select.group_count <= pass->tables;
        for (uint32_t g = 0; t->live && g < t->select.group_count; g++)
            t->select.groups[g].memory = pool + used++ * SELECT_BYTES;
        live += t->live;
    }
    memset(pool, 0, used * SELECT_BYTES);
    return live;
}

static int later_passes(struct pass *pass, char *pool, struct gsp_err *err)
{
    int rc = 0;
    pass->row = later_row;
    while (rc == 0 && enlist(pass, pool)) {
        rc = run_pass(pass, err);
        for (size_t i = 0; i < pass->out->count && rc == 0; i++) {
            struct tally *t = &pass->tallies[i];
            if (!t->live)
                continue;
            gsp_frames__quantiles_end_pass(&t->select);
            t->squares_done = true;
        }
    }
    return rc;
}

static void finish(const struct tally *t, struct gsp_metric_stats *out)
{
    out->count = t->count;
    out->integral = (double)NAN;
    if (!t->count) {
        out->mean = out->std = out->min = out->max = out->p50 = out->p95 = out->p99 = (double)NAN;
        return;
    }
    out->min = t->min;
    out->max = t->max;
    double quantiles[3] = {t->min, t->min, t->min};
    out->mean = t->min; /* exact if all values are equal */
    if (t->min < t->max) {
        out->mean = t->mean;
        gsp_frames__quantiles_get(&t->select, t->count, quantiles);
    }
    out->std = sqrt(t->squares / (double)t->count);
    out->p50 = quantiles[0];
    out->p95 = quantiles[1];
    out->p99 = quantiles[2];
    if (t->kind == FRAMES_PLAIN)
        return;
    out->integral = t->kind == FRAMES_AMOUNT ? t->sum + t->rest : t->integral;
    out->integral_s = t->integral_s;
}

static int compute(struct pass *pass, struct gsp_err *err)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < pass->segment_count; i++)
        rows += pass->segments[i].rows;
    if (rows > FRAMES_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the session has more than %u frames", FRAMES_MAX);
    int rc = join_metrics(pass, err);
    if (rc)
        return rc;
    size_t tables = pass->out->count * SELECT_RANKS;
    pass->tables = tables < POOL_TABLES ? tables : POOL_TABLES;
    void *pool = malloc(pass->tables * SELECT_BYTES + 1);
    if (!pool)
        return gsp_err_nomem(err);
    pass->row = first_row;
    rc = first_pass(pass, pool, err);
    if (rc == 0)
        rc = later_passes(pass, pool, err);
    for (size_t i = 0; i < pass->out->count && rc == 0; i++)
        finish(&pass->tallies[i], &pass->out->metrics[i]);
    free(pool);
    return rc;
}

int gsp_frames__log_stats(struct gsp_frame_log *frames, uint64_t first, uint64_t last,
                          struct gsp_frame_log_stats *out, struct gsp_err *err)
{
    *out = (struct gsp_frame_log_stats){0};
    struct frames_segment *segments = NULL;
    size_t n = 0;
    int rc = gsp_frames__snapshot(frames, first, last, &segments, &n, err);
    if (rc)
        return rc;
    struct pass pass = {.frames = frames,
                        .segments = segments,
                        .segment_count = n,
                        .first = first,
                        .last = last,
                        .out = out};
    rc = compute(&pass, err);
    for (size_t i = 0; i < n && pass.maps; i++)
        free(pass.maps[i]);
    free(pass.maps);
    free(pass.tallies);
    gsp_buf_free(&pass.chunk);
    gsp_buf_free(&pass.active);
    free(segments);
    if (rc)
        gsp_frames__log_stats_free(out);
    return rc;
}

void gsp_frames__log_stats_free(struct gsp_frame_log_stats *stats)
{
    free(stats->metrics);
    free(stats->gaps);
    free(stats->memory);
    *stats = (struct gsp_frame_log_stats){0};
}
