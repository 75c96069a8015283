/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "model/cells.h"
#include "report/document_write_internal.h"
#include "report/profile.h"

/* Full precision; unknown values are empty. */
static void put_f64(struct gsp_buf *out, double v)
{
    gsp_buf_putc(out, ',');
    if (!isnan(v))
        gsp_model_cell_put_f64(v, out);
}

static void put_i64(struct gsp_buf *out, int64_t v)
{
    gsp_buf_putc(out, ',');
    if (v != GSP_NULL_I64)
        gsp_buf_printf(out, "%" PRId64, v);
}

static void put_text(struct gsp_buf *out, struct gsp_sv text, bool is_raw)
{
    gsp_buf_putc(out, ',');
    gsp_report__csv_text(out, text, is_raw);
}

static void put_modules(const struct gsp_report *report, bool is_raw, struct gsp_buf *out)
{
    gsp_buf_puts(out, "module,class,stage,calls,total_s,share,mean_s,p50_s,p90_s,p99_s,max_s\n");
    for (size_t i = 0; i < report->module_count; i++) {
        const struct gsp_report_module *module = &report->modules[i];
        const double numbers[] = {module->total_s, module->share, module->mean_s, module->p50_s,
                                  module->p90_s,   module->p99_s, module->max_s};
        gsp_report__csv_text(out, module->module, is_raw);
        put_text(out, module->class_name, is_raw);
        put_text(out, module->stage, is_raw);
        gsp_buf_putc(out, ',');
        gsp_buf_putu64(out, module->calls);
        for (size_t k = 0; k < GSP_COUNT(numbers); k++)
            put_f64(out, numbers[k]);
        gsp_buf_putc(out, '\n');
    }
}

static void put_steps(const struct gsp_report *report, bool is_raw, struct gsp_buf *out)
{
    (void)is_raw; /* only numbers */
    gsp_buf_puts(out, "t_s,step,rank,pid,duration_s\n");
    for (size_t i = 0; i < report->step_count; i++) {
        const struct gsp_report_step *step = &report->steps[i];
        gsp_model_cell_put_f64(step->t, out);
        put_i64(out, step->step);
        put_i64(out, step->rank);
        put_i64(out, step->pid);
        put_f64(out, step->duration_s);
        gsp_buf_putc(out, '\n');
    }
}

static void put_metrics(const struct gsp_report *report, bool is_raw, struct gsp_buf *out)
{
    gsp_buf_puts(out, "metric,unit,series,t_s,value\n");
    for (size_t i = 0; i < report->chart_count; i++) {
        const struct gsp_report_chart *chart = &report->charts[i];
        for (size_t k = 0; k < chart->series_count; k++) {
            const struct gsp_report_series *series = &chart->series[k];
            for (size_t n = 0; n < series->count; n++) {
                gsp_report__csv_text(out, chart->id, is_raw);
                put_text(out, chart->unit, is_raw);
                put_text(out, series->name, is_raw);
                put_f64(out, series->t[n]);
                put_f64(out, series->v[n]);
                gsp_buf_putc(out, '\n');
            }
        }
    }
}

static void put_spans(const struct gsp_report *report, bool is_raw, struct gsp_buf *out)
{
    gsp_buf_puts(out, "t_s,name,pid,thread_id,depth,duration_s\n");
    for (size_t i = 0; i < report->span_count; i++) {
        const struct gsp_report_span *span = &report->spans[i];
        gsp_model_cell_put_f64(span->t, out);
        put_text(out, report->span_names[span->name], is_raw);
        put_i64(out, span->pid);
        put_i64(out, span->tid);
        put_i64(out, span->depth);
        put_f64(out, span->duration_s);
        gsp_buf_putc(out, '\n');
    }
}

int gsp_report__write_csv(const struct gsp_report *report, const struct gsp_report_write_opts *opts,
                          struct gsp_buf *out, struct gsp_err *err)
{
    const struct {
        const char *name;
        size_t count;
        void (*put)(const struct gsp_report *report, bool is_raw, struct gsp_buf *out);
    } tables[] = {
        [GSP_REPORT_CSV_FUNCTIONS] = {"functions", report->stacks.function_count, NULL},
        [GSP_REPORT_CSV_MODULES] = {"modules", report->module_count, put_modules},
        [GSP_REPORT_CSV_STEPS] = {"steps", report->step_count, put_steps},
        [GSP_REPORT_CSV_METRICS] = {"metrics", report->chart_count, put_metrics},
        [GSP_REPORT_CSV_SPANS] = {"spans", report->span_count, put_spans},
    };
    if (tables[opts->table].count == 0)
        return gsp_err_set(err, GSP_E_EMPTY, 0, "%.160s has no %s", opts->name ? opts->name : "it",
                           tables[opts->table].name);
    if (opts->table == GSP_REPORT_CSV_FUNCTIONS) {
        const struct gsp_view_options view = {.by_function = true};
        return gsp_report_profile_csv(
            report->profile, &view,
            &(struct gsp_profile_report_opts){.limit = opts->limit, .raw = opts->raw}, out, err);
    }
    tables[opts->table].put(report, opts->raw, out);
    return GSP_OK;
}
