/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "report/run_parts.h"

/* A chart, and the query for its points: name of the series, pid, rank, time, value. The rows of a
 * series are adjacent and ordered by time. */
struct chart_def {
    const char *id;
    const char *title;
    const char *unit;
    const char *help;
    const char *sql;
};

/* "rank 1: python3 (4242)". */
#define PROCESS_NAME                                                                               \
    "coalesce('rank ' || rank || ': ', '') || coalesce(name, 'process') || ' (' || "               \
    "coalesce(pid::VARCHAR, '?') || ')'"
/* A process that is exiting or a zombie has neither memory nor CPU time. A process that calls
 * exec() keeps its series and gets the new name. */
#define PROCESS_ROWS                                                                               \
    "FROM (SELECT * REPLACE (last_value(name::VARCHAR IGNORE NULLS) OVER by_time AS name, "        \
    "last_value(rank IGNORE NULLS) OVER by_time AS rank) FROM process.metrics "                    \
    "WINDOW by_time AS (PARTITION BY pid ORDER BY ts_ns "                                          \
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) "                                  \
    "WHERE state IS DISTINCT FROM 'Z' AND rss_bytes IS DISTINCT FROM 0 ORDER BY pid, ts_ns"
#define GPU_NAME "'GPU ' || coalesce(gpu::VARCHAR, '?')"
#define GPU_ROWS "FROM gpu.metrics ORDER BY host::VARCHAR, gpu, ts_ns"
#define BOTH_WAYS(table, in, out, in_word, out_word)                                               \
    "SELECT device::VARCHAR || ' " in_word "', NULL::BIGINT, NULL::BIGINT, ts_ns, " in             \
    " FROM " table " UNION ALL SELECT device::VARCHAR || ' " out_word "', NULL, NULL, ts_ns, " out \
    " FROM " table " ORDER BY 1, 4"

static const struct chart_def CHARTS[] = {
    {"cpu", "CPU of the processes", "%", "CPU time of each process; 100 % is one fully used core.",
     "SELECT " PROCESS_NAME ", pid, rank, ts_ns, cpu_percent " PROCESS_ROWS},
    {"rss", "Memory of the processes", "bytes",
     "Resident memory of each process. A line that rises to the end may be a leak; one that rises "
     "and levels off is a cache or warm-up.",
     "SELECT " PROCESS_NAME ", pid, rank, ts_ns, rss_bytes::DOUBLE " PROCESS_ROWS},
    {"gpu_util", "GPU utilization", "%",
     "Share of time in which the GPU had work. Where it drops, the stacks of that time show what "
     "the program did instead.",
     "SELECT " GPU_NAME ", NULL::BIGINT, NULL::BIGINT, ts_ns, util_percent " GPU_ROWS},
    {"gpu_memory", "GPU memory", "bytes", "Memory in use on each GPU, by all programs.",
     "SELECT " GPU_NAME ", NULL::BIGINT, NULL::BIGINT, ts_ns, memory_used_bytes::DOUBLE " GPU_ROWS},
    {"gpu_power", "GPU power", "W", "Power draw of each GPU.",
     "SELECT " GPU_NAME ", NULL::BIGINT, NULL::BIGINT, ts_ns, power_watts " GPU_ROWS},
    {"gpu_temperature", "GPU temperature", "°C", "Temperature of each GPU chip.",
     "SELECT " GPU_NAME ", NULL::BIGINT, NULL::BIGINT, ts_ns, temperature_c " GPU_ROWS},
    {"torch_memory", "GPU memory of PyTorch", "bytes",
     "Peak memory of PyTorch's tensors on the GPU in each step.",
     "SELECT coalesce('rank ' || rank, 'process ' || pid), pid, rank, max(ts_ns), "
     "max(allocated) * 1e6 FROM python.torch_trace WHERE allocated IS NOT NULL "
     "GROUP BY host::VARCHAR, pid, rank, step ORDER BY pid, max(ts_ns)"},
    {"machine_cpu", "CPU of the machine", "%",
     "CPU time of all programs; 100 % is all usable cores.",
     "SELECT coalesce(host::VARCHAR, 'machine'), NULL::BIGINT, NULL::BIGINT, ts_ns, util_percent "
     "FROM system.cpu WHERE cpu IS NULL ORDER BY host::VARCHAR, ts_ns"},
    {"pressure", "Pressure", "%",
     "Share of time in which at least one program waited for a CPU, for memory or for a disk. If "
     "it rises while the processes use less, other programs use the machine.",
     "SELECT resource::VARCHAR, NULL::BIGINT, NULL::BIGINT, ts_ns, some_percent "
     "FROM system.pressure ORDER BY host::VARCHAR, resource::VARCHAR, ts_ns"},
    {"machine_memory", "Memory of the machine", "bytes",
     "Memory used by all programs, without caches.",
     "SELECT coalesce(host::VARCHAR, 'machine'), NULL::BIGINT, NULL::BIGINT, ts_ns, "
     "used_bytes::DOUBLE FROM system.memory ORDER BY host::VARCHAR, ts_ns"},
    {"disk", "Disks", "bytes/s", "Bytes read and written on each used device.",
     BOTH_WAYS("system.disk", "read_bytes_per_s", "write_bytes_per_s", "read", "written")},
    {"network", "Network", "bytes/s", "Bytes received and sent on each used device.",
     BOTH_WAYS("system.network", "rx_bytes_per_s", "tx_bytes_per_s", "received", "sent")},
    {"power", "Power", "W", "Mean power of each energy domain; estimates are marked.",
     "SELECT device::VARCHAR || CASE WHEN source::VARCHAR = 'estimate' THEN ' (estimate)' ELSE '' "
     "END, NULL::BIGINT, NULL::BIGINT, ts_ns, watts FROM energy.metrics "
     "ORDER BY host::VARCHAR, device::VARCHAR, ts_ns"},
};

