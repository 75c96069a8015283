/* SPDX-License-Identifier: Apache-2.0 */
#include "export/timeline.h"

#include <stdlib.h>

/* No span ends later: far beyond any recording, and additions do not overflow. */
#define TIME_MAX (INT64_MAX / 4)

static int64_t clamp(int64_t v)
{
    if (v < 0)
        return 0;
    return v < TIME_MAX ? v : TIME_MAX;
}

/* Appends a span that begins at start, or at the end of the last one if the gap is small. */
static void append(struct gsp_buf *spans, int64_t *end, int64_t start,
                   const struct gsp_sample *sample, int64_t period_ns)
{
    int64_t len = clamp(sample->weight);
    int64_t gap = clamp(start) - *end;
    if (gap <= (period_ns > 0 ? period_ns : len) / 2)
        gap = 0;
    if (*end + gap + len > TIME_MAX)
        len = 0;
    gsp_buf_varint(spans, (uint64_t)gap);
    gsp_buf_varint(spans, (uint64_t)len);
    gsp_buf_varint(spans, sample->stack);
    *end += gap + len;
}

/* A weight in nanoseconds is the time before the sample. */
static int64_t start_of(const struct gsp_sample *sample, enum gsp_unit unit)
{
    return unit == GSP_UNIT_NS ? clamp(sample->time_ns) - clamp(sample->weight) : sample->time_ns;
}

static void append_samples(const struct gsp_profile *profile, struct gsp_timeline *timeline,
                           int64_t *ends)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(profile);
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_model_sample_iter_init(&iter, profile);
    while (gsp_model_sample_iter_next(&iter, &sample))
        append(&timeline->threads[sample.thread], &ends[sample.thread],
               start_of(&sample, meta->unit), &sample, meta->period_ns);
}

static void append_totals(const struct gsp_profile *profile, struct gsp_timeline *timeline,
                          int64_t *ends)
{
    for (size_t i = 0; i < gsp_model_profile_total_count(profile); i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(profile, i);
        struct gsp_sample sample = {.weight = total->weight, .stack = total->stack};
        append(&timeline->threads[total->thread], &ends[total->thread], 0, &sample, 0);
    }
}

int gsp_export__timeline_fill(const struct gsp_profile *profile, struct gsp_timeline *timeline,
                              struct gsp_err *err)
{
    size_t count = gsp_model_profile_thread_count(profile);
    *timeline = (struct gsp_timeline){.thread_count = count};
    timeline->threads = calloc(count + 1, sizeof(*timeline->threads));
    timeline->frame_map =
        calloc(gsp_model_profile_frame_count(profile) + 1, sizeof(*timeline->frame_map));
    int64_t *ends = calloc(count + 1, sizeof(*ends));
    bool failed = !timeline->threads || !timeline->frame_map || !ends;
    if (!failed) {
        if (gsp_model_profile_has_samples(profile))
            append_samples(profile, timeline, ends);
        else
            append_totals(profile, timeline, ends);
        for (size_t i = 0; i < count; i++) {
            failed = failed || timeline->threads[i].failed;
            timeline->end = ends[i] > timeline->end ? ends[i] : timeline->end;
        }
    }
    free(ends);
    if (!failed)
        return GSP_OK;
    gsp_export__timeline_free(timeline);
    return gsp_err_nomem(err);
}

void gsp_export__timeline_free(struct gsp_timeline *timeline)
{
    for (size_t i = 0; timeline->threads && i < timeline->thread_count; i++)
        gsp_buf_free(&timeline->threads[i]);
    free(timeline->threads);
    free(timeline->frame_map);
    *timeline = (struct gsp_timeline){0};
}

void gsp_export__timeline_iter_init(struct gsp_timeline_iter *iter,
                                    const struct gsp_timeline *timeline, uint32_t thread)
{
    const struct gsp_buf *spans = &timeline->threads[thread];
    const unsigned char *p = (const unsigned char *)spans->p;
    *iter = (struct gsp_timeline_iter){.cursor = {p, p ? p + spans->len : NULL}};
}

bool gsp_export__timeline_iter_next(struct gsp_timeline_iter *iter, struct gsp_timeline_span *out)
{
    uint64_t gap = 0;
    uint64_t len = 0;
    uint64_t stack = 0;
    if (!gsp_cursor_varint(&iter->cursor, &gap) || !gsp_cursor_varint(&iter->cursor, &len) ||
        !gsp_cursor_varint(&iter->cursor, &stack))
        return false;
    *out = (struct gsp_timeline_span){
        .start = iter->end + (int64_t)gap, .len = (int64_t)len, .stack = (uint32_t)stack};
    iter->end = out->start + out->len;
    return true;
}
