/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/map.h"
#include "base/time.h"
#include "report/run_parts.h"

#define NESTING_MAX 64U

/* The spans of a thread that enclose the last one. */
struct nest {
    int64_t pid;
    int64_t tid;
    int64_t ends_ns[NESTING_MAX];
    int64_t data_end_ns; /* end of the last data span */
    uint32_t depth;
};

struct collector {
    struct gsp_report *report;
    struct gsp_hmap names;   /* hash of a name -> its index */
    struct gsp_hmap threads; /* pid, tid -> nest */
    struct nest *nests;
    size_t nest_count;
};

static int name_index(struct collector *c, struct gsp_sv text, uint32_t *out, struct gsp_err *err)
{
    struct gsp_report *report = c->report;
    const uint64_t a = gsp_hash_bytes(text.p, text.len, 1);
    const uint64_t b = gsp_hash_bytes(text.p, text.len, 2);
    const uint32_t *known = gsp_hmap_get(&c->names, a, b);
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    if (!gsp_report__array_fit(report, &report->span_names, report->span_name_count))
        return gsp_err_nomem(err);
    report->span_names[report->span_name_count] = gsp_report__text_keep(report, text);
    *out = (uint32_t)report->span_name_count++;
    return gsp_hmap_put(&c->names, a, b, *out) ? GSP_OK : gsp_err_nomem(err);
}

static struct nest *nest_of(struct collector *c, int64_t pid, int64_t tid)
{
    const uint32_t *known = gsp_hmap_get(&c->threads, (uint64_t)pid, (uint64_t)tid);
    if (known)
        return &c->nests[*known];
    if (!gsp_report__array_fit(c->report, &c->nests, c->nest_count))
        return NULL;
    if (!gsp_hmap_put(&c->threads, (uint64_t)pid, (uint64_t)tid, (uint32_t)c->nest_count))
        return NULL;
    c->nests[c->nest_count] = (struct nest){.pid = pid, .tid = tid};
    return &c->nests[c->nest_count++];
}

/* The number of enclosing spans of the same thread. Spans arrive ordered by start. */
static uint32_t depth_of(struct nest *nest, int64_t start_ns, int64_t end_ns)
{
    while (nest->depth > 0 && nest->ends_ns[nest->depth - 1] <= start_ns)
        nest->depth--;
    const uint32_t depth = nest->depth;
    if (depth < NESTING_MAX && end_ns > start_ns)
        nest->ends_ns[nest->depth++] = end_ns;
    return depth;
}

static int add_span(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct collector *c = ctx;
    struct gsp_report *report = c->report;
    const int64_t start_ns = gsp_store_row_i64(row, 1);
    const int64_t length_ns = gsp_store_row_i64(row, 2);
    struct gsp_report_span span = {.pid = gsp_store_row_i64(row, 3),
                                   .tid = gsp_store_row_i64(row, 4),
                                   .t = gsp_report__seconds_at(report, start_ns),
                                   .duration_s = (double)length_ns / (double)GSP_NS_PER_S};
    struct nest *nest = nest_of(c, span.pid, span.tid);
    if (!nest || !gsp_report__array_fit(report, &report->spans, report->span_count))
        return gsp_err_nomem(err);
    span.depth = depth_of(nest, start_ns, start_ns + length_ns);
    span.is_data =
        gsp_sv_eq(gsp_store_row_text(row, 5), gsp_sv_of("data")) && start_ns >= nest->data_end_ns;
    if (span.is_data)
        nest->data_end_ns = start_ns + length_ns;
    const int rc = name_index(c, gsp_store_row_text(row, 0), &span.name, err);
    if (rc < 0)
        return rc;
    report->spans[report->span_count++] = span;
    return GSP_OK;
}

int gsp_report__spans_fill(struct gsp_report *report, struct gsp_store *store, struct gsp_err *err)
{
    struct collector c = {.report = report};
    /* Of two spans with the same start, the longer encloses the other. */
    const int rc = gsp_store_query_each(
        store,
        "SELECT name::VARCHAR, start_ns, greatest(duration_ns, 0), pid, thread_id, "
        "phase::VARCHAR FROM python.span "
        "WHERE start_ns IS NOT NULL AND duration_ns IS NOT NULL AND duration_ns < (1::BIGINT << "
        "60) ORDER BY start_ns, duration_ns DESC, span_id",
        add_span, &c, err);
    gsp_hmap_free(&c.names);
    gsp_hmap_free(&c.threads);
    free(c.nests);
    return rc;
}