static const struct chart_def STEPS = {
    "steps", "Step time", "s",
    "Duration of each training step, at its start. Single spikes are often data loading, "
    "checkpoints or garbage collection.",
    NULL};

void gsp_report__chart_describe(struct gsp_report_chart *chart)
{
    for (size_t i = 0; i < GSP_COUNT(CHARTS); i++) {
        if (!gsp_sv_eq(chart->id, gsp_sv_of(CHARTS[i].id)))
            continue;
        chart->title = gsp_sv_of(CHARTS[i].title);
        chart->unit = gsp_sv_of(CHARTS[i].unit);
        chart->help = CHARTS[i].help;
    }
}

struct filler {
    struct gsp_report *report;
    const struct chart_def *def;
    struct gsp_report_chart *chart;   /* NULL before the first point */
    struct gsp_report_series *series; /* of the last point */
};

static int begin_chart(struct filler *filler, struct gsp_err *err)
{
    filler->chart = gsp_report__chart_add(filler->report, gsp_sv_of(filler->def->id));
    if (!filler->chart)
        return gsp_err_nomem(err);
    filler->chart->title = gsp_sv_of(filler->def->title);
    filler->chart->unit = gsp_sv_of(filler->def->unit);
    filler->chart->help = filler->def->help;
    return GSP_OK;
}

static int add_point(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct filler *filler = ctx;
    const struct gsp_sv name = gsp_store_row_text(row, 0);
    const int64_t pid = gsp_store_row_i64(row, 1);
    const int64_t ts_ns = gsp_store_row_i64(row, 3);
    const struct gsp_report_series *last = filler->series;
    if (ts_ns == GSP_NULL_I64)
        return GSP_OK;
    if (!filler->chart && begin_chart(filler, err) < 0)
        return gsp_err_nomem(err);
    const bool same =
        last && (pid == GSP_NULL_I64 ? gsp_sv_eq(last->name, name) : last->pid == pid);
    if (!same) {
        filler->series = gsp_report__series_add(filler->report, filler->chart,
                                                gsp_report__text_keep(filler->report, name));
        if (!filler->series)
            return gsp_err_nomem(err);
        filler->series->pid = pid;
        filler->series->rank = gsp_store_row_i64(row, 2);
    }
    gsp_report__series_add_point(filler->report, filler->series,
                                 gsp_report__seconds_at(filler->report, ts_ns),
                                 gsp_store_row_f64(row, 4));
    return GSP_OK;
}

/* Unused devices and resources are removed as well. */
void gsp_report__chart_finish(struct gsp_report *report, struct gsp_report_chart *chart)
{
    const bool used_only =
        gsp_sv_eq(chart->unit, gsp_sv_of("bytes/s")) || gsp_sv_eq(chart->id, gsp_sv_of("pressure"));
    size_t kept = 0;
    for (size_t i = 0; i < chart->series_count; i++) {
        gsp_report__series_compute_stats(&chart->series[i]);
        const struct gsp_report_stats *stats = &chart->series[i].stats;
        if (stats->count > 0 && !(used_only && stats->max <= 0))
            chart->series[kept++] = chart->series[i];
        else
            gsp_report__series_free(&chart->series[i]);
    }
    chart->series_count = kept;
    if (kept == 0) {
        free(chart->series);
        report->chart_count--;
    }
}

static int add_steps_chart(struct gsp_report *report, struct gsp_err *err)
{
    struct filler filler = {.report = report, .def = &STEPS};
    if (report->step_count == 0)
        return GSP_OK;
    if (begin_chart(&filler, err) < 0)
        return gsp_err_nomem(err);
    for (size_t i = 0; i < report->step_count; i++) {
        const struct gsp_report_step *step = &report->steps[i];
        struct gsp_report_series *series = NULL;
        for (size_t k = 0; k < filler.chart->series_count && !series; k++)
            if (filler.chart->series[k].pid == step->pid)
                series = &filler.chart->series[k];
        if (!series) {
            series = gsp_report__series_add(
                report, filler.chart,
                step->rank == GSP_NULL_I64
                    ? gsp_report__text_printf(report, "process %" PRId64, step->pid)
                    : gsp_report__text_printf(report, "rank %" PRId64, step->rank));
            if (!series)
                return gsp_err_nomem(err);
            series->pid = step->pid;
            series->rank = step->rank;
        }
        gsp_report__series_add_point(report, series, step->t, step->duration_s);
    }
    gsp_report__chart_finish(report, filler.chart);
    return GSP_OK;
}

int gsp_report__charts_fill(struct gsp_report *report, struct gsp_store *store, struct gsp_err *err)
{
    int rc = add_steps_chart(report, err);
    for (size_t i = 0; rc == GSP_OK && i < GSP_COUNT(CHARTS); i++) {
        struct filler filler = {.report = report, .def = &CHARTS[i]};
        rc = gsp_store_query_each(store, CHARTS[i].sql, add_point, &filler, err);
        if (rc == GSP_OK && filler.chart)
            gsp_report__chart_finish(report, filler.chart);
    }
    return rc;
}
