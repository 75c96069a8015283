/* SPDX-License-Identifier: Apache-2.0 */
#include "store/source_ring.h"

#include <stdlib.h>
#include <string.h>

#include "ring/reader.h"
#include "store/manifest.h"

/* Bytes of memory for each string beside its text: in the copy of the dictionary, in the merged
 * one, and while they are merged. */
#define STRING_COST 128U

struct ring {
    struct gsp_ring_view *view;
    struct gsp_ring_range *spans; /* of the last refresh; GSP_RING_LANES_MAX fit */
    size_t span_count;
    uint64_t *first_rows; /* by lane: earlier rows come from segments */
    size_t first_count;
    struct gsp_ring_dict dict;
    uint64_t published;               /* rows ever written, when the dictionary was read */
    uint64_t overwritten;             /* rows that are neither in the ring nor in segments */
    struct gsp_source_loss elsewhere; /* part of the ring's counts that the manifest reports */
    uint32_t string_count;            /* strings in dict, without the gaps */
};

static uint64_t first_row(const struct ring *ring, uint32_t lane)
{
    return lane < ring->first_count ? ring->first_rows[lane] : 0;
}

static uint32_t count_strings(const struct gsp_ring_dict *dict)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < dict->count; i++)
        count += dict->strings[i].p ? 1 : 0;
    return count;
}

/* Subtracts what the strings of a dictionary use. */
static void charge(struct gsp_string_budget *budget, const struct gsp_ring_dict *dict)
{
    const uint64_t bytes = dict->byte_count + (uint64_t)dict->count * STRING_COST;
    budget->left_bytes -= bytes < budget->left_bytes ? bytes : budget->left_bytes;
}

static int read_dict(struct gsp_source *source, struct gsp_string_budget *budget, bool *changed,
                     struct gsp_err *err)
{
    struct ring *ring = source->impl;
    struct gsp_ring_dict dict = {0};
    const int rc =
        gsp_ring_dict_read_within(ring->view, budget->left_bytes, STRING_COST, &dict, err);
    if (rc != GSP_OK) {
        ring->span_count = 0;
        source->row_count = 0;
        return rc;
    }
    charge(budget, &dict);
    /* Strings are only added. If a gap was filled, the second count changes. */
    const uint32_t count = count_strings(&dict);
    if (source->codes && dict.count == ring->dict.count && count == ring->string_count) {
        gsp_ring_dict_free(&dict);
        return GSP_OK;
    }
    gsp_ring_dict_free(&ring->dict);
    ring->dict = dict;
    ring->string_count = count;
    source->strings = dict.strings;
    source->string_count = dict.count;
    *changed = true;
    return GSP_OK;
}

/* Reads the rows before the dictionary, so that the dictionary has all their strings. */
static int refresh(struct gsp_source *source, struct gsp_string_budget *budget, bool *changed,
                   struct gsp_err *err)
{
    struct ring *ring = source->impl;
    const size_t count = gsp_ring_ranges(ring->view, ring->spans, GSP_RING_LANES_MAX, NULL);
    uint64_t published = 0;
    size_t kept = 0;
    source->row_count = 0;
    ring->overwritten = 0;
    for (size_t i = 0; i < count; i++) {
        struct gsp_ring_range span = ring->spans[i];
        const uint64_t first = first_row(ring, span.lane);
        published += span.to;
        if (span.from > first)
            ring->overwritten += span.from - first;
        else
            span.from = first;
        if (span.from < span.to) {
            source->row_count += span.to - span.from;
            ring->spans[kept++] = span;
        }
    }
    ring->span_count = kept;
    if (!budget)
        return GSP_OK;
    if (source->codes && published == ring->published && ring->dict.count > 0) {
        charge(budget, &ring->dict);
        return GSP_OK;
    }
    ring->published = published;
    return read_dict(source, budget, changed, err);
}

static int select_rows(const struct gsp_source *source, const struct gsp_time_range *range,
                       struct gsp_spans *out, struct gsp_err *err)
{
    const struct ring *ring = source->impl;
    const bool all = range->from_ns == INT64_MIN && range->to_ns == INT64_MAX;
    for (size_t i = 0; i < ring->span_count; i++) {
        struct gsp_ring_range span = ring->spans[i];
        if (!all)
            gsp_ring_range_narrow(ring->view, &span, range->from_ns, range->to_ns);
        const int rc = span.from < span.to
                           ? gsp_store__spans_add(
                                 out, (struct gsp_source_span){span.from, span.to, span.lane}, err)
                           : GSP_OK;
        if (rc != GSP_OK)
            return rc;
    }
    return GSP_OK;
}

