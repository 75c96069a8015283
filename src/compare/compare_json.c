/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/json.h"
#include "compare/compare_internal.h"
#include "compare/compare_write_internal.h"
#include "model/format.h"
#include "model/ids.h"
#include "report/document_write.h"

static const char *better_name(enum gsp_compare_better better)
{
    static const char *const names[] = {NULL, "lower", "higher"};
    return names[better];
}

static void put_row(struct gsp_json *json, const struct gsp_compare_row *row)
{
    gsp_json_obj_begin(json);
    gsp_json_put_sv(json, "name", row->name);
    gsp_json_put_sv(json, "unit", row->unit);
    if (row->better != GSP_BETTER_NEITHER)
        gsp_json_put_str(json, "better", better_name(row->better));
    gsp_json_put_f64(json, "a", row->value[0]);
    gsp_json_put_f64(json, "b", row->value[1]);
    gsp_json_put_f64(json, "change", row->change);
    gsp_json_put_f64(json, "low", row->low);
    gsp_json_put_f64(json, "high", row->high);
    gsp_json_put_f64(json, "p", row->p);
    gsp_json_put_f64(json, "effect", row->effect);
    gsp_json_put_str(json, "verdict", gsp_compare__verdict_name(row->verdict));
    gsp_json_put_u64(json, "n_a", row->count[0]);
    gsp_json_put_u64(json, "n_b", row->count[1]);
    gsp_json_obj_end(json);
}

static void put_rows(struct gsp_json *json, const char *key, const struct gsp_compare_row *rows,
                     size_t count)
{
    gsp_json_put_arr_begin(json, key);
    for (size_t i = 0; i < count; i++)
        put_row(json, &rows[i]);
    gsp_json_arr_end(json);
}

static void put_line(struct gsp_json *json, uint32_t line)
{
    if (line > 0)
        gsp_json_put_u64(json, "line", line);
    else
        gsp_json_put_null(json, "line");
}

