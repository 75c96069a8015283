/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "model/frames.h"
#include "model/ids.h"
#include "report/run_parts.h"
#include "stats/growth.h"

/* The resident memory of one process at one time; v is NaN at its end. */
struct point {
    double t;
    double v;
    size_t series;
};

static int by_time(const void *a, const void *b)
{
    const struct point *x = a;
    const struct point *y = b;
    if (x->t != y->t)
        return x->t < y->t ? -1 : 1;
    return (x->series > y->series) - (x->series < y->series);
}

/* The points of all processes ordered by time, with an end point after the last point of each. */
static size_t list_points(const struct gsp_report_chart *chart, struct point *out)
{
    size_t count = 0;
    for (size_t i = 0; i < chart->series_count; i++) {
        const struct gsp_report_series *series = &chart->series[i];
        for (size_t k = 0; k < series->count; k++)
            if (!isnan(series->v[k]))
                out[count++] = (struct point){series->t[k], series->v[k], i};
        /* Later than the last points of the other processes that ran to the end. */
        if (count > 0 && series->count > 0 && chart->series_count > 1)
            out[count++] = (struct point){series->t[series->count - 1] + 1, (double)NAN, i};
    }
    qsort(out, count, sizeof(*out), by_time);
    return count;
}

/* The sum over all processes at each point. The caller frees *t and *v. */
static int sum_points(const struct gsp_report_chart *chart, double **t, double **v, size_t *count,
                      struct gsp_err *err)
{
    size_t room = 1;
    for (size_t i = 0; i < chart->series_count; i++)
        room += chart->series[i].count + 1;
    struct point *points = calloc(room, sizeof(*points));
    double *last = calloc(chart->series_count + 1, sizeof(*last));
    *t = calloc(room, sizeof(**t));
    *v = calloc(room, sizeof(**v));
    *count = 0;
    if (!points || !last || !*t || !*v) {
        free(points);
        free(last);
        return gsp_err_nomem(err);
    }
    const size_t point_count = list_points(chart, points);
    double sum = 0;
    for (size_t i = 0; i < point_count; i++) {
        const double now = isnan(points[i].v) ? 0 : points[i].v;
        sum += now - last[points[i].series];
        last[points[i].series] = now;
        if (isnan(points[i].v))
            continue;
        (*t)[*count] = points[i].t;
        (*v)[(*count)++] = sum;
    }
    free(points);
    free(last);
    return GSP_OK;
}

int gsp_report__rss_fill(struct gsp_report *report, struct gsp_err *err)
{
    const struct gsp_report_chart *chart = gsp_report_chart_find(report, "rss");
    double *t = NULL;
    double *v = NULL;
    size_t count = 0;
    if (!chart)
        return GSP_OK;
    const int rc = sum_points(chart, &t, &v, &count, err);
    for (size_t i = 0; i < count; i++)
        if (!(report->memory.peak_rss_bytes >= v[i]))
            report->memory.peak_rss_bytes = v[i];
    if (count > 0) {
        const struct gsp_growth growth = gsp_stats_growth(t, v, count);
        if (growth.is_known)
            report->memory.growth_bytes_per_s = growth.is_growing ? growth.slope : 0;
    }
    free(t);
    free(v);
    return rc;
}

/* The sites that held the most at the peak, or, if the peak was not recorded, at the end. At a
 * regular exit the program has freed everything. Frames are ordered from the outermost on. */
static const char SITES_SQL[] =
    "WITH live AS (SELECT stack_id, sum(bytes) AS bytes, sum(n) AS n FROM ("
    "SELECT pid, stack_id, allocator, arg_max(bytes, ts_ns) AS bytes, arg_max(count, ts_ns) AS n "
    "FROM python.allocation WHERE kind::VARCHAR = (SELECT CASE WHEN "
    "count(*) FILTER (WHERE kind::VARCHAR = 'peak') > 0 THEN 'peak' ELSE 'live' END "
    "FROM python.allocation) GROUP BY ALL) "
    "GROUP BY stack_id HAVING sum(bytes) > 0 ORDER BY sum(bytes) DESC, stack_id LIMIT 200), "
    "frames AS (SELECT stack_id, depth, func::VARCHAR AS func, file::VARCHAR AS file, "
    "lineno, frame_type::VARCHAR AS kind FROM python.stack "
    "WHERE stack_id IN (SELECT stack_id FROM live)) "
    "SELECT live.stack_id, live.bytes::DOUBLE, live.n::DOUBLE, func, file, lineno, kind "
    "FROM live LEFT JOIN frames USING (stack_id) "
    "ORDER BY live.bytes DESC, live.stack_id, depth DESC";