static const void *values(const struct gsp_source *source, uint32_t lane, uint32_t column,
                          uint64_t from, size_t *n)
{
    const struct ring *ring = source->impl;
    return gsp_ring_values(ring->view, lane, column, from, n);
}

static uint64_t oldest(const struct gsp_source *source, uint32_t lane)
{
    const struct ring *ring = source->impl;
    return gsp_ring_oldest_row(ring->view, lane);
}

static bool text(const struct gsp_source *source, uint32_t lane, const void *value,
                 struct gsp_buf *out, bool *gone)
{
    const struct ring *ring = source->impl;
    uint64_t ref = 0;
    bool null = false;
    memcpy(&ref, value, sizeof(ref));
    const bool found = gsp_ring_text_read(ring->view, lane, ref, out, &null);
    *gone = !found && !null;
    return found;
}

static void free_ring(struct gsp_source *source)
{
    struct ring *ring = source->impl;
    gsp_ring_dict_free(&ring->dict);
    gsp_ring_view_close(ring->view);
    free(ring->spans);
    free(ring->first_rows);
    free(ring);
}

static const struct gsp_source_ops ops = {
    .refresh = refresh,
    .select = select_rows,
    .values = values,
    .oldest = oldest,
    .text = text,
    .text_width = sizeof(uint64_t),
    .free = free_ring,
};

static uint64_t lost_elsewhere(const struct ring *ring, const struct gsp_ring_start *first,
                               const char *cause)
{
    return first->lost_of ? first->lost_of(first->ctx, gsp_ring_info(ring->view), cause) : 0;
}

static bool set_first_rows(struct ring *ring, const struct gsp_ring_start *first)
{
    if (!first)
        return true;
    ring->elsewhere.rows_lost = lost_elsewhere(ring, first, GSP_LOSS_NO_LANE);
    ring->elsewhere.rows_no_file = lost_elsewhere(ring, first, GSP_LOSS_NO_FILE);
    ring->elsewhere.strings_lost = lost_elsewhere(ring, first, GSP_LOSS_STRINGS);
    ring->first_rows = calloc(GSP_RING_LANES_MAX, sizeof(*ring->first_rows));
    if (!ring->first_rows)
        return false;
    for (uint32_t lane = 0; lane < GSP_RING_LANES_MAX; lane++) {
        ring->first_rows[lane] = first->row_of(first->ctx, gsp_ring_info(ring->view), lane);
        ring->first_count = ring->first_rows[lane] ? lane + 1 : ring->first_count;
    }
    return true;
}

int gsp_store__ring_source_new(struct gsp_ring_view *view, const struct gsp_ring_start *first,
                               struct gsp_source **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_source *source = calloc(1, sizeof(*source));
    struct ring *ring = calloc(1, sizeof(*ring));
    struct gsp_ring_range *spans = malloc(GSP_RING_LANES_MAX * sizeof(*spans));
    if (!source || !ring || !spans) {
        free(source);
        free(ring);
        free(spans);
        gsp_ring_view_close(view);
        return gsp_err_nomem(err);
    }
    const struct gsp_ring_info *info = gsp_ring_info(view);
    ring->view = view;
    ring->spans = spans;
    source->ops = &ops;
    source->impl = ring;
    source->host = info->host[0] ? info->host : NULL;
    source->pid = info->pid;
    source->rank = info->rank;
    if (!set_first_rows(ring, first)) {
        gsp_store__source_free(source);
        return gsp_err_nomem(err);
    }
    *out = source;
    return GSP_OK;
}

static uint64_t subtract(uint64_t all, uint64_t elsewhere)
{
    return all > elsewhere ? all - elsewhere : 0;
}

bool gsp_store__ring_loss(const struct gsp_source *source, struct gsp_source_loss *out)
{
    if (source->ops != &ops)
        return false;
    const struct ring *ring = source->impl;
    struct gsp_ring_state state;
    gsp_ring_state(ring->view, &state);
    *out = (struct gsp_source_loss){
        .overwritten = ring->overwritten,
        .rows_lost = subtract(state.rows_lost, ring->elsewhere.rows_lost),
        .rows_no_file = subtract(state.rows_no_file, ring->elsewhere.rows_no_file),
        .strings_lost = subtract(state.strings_lost, ring->elsewhere.strings_lost),
        .texts_lost = atomic_load(&source->texts_lost),
        .missed = atomic_load(&source->rows_missed),
        .damaged = state.damaged};
    return true;
}
