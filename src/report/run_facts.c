/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/time.h"
#include "report/run_parts.h"

double gsp_report__seconds_at(const struct gsp_report *report, int64_t ts_ns)
{
    return (double)(ts_ns - report->start_ns) / (double)GSP_NS_PER_S;
}

/* If the run was killed, gsprof.run has no times; the times of the rows are used. */
static const char ORIGIN_SQL[] =
    "SELECT any_value(name)::VARCHAR, any_value(host)::VARCHAR, any_value(command)::VARCHAR, "
    "min(ts_from), max(ts_to), "
    "(SELECT min(ts) FROM (SELECT min(ts_ns) AS ts FROM process.metrics "
    "UNION ALL SELECT min(ts_ns) FROM python.stack_sample "
    "UNION ALL SELECT min(ts_ns - coalesce(TRY_CAST(duration * 1e9 AS BIGINT), 0)) FROM python.torch_step "
    "UNION ALL SELECT min(ts_ns) FROM python.torch_trace "
    "UNION ALL SELECT min(start_ns) FROM python.span "
    "UNION ALL SELECT min(ts_ns) FROM system.cpu "
    "UNION ALL SELECT min(ts_ns) FROM gpu.metrics)), "
    "(SELECT max(ts) FROM (SELECT max(ts_ns) AS ts FROM process.metrics "
    "UNION ALL SELECT max(ts_ns) FROM python.stack_sample "
    "UNION ALL SELECT max(ts_ns) FROM python.torch_step "
    "UNION ALL SELECT max(ts_ns) FROM python.torch_trace "
    "UNION ALL SELECT max(ts_ns) FROM python.span "
    "UNION ALL SELECT max(ts_ns) FROM system.cpu "
    "UNION ALL SELECT max(ts_ns) FROM gpu.metrics)), "
    "(SELECT arg_max(coalesce(exit_status, 128 + signal), ts_ns)::BIGINT FROM process.event "
    "WHERE kind::VARCHAR = 'end') "
    "FROM gsprof.run";

static int read_origin(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct gsp_report *report = ctx;
    int64_t from_ns = gsp_store_row_i64(row, 3);
    int64_t to_ns = gsp_store_row_i64(row, 4);
    const int64_t first_ns = gsp_store_row_i64(row, 5);
    const int64_t last_ns = gsp_store_row_i64(row, 6);
    (void)err;
    if (gsp_store_row_text(row, 0).len)
        report->name = gsp_report__text_keep(report, gsp_store_row_text(row, 0));
    report->host = gsp_report__text_keep(report, gsp_store_row_text(row, 1));
    report->command = gsp_report__text_keep(report, gsp_store_row_text(row, 2));
    report->exit_status = gsp_store_row_i64(row, 7);
    /* The first step may have started before the recorder, except if that started the program: then
     * an earlier row is from a process whose clock was set. */
    if (from_ns == GSP_NULL_I64 ||
        (first_ns != GSP_NULL_I64 && first_ns < from_ns && report->exit_status == GSP_NULL_I64))
        from_ns = first_ns;
    if (to_ns == GSP_NULL_I64)
        to_ns = last_ns;
    if (from_ns == GSP_NULL_I64)
        return GSP_OK;
    report->start_ns = from_ns;
    if (to_ns != GSP_NULL_I64 && to_ns > from_ns)
        report->duration_s = gsp_report__seconds_at(report, to_ns);
    return GSP_OK;
}

int gsp_report__origin_fill(struct gsp_report *report, struct gsp_store *store, struct gsp_err *err)
{
    return gsp_store_query_each(store, ORIGIN_SQL, read_origin, report, err);
}

/* Causes of the sampler in words. */
static const struct {
    const char *cause;
    const char *what;
    const char *why;
} CAUSES[] = {
    {"torn", "samples", "the stack changed while it was read"},
    {"late", "samples", "the sampler was late"},
    {"failed", "samples", "memory could not be read"},
    {"gone", "processes", "exited while being sampled"},
    {"skipped", "processes", "not Python"},
    {"unmerged", "stacks", "native and Python frames could not be merged"},
};

