/* SPDX-License-Identifier: Apache-2.0 */
#include "report/session_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_scan.h"
#include "base/time.h"
#include "export/plot.h"
#include "model/format.h"
#include "model/row_list.h"

#define NUMBERS   8U
#define CELL_SIZE 16U

/* Appends the counts that are not 0: "frames lost 3, gaps 1". */
static int add_counts(struct gsp_json_scan *scan, struct gsp_buf *out)
{
    gsp_auto_buf name = {0};
    int rc = gsp_json_scan_next(scan, NULL); /* { */
    while (rc == GSP_OK && (rc = gsp_json_scan_next(scan, NULL)) == GSP_OK &&
           scan->kind != GSP_JSON_SCAN_END) {
        if (scan->kind == GSP_JSON_SCAN_KEY) {
            gsp_buf_clear(&name);
            for (size_t i = 0; i < scan->text.len; i++)
                gsp_buf_putc(&name, scan->text.p[i] == '_' ? ' ' : scan->text.p[i]);
        } else if (scan->kind == GSP_JSON_SCAN_NUMBER && scan->number != 0) {
            gsp_buf_puts(out, out->len ? ", " : "");
            gsp_buf_putsv(out, gsp_buf_sv(&name));
            gsp_buf_putc(out, ' ');
            gsp_buf_putsv(out, scan->text);
        }
    }
    return rc;
}

static void put_losses(const struct gsp_buf *losses, struct gsp_buf *out)
{
    struct gsp_sv text = gsp_buf_sv(losses);
    struct gsp_json_scan scan = {0};
    gsp_auto_buf counts = {0};
    if (!losses->len)
        return;
    int rc = gsp_json_scan_open(&scan, gsp_json_scan_read_text, &text, NULL);
    if (rc == GSP_OK)
        rc = add_counts(&scan, &counts);
    gsp_json_scan_close(&scan);
    if (rc < 0) {
        out->failed |= rc == GSP_E_NOMEM;
        gsp_buf_puts(out, "; losses unreadable");
        return;
    }
    gsp_buf_puts(out, "; ");
    gsp_buf_term(out, counts.len ? gsp_buf_sv(&counts) : gsp_sv_of("nothing lost"));
}

void gsp_report_session_put_head(const struct gsp_session_data *data, struct gsp_buf *out)
{
    char length[32];
    gsp_buf_term(out, gsp_sv_of(data->name[0] ? data->name : "(unnamed session)"));
    if (data->host[0]) {
        gsp_buf_puts(out, " on ");
        gsp_buf_term(out, gsp_sv_of(data->host));
    }
    if (data->start_time[0]) {
        gsp_buf_puts(out, "\n");
        gsp_buf_term(out, gsp_sv_of(data->start_time));
        gsp_buf_puts(out, " to ");
        gsp_buf_term(out, gsp_sv_of(data->end_time));
    }
    double seconds = data->duration_s;
    if (!isfinite(seconds) && data->last_ns > data->first_ns)
        seconds = (double)(data->last_ns - data->first_ns) / (double)GSP_NS_PER_S;
    gsp_buf_printf(out, "\n%llu frame%s", (unsigned long long)data->frames,
                   gsp_model_plural_s(data->frames));
    if (isfinite(seconds) && seconds >= 0 && seconds < 1e9)
        gsp_buf_printf(
            out, " in %s",
            gsp_fmt_duration((int64_t)(seconds * (double)GSP_NS_PER_S), length, sizeof(length)));
    if (isfinite(data->frequency_ms))
        gsp_buf_printf(out, ", one every %.6g ms", data->frequency_ms);
    put_losses(&data->losses, out);
    if (data->timeless)
        gsp_buf_printf(out, "; %llu frame%s without a time", (unsigned long long)data->timeless,
                       gsp_model_plural_s(data->timeless));
    if (data->series_lost)
        gsp_buf_printf(out, "; %llu value%s of further devices left out",
                       (unsigned long long)data->series_lost,
                       gsp_model_plural_s(data->series_lost));
    gsp_buf_puts(out, "\n\n");
}