static void put_functions(struct gsp_json *json, const struct gsp_compare *compare)
{
    gsp_json_put_arr_begin(json, "functions");
    for (size_t i = 0; i < compare->function_count; i++) {
        const struct gsp_compare_function *function = &compare->functions[compare->order[i]];
        const struct gsp_compare_row *row = &function->row;
        /* Skip functions without time in the compared part. */
        if (!(function->total[0] + function->total[1] > 0))
            continue;
        gsp_json_obj_begin(json);
        gsp_json_put_sv(json, "func", row->name);
        gsp_json_put_sv(json, "file", function->file);
        put_line(json, function->line);
        gsp_json_put_f64(json, "a_s", row->value[0]);
        gsp_json_put_f64(json, "b_s", row->value[1]);
        gsp_json_put_f64(json, "change_s", row->value[1] - row->value[0]);
        gsp_json_put_f64(json, "a_total_s", function->total[0]);
        gsp_json_put_f64(json, "b_total_s", function->total[1]);
        gsp_json_put_f64(json, "low_s", row->difference_low);
        gsp_json_put_f64(json, "high_s", row->difference_high);
        gsp_json_put_f64(json, "p", row->p);
        gsp_json_put_str(json, "verdict", gsp_compare__verdict_name(row->verdict));
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_frames(struct gsp_json *json, const struct gsp_compare *compare)
{
    gsp_json_put_arr_begin(json, "frames");
    for (size_t i = 0; i < compare->function_count; i++) {
        const struct gsp_compare_function *function = &compare->functions[i];
        gsp_json_obj_begin(json);
        gsp_json_put_sv(json, "func", function->row.name);
        gsp_json_put_sv(json, "file", function->file);
        put_line(json, function->line);
        gsp_json_put_str(json, "type", gsp_model_frame_type_name(function->kind));
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_node_value(struct gsp_json *json, const struct gsp_compare_node *node,
                           size_t column)
{
    switch (column) {
    case 0:
        gsp_json_i64(json, node->parent);
        break;
    case 1:
        gsp_json_u64(json, node->frame);
        break;
    default:
        gsp_json_f64(json, node->total[column - 2]);
    }
}

static void put_stacks(struct gsp_json *json, const struct gsp_compare *compare)
{
    static const char *const columns[] = {"parent", "frame", "a", "b"};
    gsp_json_put_obj_begin(json, "stacks");
    gsp_json_put_str(json, "unit", compare->unit);
    put_frames(json, compare);
    gsp_json_put_obj_begin(json, "nodes");
    for (size_t k = 0; k < GSP_COUNT(columns); k++) {
        gsp_json_put_arr_begin(json, columns[k]);
        for (size_t i = 0; i < compare->node_count; i++)
            put_node_value(json, &compare->nodes[i], k);
        gsp_json_arr_end(json);
    }
    gsp_json_obj_end(json);
    gsp_json_obj_end(json);
}

static void put_results(struct gsp_json *json, const struct gsp_compare_write_opts *opts,
                        bool is_failed)
{
    gsp_json_put_arr_begin(json, is_failed ? "failed" : "passed");
    for (size_t i = 0; i < opts->result_count; i++) {
        const struct gsp_compare_rule_result *result = &opts->results[i];
        if (result->is_failed != is_failed)
            continue;
        gsp_json_obj_begin(json);
        gsp_json_put_str(json, "rule", result->rule->text);
        gsp_json_put_f64(json, "value", result->value);
        gsp_json_put_sv(json, "name", result->row->name);
        gsp_json_put_bool(json, "significant", result->is_significant);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_lines(struct gsp_json *json, const struct gsp_compare *compare, int side,
                      const struct gsp_report_chart *chart)
{
    for (size_t i = 0; chart && i < chart->series_count; i++) {
        gsp_auto_buf name = {0};
        gsp_buf_putsv(&name, compare->name[side]);
        gsp_buf_puts(&name, ": ");
        gsp_buf_putsv(&name, chart->series[i].name);
        gsp_report_series_put(json, &chart->series[i], gsp_buf_sv(&name));
    }
}

/* Charts that both recordings have, with the series of both. */
static void put_charts(struct gsp_json *json, const struct gsp_compare *compare)
{
    gsp_json_put_arr_begin(json, "charts");
    for (size_t i = 0; i < compare->side[0]->chart_count; i++) {
        const struct gsp_report_chart *a = &compare->side[0]->charts[i];
        const struct gsp_report_chart *b = gsp_report_chart_named(compare->side[1], a->id);
        if (!b || !gsp_sv_eq(a->unit, b->unit))
            continue;
        gsp_json_obj_begin(json);
        gsp_report_chart_put_head(json, a);
        gsp_json_put_arr_begin(json, "series");
        put_lines(json, compare, 0, a);
        put_lines(json, compare, 1, b);
        gsp_json_arr_end(json);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_side(struct gsp_json *json, const char *key, const struct gsp_compare *compare,
                     int side)
{
    gsp_json_put_obj_begin(json, key);
    gsp_json_put_sv(json, "name", compare->name[side]);
    gsp_json_put_sv(json, "title", compare->side[side]->title);
    gsp_json_obj_end(json);
}

static void put_compare(struct gsp_json *json, const struct gsp_compare *compare,
                        const struct gsp_compare_write_opts *opts)
{
    static const char *const per[] = {"auto", "step", "run", "share"};
    gsp_json_put_obj_begin(json, "compare");
    put_side(json, "a", compare, 0);
    put_side(json, "b", compare, 1);
    gsp_json_put_sv(json, "verdict", compare->verdict);
    put_rows(json, "metrics", compare->metrics, compare->metric_count);
    if (compare->module_count > 0)
        put_rows(json, "modules", compare->modules, compare->module_count);
    if (compare->function_count > 0) {
        gsp_json_put_str(json, "per", per[compare->per]);
        put_functions(json, compare);
        put_stacks(json, compare);
    }
    put_charts(json, compare);
    if (opts->result_count > 0) {
        put_results(json, opts, true);
        put_results(json, opts, false);
    }
    gsp_json_obj_end(json);
}

/* --------------------------------------------------------------------------------------- summary
 */

static const struct gsp_report_fact *fact_named(const struct gsp_report *report, struct gsp_sv name)
{
    for (size_t i = 0; i < report->fact_count; i++)
        if (gsp_sv_eq(report->facts[i].name, name))
            return &report->facts[i];
    return NULL;
}

static void put_fact(struct gsp_json *json, struct gsp_sv name, struct gsp_sv value)
{
    gsp_json_obj_begin(json);
    gsp_json_put_sv(json, "name", name);
    gsp_json_put_sv(json, "value", value);
    gsp_json_obj_end(json);
}

/* Equal facts are written once, others for each side. */
static void put_facts(struct gsp_json *json, const struct gsp_compare *compare)
{
    gsp_json_put_arr_begin(json, "facts");
    for (size_t i = 0; i < compare->side[0]->fact_count; i++) {
        const struct gsp_report_fact *a = &compare->side[0]->facts[i];
        const struct gsp_report_fact *b = fact_named(compare->side[1], a->name);
        if (b && gsp_sv_eq(a->value, b->value)) {
            put_fact(json, a->name, a->value);
            continue;
        }
        for (int side = 0; side < 2; side++) {
            const struct gsp_report_fact *one = side == 0 ? a : b;
            gsp_auto_buf name = {0};
            gsp_buf_putsv(&name, a->name);
            gsp_buf_puts(&name, " of ");
            gsp_buf_putsv(&name, compare->name[side]);
            if (one)
                put_fact(json, gsp_buf_sv(&name), one->value);
        }
    }
    for (size_t i = 0; i < compare->note_count; i++)
        put_fact(json, gsp_sv_of("Note"), compare->notes[i]);
    gsp_json_arr_end(json);
}

static const char *tone_of(enum gsp_compare_verdict verdict)
{
    static const char *const tones[] = {"plain", "plain", "good", "bad", "plain"};
    return tones[verdict];
}

static void put_card(struct gsp_json *json, const struct gsp_compare *compare,
                     const struct gsp_compare_row *row, const char *title)
{
    gsp_auto_buf value = {0};
    gsp_auto_buf detail = {0};
    gsp_model_value_put(row->value[1], row->unit, &value);
    gsp_buf_puts(&value, " (");
    gsp_compare__put_change(row->change, &value);
    gsp_buf_putc(&value, ')');
    gsp_buf_term(&detail, compare->name[0]);
    gsp_buf_puts(&detail, ": ");
    gsp_model_value_put(row->value[0], row->unit, &detail);
    gsp_buf_printf(&detail, "; %s", gsp_compare__verdict_text(row->verdict));
    gsp_json_obj_begin(json);
    gsp_json_put_sv(json, "id", row->name);
    gsp_json_put_str(json, "title", title);
    gsp_json_put_sv(json, "value", gsp_buf_sv(&value));
    gsp_json_put_sv(json, "detail", gsp_buf_sv(&detail));
    gsp_json_put_str(json, "tone", tone_of(row->verdict));
    gsp_json_obj_end(json);
}

static void put_cards(struct gsp_json *json, const struct gsp_compare *compare)
{
    static const char *const cards[][2] = {
        {"step_time", "Step time"}, {"throughput", "Throughput"}, {"wall_time", "Wall time"},
        {"cpu_time", "CPU time"},   {"peak_rss", "Peak memory"},  {"gpu_util", "GPU utilization"},
        {"energy", "Energy"}};
    gsp_json_put_arr_begin(json, "cards");
    for (size_t i = 0; i < GSP_COUNT(cards); i++) {
        const struct gsp_compare_row *row = gsp_compare__metric_find(compare, cards[i][0]);
        if (row)
            put_card(json, compare, row, cards[i][1]);
    }
    gsp_json_arr_end(json);
}

void gsp_compare__write_json(const struct gsp_compare *compare,
                             const struct gsp_compare_write_opts *opts, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_auto_buf title = {0};
    gsp_buf_putsv(&title, compare->name[0]);
    gsp_buf_puts(&title, " and ");
    gsp_buf_putsv(&title, compare->name[1]);
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "format", "gsprof-report");
    gsp_json_put_i64(&json, "version", 1);
    gsp_json_put_str(&json, "kind", "compare");
    gsp_json_put_sv(&json, "title", gsp_buf_sv(&title));
    gsp_json_put_str(&json, "gsprof", GSP_VERSION);
    put_facts(&json, compare);
    put_cards(&json, compare);
    gsp_json_put_arr_begin(&json, "verdict");
    gsp_json_sv(&json, compare->verdict);
    for (size_t i = 0; i < opts->result_count; i++) {
        gsp_auto_buf line = {0};
        gsp_compare_result_put(&opts->results[i], &line);
        gsp_json_sv(&json, gsp_buf_sv(&line));
    }
    gsp_json_arr_end(&json);
    put_compare(&json, compare, opts);
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
}