void gsp_report__loss_add_cause(struct gsp_report *report, struct gsp_sv source,
                                struct gsp_sv cause, uint64_t count)
{
    gsp_auto_buf what = {0};
    if (gsp_sv_eq(source, gsp_sv_of("sampler"))) {
        for (size_t i = 0; i < GSP_COUNT(CAUSES); i++) {
            if (!gsp_sv_eq(cause, gsp_sv_of(CAUSES[i].cause)))
                continue;
            gsp_report__loss_add(report, gsp_sv_of(CAUSES[i].what), gsp_sv_of(CAUSES[i].why),
                                 count);
            return;
        }
    }
    if (gsp_sv_eq(source, gsp_sv_of("python.backtrace")) && gsp_sv_ends(cause, " limit")) {
        gsp_report__loss_add(report, gsp_sv_of("stacks of events"),
                             gsp_sv_of("limit of 100 per second and trigger"), count);
        return;
    }
    if (source.len && memchr(source.p, '.', source.len))
        gsp_buf_puts(&what, "rows of ");
    gsp_buf_putsv(&what, source);
    gsp_report__loss_add(report, gsp_report__text_keep_buf(report, &what),
                         gsp_report__text_keep(report, cause), count);
}

static int read_loss(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    const int64_t count = gsp_store_row_i64(row, 2);
    (void)err;
    if (count > 0)
        gsp_report__loss_add_cause(ctx, gsp_store_row_text(row, 0), gsp_store_row_text(row, 1),
                                   (uint64_t)count);
    return GSP_OK;
}

/* Sets has_losses if the tables come from a recorder or an agent, which count losses. */
static int read_recorder(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct gsp_report *report = ctx;
    (void)err;
    report->has_losses |= gsp_store_row_i64(row, 0) > 0;
    return GSP_OK;
}

int gsp_report__losses_fill(struct gsp_report *report, struct gsp_store *store, struct gsp_err *err)
{
    const int rc =
        gsp_store_query_each(store,
                             "SELECT (SELECT count(*) FROM gsprof.loss) + (SELECT count(*) "
                             "FROM gsprof.sampler) + (SELECT count(*) FROM gsprof.setting)",
                             read_recorder, report, err);
    if (rc < 0)
        return rc;
    return gsp_store_query_each(store,
                                "SELECT source::VARCHAR, cause::VARCHAR, sum(count)::BIGINT "
                                "FROM gsprof.loss GROUP BY ALL HAVING sum(count) > 0 ORDER BY ALL",
                                read_loss, report, err);
}

/* Name and value of each fact, as text. */
static const char FACTS_SQL[] =
    "SELECT name, value FROM ("
    "SELECT 1 AS place, 'End' AS name, "
    "string_agg(DISTINCT coalesce('rank ' || rank || ': ', '') || detail, '; ') AS value "
    "FROM process.event WHERE kind::VARCHAR = 'end' "
    "UNION ALL SELECT 2, 'Cores', printf('%g', max(limit_cores)) FROM system.cpu "
    "UNION ALL SELECT 3, 'Machine memory', printf('%.3g GiB', max(total_bytes) / 1073741824) FROM system.memory "
    "UNION ALL SELECT 4, 'GPU', string_agg(DISTINCT gpu || ': ' || name::VARCHAR, ', ') "
    "FROM gpu.device "
    "UNION ALL SELECT 5, 'Ranks', CASE WHEN count(DISTINCT rank) > 0 THEN "
    "count(DISTINCT rank)::VARCHAR END FROM python.torch_step "
    "UNION ALL SELECT 6, 'PyTorch', string_agg(DISTINCT value::VARCHAR, ', ') "
    "FROM gsprof.setting WHERE name::VARCHAR = 'torch_version' "
    "UNION ALL SELECT 7, 'Overhead of gsprof', string_agg(source || CASE WHEN percent < 0 "
    "THEN ' too little to measure' ELSE ' ' || round(percent, 2) || ' %' END, "
    "', ') FROM (SELECT source::VARCHAR AS source, arg_max(percent, ts_ns) AS percent "
    "FROM gsprof.overhead GROUP BY 1 UNION ALL SELECT 'sampler', arg_max(cpu_percent, ts_ns) "
    "FROM gsprof.sampler HAVING count(*) > 0) WHERE percent IS NOT NULL) "
    "WHERE value IS NOT NULL AND value <> '' ORDER BY place";

static int read_fact(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct gsp_report *report = ctx;
    (void)err;
    gsp_report__fact_add(report, gsp_report__text_keep(report, gsp_store_row_text(row, 0)),
                         gsp_report__text_keep(report, gsp_store_row_text(row, 1)));
    return GSP_OK;
}

int gsp_report__facts_fill(struct gsp_report *report, struct gsp_store *store, struct gsp_err *err)
{
    return gsp_store_query_each(store, FACTS_SQL, read_fact, report, err);
}