struct sites {
    struct gsp_report *report;
    int64_t stack_id; /* of the last row */
};

static int add_site(struct sites *sites, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct gsp_report_memory *memory = &sites->report->memory;
    if (!gsp_report__array_fit(sites->report, &memory->sites, memory->site_count))
        return gsp_err_nomem(err);
    memory->sites[memory->site_count++] = (struct gsp_report_site){
        .bytes = gsp_store_row_f64(row, 1), .count = gsp_store_row_f64(row, 2)};
    sites->stack_id = gsp_store_row_i64(row, 0);
    return GSP_OK;
}

/* The texts are borrowed from the row. */
static struct gsp_report_frame frame_from_row(const struct gsp_store_row *row)
{
    const int64_t line = gsp_store_row_i64(row, 5);
    return (struct gsp_report_frame){.func = gsp_store_row_text(row, 3),
                                     .file = gsp_store_row_text(row, 4),
                                     .line = line > 0 && line < UINT32_MAX ? (uint32_t)line : 0,
                                     .kind = gsp_model_frame_type_find(gsp_store_row_text(row, 6))};
}

/* Like in the stacks of samples, one mark replaces the frames of an import, and frames of gsprof
 * are left out. */
static bool is_shown(const struct gsp_report *report, const struct gsp_report_site *site,
                     struct gsp_report_frame *frame)
{
    if (frame->kind != GSP_FRAME_PYTHON)
        return true;
    if (gsp_model_file_is_own(frame->file))
        return false;
    if (!gsp_model_file_is_import(frame->file))
        return true;
    *frame = (struct gsp_report_frame){.func = gsp_sv_of(GSP_MARK_IMPORT), .kind = GSP_FRAME_MARK};
    return site->frame_count == 0 ||
           report->site_frames[site->frames[site->frame_count - 1]].kind != GSP_FRAME_MARK;
}

bool gsp_report__site_add_frame(struct gsp_report *report, struct gsp_report_site *site,
                                struct gsp_report_frame frame)
{
    if (!is_shown(report, site, &frame))
        return true;
    if (!gsp_report__array_fit(report, &report->site_frames, report->site_frame_count))
        return false;
    if (!gsp_report__array_fit(report, &site->frames, site->frame_count))
        return false;
    frame.func = gsp_report__text_keep(report, frame.func);
    frame.file = gsp_report__text_keep(report, frame.file);
    report->site_frames[report->site_frame_count] = frame;
    site->frames[site->frame_count++] = (uint32_t)report->site_frame_count++;
    return true;
}

static int add_row(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct sites *sites = ctx;
    struct gsp_report *report = sites->report;
    if (report->memory.site_count == 0 || gsp_store_row_i64(row, 0) != sites->stack_id) {
        const int rc = add_site(sites, row, err);
        if (rc < 0)
            return rc;
    }
    struct gsp_report_site *site = &report->memory.sites[report->memory.site_count - 1];
    const struct gsp_report_frame frame = frame_from_row(row);
    /* The stack of a site may be missing. */
    return frame.func.len == 0 || gsp_report__site_add_frame(report, site, frame)
               ? GSP_OK
               : gsp_err_nomem(err);
}

int gsp_report__memory_fill(struct gsp_report *report, struct gsp_store *store, struct gsp_err *err)
{
    struct sites sites = {.report = report};
    const int rc = gsp_report__rss_fill(report, err);
    return rc == GSP_OK ? gsp_store_query_each(store, SITES_SQL, add_row, &sites, err) : rc;
}