/* Three significant figures; powers of 1000 as letters. */
static void put_number(double v, char *out)
{
    static const char UNITS[] = " kMGTPE";
    size_t unit = 0;
    if (!isfinite(v)) {
        out[0] = '\0';
        return;
    }
    bool is_big = fabs(v) >= 9999.5;
    for (; is_big && fabs(v) >= 999.5 && unit + 1 < sizeof(UNITS) - 1; unit++)
        v /= 1000;
    double size = fabs(v);
    if (unit)
        snprintf(out, CELL_SIZE, "%.3g%c", v, UNITS[unit]);
    else if (size >= 1000)
        snprintf(out, CELL_SIZE, "%.0f", v);
    else
        snprintf(out, CELL_SIZE, "%.3g", v);
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Rows come from the summary of the file or, without one, from the series, without percentiles. */
static size_t row_count(const struct gsp_session_data *data)
{
    return data->row_count ? data->row_count : data->series_count;
}

static struct gsp_session_row row_at(const struct gsp_session_data *data, size_t i)
{
    if (data->row_count)
        return data->rows[i];
    const struct gsp_session_series *series = &data->series[i];
    const double no = (double)NAN;
    return (struct gsp_session_row){.metric = series->metric,
                                    .device = series->device,
                                    .count = (double)series->count,
                                    .mean = series->mean,
                                    .std = gsp_frames_series_std(series),
                                    .min = series->min,
                                    .max = series->max,
                                    .p50 = no,
                                    .p95 = no,
                                    .p99 = no,
                                    .integral = no};
}

static bool is_selected(const struct gsp_session_row *row, const char *metrics)
{
    /* Devices without a value are left out. */
    return !(row->count == 0) && gsp_export_plot_matches(metrics, or_empty(row->metric));
}

static void put_numbers(const struct gsp_session_row *row, char cells[NUMBERS][CELL_SIZE])
{
    const double numbers[NUMBERS] = {row->mean, row->max, row->p50, row->p95,
                                     row->p99,  row->min, row->std, row->integral};
    for (size_t i = 0; i < NUMBERS; i++)
        put_number(numbers[i], cells[i]);
}

static void add_row(struct gsp_row_list *row_list, const struct gsp_session_row *row,
                    const size_t *widths)
{
    char cells[NUMBERS][CELL_SIZE];
    put_numbers(row, cells);
    gsp_model_row_list_add_text(row_list, gsp_sv_of(or_empty(row->metric)));
    gsp_model_row_list_add_text(row_list, gsp_sv_of(or_empty(row->device)));
    for (size_t i = 0; i < NUMBERS; i++) {
        char padded[CELL_SIZE * 2];
        snprintf(padded, sizeof(padded), "%*s", (int)widths[i], cells[i]);
        gsp_model_row_list_add_text(row_list, gsp_sv_of(padded));
        if (i + 2 == NUMBERS)
            gsp_model_row_list_add_text(row_list, gsp_sv_of(or_empty(row->unit)));
    }
    gsp_model_row_list_add_text(row_list, gsp_sv_of(or_empty(row->integral_unit)));
}

int gsp_report_session_rows(const struct gsp_session_data *data, const char *metrics,
                            struct gsp_row_list **out, struct gsp_err *err)
{
    /* The most important columns first: a narrow terminal shows only these. */
    static const char *const NAMES[] = {"metric", "device", "mean", "max",  "p50",   "p95",
                                        "p99",    "min",    "std",  "unit", "total", "of"};
    struct gsp_rows_column columns[GSP_COUNT(NAMES)];
    size_t widths[NUMBERS] = {0};
    struct gsp_row_list *row_list = NULL;
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        columns[i] = (struct gsp_rows_column){NAMES[i], "VARCHAR", NULL, 0, GSP_CELL_TEXT};
    for (size_t k = 0; k < row_count(data); k++) {
        char cells[NUMBERS][CELL_SIZE];
        struct gsp_session_row row = row_at(data, k);
        put_numbers(&row, cells);
        for (size_t i = 0; i < NUMBERS && is_selected(&row, metrics); i++)
            widths[i] = strlen(cells[i]) > widths[i] ? strlen(cells[i]) : widths[i];
    }
    int rc = gsp_model_row_list_new(columns, GSP_COUNT(NAMES), &row_list, err);
    if (rc < 0)
        return rc;
    for (size_t k = 0; k < row_count(data); k++) {
        struct gsp_session_row row = row_at(data, k);
        if (is_selected(&row, metrics))
            add_row(row_list, &row, widths);
    }
    *out = row_list;
    return GSP_OK;
}

static void put_raw(struct gsp_json *json, const char *key, const struct gsp_buf *value)
{
    if (!value->len)
        return;
    gsp_json_put_raw(json, key, gsp_buf_sv(value));
}

static void put_text(struct gsp_json *json, const char *key, const char *text)
{
    gsp_json_put_str(json, key, text && text[0] ? text : NULL);
}

static void put_row(struct gsp_json *json, const struct gsp_session_row *row)
{
    gsp_json_obj_begin(json);
    put_text(json, "metric", row->metric);
    put_text(json, "device", row->device);
    put_text(json, "unit", row->unit);
    gsp_json_put_f64(json, "count", row->count);
    gsp_json_put_f64(json, "mean", row->mean);
    gsp_json_put_f64(json, "std", row->std);
    gsp_json_put_f64(json, "min", row->min);
    gsp_json_put_f64(json, "max", row->max);
    gsp_json_put_f64(json, "p50", row->p50);
    gsp_json_put_f64(json, "p95", row->p95);
    gsp_json_put_f64(json, "p99", row->p99);
    gsp_json_put_f64(json, "integral", row->integral);
    put_text(json, "integral_unit", row->integral_unit);
    gsp_json_obj_end(json);
}

void gsp_report_session_put_json(const struct gsp_session_data *data, const char *metrics,
                                 struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    put_raw(&json, "metadata", &data->metadata);
    gsp_json_put_u64(&json, "frames", data->frames);
    put_raw(&json, "summary_by_device", &data->by_device);
    put_raw(&json, "summary_by_client", &data->by_client);
    gsp_json_put_arr_begin(&json, "summary");
    for (size_t i = 0; i < row_count(data); i++) {
        struct gsp_session_row row = row_at(data, i);
        if (is_selected(&row, metrics))
            put_row(&json, &row);
    }
    gsp_json_arr_end(&json);
    put_raw(&json, "losses", &data->losses);
    put_raw(&json, "gaps", &data->gaps);
    gsp_json_obj_end(&json);
}
