/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "report/run_parts.h"

static int add_step(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct gsp_report *report = ctx;
    if (!gsp_report__array_fit(report, &report->steps, report->step_count))
        return gsp_err_nomem(err);
    report->steps[report->step_count++] = (struct gsp_report_step){
        .step = gsp_store_row_i64(row, 0),
        .rank = gsp_store_row_i64(row, 1),
        .pid = gsp_store_row_i64(row, 2),
        /* ts_ns is the end of the step. */
        .t = gsp_report__seconds_at(report, gsp_store_row_i64(row, 3)) - gsp_store_row_f64(row, 4),
        .duration_s = gsp_store_row_f64(row, 4)};
    return GSP_OK;
}

/* Only steps skipped by torch.adaptive count as reduced: torch.rate and torch.shadow skip steps at
 * the user's request. */
static const char TRACED_SQL[] =
    "SELECT count(*) FROM python.torch_step WHERE sampled AND duration IS NOT NULL "
    "AND isfinite(duration) AND ts_ns IS NOT NULL AND EXISTS (SELECT 1 FROM gsprof.setting "
    "WHERE name::VARCHAR = 'torch.traced' AND value::VARCHAR <> '1 of 1 steps')";

static int read_traced(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    (void)err;
    ((struct gsp_report *)ctx)->steps_traced = (uint64_t)gsp_store_row_i64(row, 0);
    return GSP_OK;
}

int gsp_report__steps_fill(struct gsp_report *report, struct gsp_store *store, struct gsp_err *err)
{
    const int rc = gsp_store_query_each(
        store,
        "SELECT step, rank, pid, ts_ns, duration FROM python.torch_step "
        "WHERE duration IS NOT NULL AND isfinite(duration) AND ts_ns IS NOT NULL "
        "ORDER BY ts_ns - duration * 1e9, rank, pid",
        add_step, report, err);
    return rc < 0 ? rc : gsp_store_query_each(store, TRACED_SQL, read_traced, report, err);
}

/* Calls of modules are nested, so shares refer to the traced steps and not to the sum of all calls.
 */
static const char MODULES_SQL[] =
    "WITH traced AS (SELECT sum(duration) AS s FROM python.torch_step "
    "WHERE sampled IS DISTINCT FROM false AND isfinite(duration)) "
    "SELECT module::VARCHAR, coalesce(any_value(class)::VARCHAR, ''), stage::VARCHAR, count(*), "
    "sum(duration), sum(duration) / (SELECT CASE WHEN s > 0 THEN s END FROM traced), "
    "avg(duration), quantile_cont(duration, 0.5), quantile_cont(duration, 0.9), "
    "quantile_cont(duration, 0.99), max(duration) FROM python.torch_trace "
    "WHERE duration IS NOT NULL AND isfinite(duration) "
    "GROUP BY module, stage ORDER BY sum(duration) DESC, module::VARCHAR, stage::VARCHAR";

static int add_module(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct gsp_report *report = ctx;
    if (!gsp_report__array_fit(report, &report->modules, report->module_count))
        return gsp_err_nomem(err);
    report->modules[report->module_count++] = (struct gsp_report_module){
        .module = gsp_report__text_keep(report, gsp_store_row_text(row, 0)),
        .class_name = gsp_report__text_keep(report, gsp_store_row_text(row, 1)),
        .stage = gsp_report__text_keep(report, gsp_store_row_text(row, 2)),
        .calls = (uint64_t)gsp_store_row_i64(row, 3),
        .total_s = gsp_store_row_f64(row, 4),
        .share = gsp_store_row_f64(row, 5),
        .mean_s = gsp_store_row_f64(row, 6),
        .p50_s = gsp_store_row_f64(row, 7),
        .p90_s = gsp_store_row_f64(row, 8),
        .p99_s = gsp_store_row_f64(row, 9),
        .max_s = gsp_store_row_f64(row, 10)};
    return GSP_OK;
}

/* Every n-th call, at most GSP_REPORT_VALUES_MAX per module and stage, in the order of MODULES_SQL.
 */
static const char VALUES_SQL[] =
    "WITH calls AS (SELECT module::VARCHAR AS module, stage::VARCHAR AS stage, duration, "
    "row_number() OVER (PARTITION BY module, stage ORDER BY ts_ns) - 1 AS place, "
    "count(*) OVER (PARTITION BY module, stage) AS n, "
    "sum(duration) OVER (PARTITION BY module, stage) AS total FROM python.torch_trace "
    "WHERE duration IS NOT NULL AND isfinite(duration)) "
    "SELECT module, stage, duration FROM calls WHERE place % ((n + 1999) // 2000) = 0 "
    "ORDER BY total DESC, module, stage, place";

struct values {
    struct gsp_report *report;
    size_t at; /* module of the previous row */
};

static int add_value(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct values *values = ctx;
    struct gsp_report *report = values->report;
    const struct gsp_sv module = gsp_store_row_text(row, 0);
    const struct gsp_sv stage = gsp_store_row_text(row, 1);
    /* The order may differ from that of MODULES_SQL, because sums can differ in the last bit. */
    for (size_t tried = 0; tried < report->module_count; tried++) {
        struct gsp_report_module *at = &report->modules[values->at];
        if (gsp_sv_eq(at->module, module) && gsp_sv_eq(at->stage, stage)) {
            if (!gsp_report__array_fit(report, &at->values, at->value_count))
                return gsp_err_nomem(err);
            at->values[at->value_count++] = gsp_store_row_f64(row, 2);
            return GSP_OK;
        }
        values->at = (values->at + 1) % report->module_count;
    }
    return GSP_OK;
}

int gsp_report__modules_fill(struct gsp_report *report, struct gsp_store *store, bool values,
                             struct gsp_err *err)
{
    int rc = gsp_store_query_each(store, MODULES_SQL, add_module, report, err);
    if (rc == GSP_OK && values && report->module_count) {
        struct values into = {.report = report};
        rc = gsp_store_query_each(store, VALUES_SQL, add_value, &into, err);
    }
    return rc;
}

static int add_rank(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct gsp_report *report = ctx;
    if (!gsp_report__array_fit(report, &report->ranks, report->rank_count))
        return gsp_err_nomem(err);
    report->ranks[report->rank_count++] = (struct gsp_report_rank){
        .rank = gsp_store_row_i64(row, 0), .collective_s = gsp_store_row_f64(row, 1)};
    return GSP_OK;
}

int gsp_report__ranks_fill(struct gsp_report *report, struct gsp_store *store, struct gsp_err *err)
{
    return gsp_store_query_each(
        store,
        "SELECT rank, sum(duration) FROM python.collective WHERE rank IS NOT NULL "
        "AND duration IS NOT NULL AND isfinite(duration) GROUP BY rank "
        "ORDER BY rank",
        add_rank, report, err);
}
