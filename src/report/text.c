/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/format.h"
#include "report/phrases.h"
#include "report/profile.h"
#include "report/verdict.h"
#include "report/write_internal.h"

#define ROWS_DEFAULT   20U
#define MODULE_COLUMNS 8U

static size_t rows_of(const struct gsp_digest_write *opts)
{
    return opts->limit ? opts->limit : ROWS_DEFAULT;
}

static const struct gsp_view_options BY_FUNCTION = {.by_function = true};

/* The cells of a module's row, numbers first, names last. */
static void module_cell(const struct gsp_digest_module *module, size_t column, struct gsp_buf *out)
{
    switch (column) {
    case 0:
        if (!isnan(module->share))
            gsp_words_share(module->share, 1, out);
        break;
    case 1:
        gsp_words_seconds(module->total_s, out);
        break;
    case 2:
        gsp_model_count_put(module->calls, out);
        break;
    case 3:
        gsp_words_seconds(module->mean_s, out);
        break;
    case 4:
        gsp_words_seconds(module->p99_s, out);
        break;
    case 5:
        gsp_buf_putsv(out, module->stage);
        break;
    case 6:
        gsp_buf_putsv(out, module->module);
        break;
    default:
        gsp_buf_putsv(out, module->class_name);
    }
}

static const char *const MODULE_HEADINGS[MODULE_COLUMNS] = {"share", "total", "calls",  "mean",
                                                            "p99",   "stage", "module", "class"};
/* Of text: numbers to the right, names as they come. */
static const int MODULE_WIDTHS[MODULE_COLUMNS] = {8, 9, 9, 9, 9, -9, -28, 0};

static void text_modules(const struct gsp_digest *digest, size_t limit, struct gsp_buf *out)
{
    gsp_auto_buf cell = {0};
    gsp_auto_buf safe = {0};
    gsp_buf_puts(out, "\nModules\n");
    for (size_t k = 0; k < MODULE_COLUMNS; k++)
        gsp_buf_printf(out, "%*s%s", MODULE_WIDTHS[k], MODULE_HEADINGS[k],
                       k + 1 < MODULE_COLUMNS ? " " : "\n");
    for (size_t i = 0; i < digest->module_count && i < limit; i++) {
        for (size_t k = 0; k < MODULE_COLUMNS; k++) {
            gsp_buf_clear(&cell);
            gsp_buf_clear(&safe);
            module_cell(&digest->modules[i], k, &cell);
            gsp_buf_term(&safe, gsp_buf_sv(&cell));
            const char *text = gsp_buf_cstr(&safe);
            gsp_buf_printf(out, "%*s%s", MODULE_WIDTHS[k], text ? text : "",
                           k + 1 < MODULE_COLUMNS ? " " : "\n");
        }
    }
    if (digest->module_count > limit)
        gsp_buf_printf(out, "  and %zu more\n", digest->module_count - limit);
}

static void text_metrics(const struct gsp_digest *digest, size_t limit, struct gsp_buf *out)
{
    gsp_auto_buf cell = {0};
    size_t shown = 0;
    size_t all = 0;
    gsp_buf_printf(out, "\nMetrics\n%10s %10s %10s  %s\n", "mean", "lowest", "highest", "what");
    for (size_t i = 0; i < digest->chart_count; i++) {
        const struct gsp_digest_chart *chart = &digest->charts[i];
        for (size_t k = 0; k < chart->series_count; k++) {
            const struct gsp_digest_stats *stats = &chart->series[k].stats;
            const double values[] = {stats->mean, stats->min, stats->max};
            all++;
            if (shown == limit)
                continue;
            shown++;
            for (size_t n = 0; n < GSP_COUNT(values); n++) {
                gsp_buf_clear(&cell);
                gsp_words_value(values[n], chart->unit, &cell);
                const char *text = gsp_buf_cstr(&cell);
                gsp_buf_printf(out, "%10s ", text ? text : "");
            }
            gsp_buf_putc(out, ' ');
            gsp_buf_term(out, chart->title);
            gsp_buf_puts(out, ", ");
            gsp_buf_term(out, chart->series[k].name);
            gsp_buf_putc(out, '\n');
        }
    }
    if (all > shown)
        gsp_buf_printf(out, "  and %zu more\n", all - shown);
}

int gsp_digest__text(const struct gsp_digest *digest, const struct gsp_digest_write *opts,
                     struct gsp_buf *out, struct gsp_err *err)
{
    const struct gsp_report_opts report = {.limit = rows_of(opts), .width = opts->width};
    gsp_buf_term(out, digest->title);
    gsp_buf_putc(out, '\n');
    for (size_t i = 0; i < digest->fact_count; i++) {
        gsp_buf_printf(out, "  %-16.*s ", (int)digest->facts[i].name.len, digest->facts[i].name.p);
        gsp_buf_term(out, digest->facts[i].value);
        gsp_buf_putc(out, '\n');
    }
    gsp_buf_putc(out, '\n');
    gsp_digest_verdict_text(digest, out);
    int rc = GSP_OK;
    if (digest->stacks.function_count) {
        gsp_buf_puts(out, "\nFunctions, all threads\n");
        rc = gsp_report_top(digest->profile, &BY_FUNCTION, &report, out, err);
    }
    if (digest->module_count)
        text_modules(digest, rows_of(opts), out);
    if (digest->chart_count)
        text_metrics(digest, rows_of(opts), out);
    return rc;
}

static void markdown_heading(const char *const *names, size_t count, size_t numbers,
                             struct gsp_buf *out)
{
    for (size_t i = 0; i < count; i++)
        gsp_buf_printf(out, "%s %s ", "|", names[i]);
    gsp_buf_puts(out, "|\n");
    for (size_t i = 0; i < count; i++)
        gsp_buf_puts(out, i < numbers ? "|---:" : "|:---");
    gsp_buf_puts(out, "|\n");
}

static void markdown_modules(const struct gsp_digest *digest, size_t limit, struct gsp_buf *out)
{
    gsp_auto_buf cell = {0};
    gsp_buf_puts(out, "\n## Modules\n\n");
    markdown_heading(MODULE_HEADINGS, MODULE_COLUMNS, 5, out);
    for (size_t i = 0; i < digest->module_count && i < limit; i++) {
        for (size_t k = 0; k < MODULE_COLUMNS; k++) {
            gsp_buf_clear(&cell);
            module_cell(&digest->modules[i], k, &cell);
            gsp_buf_puts(out, "| ");
            gsp_report_markdown_text(out, gsp_buf_sv(&cell));
            gsp_buf_putc(out, ' ');
        }
        gsp_buf_puts(out, "|\n");
    }
    if (digest->module_count > limit)
        gsp_buf_printf(out, "\nand %zu more\n", digest->module_count - limit);
}

static void markdown_metrics(const struct gsp_digest *digest, struct gsp_buf *out)
{
    static const char *const NAMES[] = {"mean", "lowest", "highest", "metric", "of"};
    gsp_buf_puts(out, "\n## Metrics\n\n");
    markdown_heading(NAMES, GSP_COUNT(NAMES), 3, out);
    for (size_t i = 0; i < digest->chart_count; i++) {
        const struct gsp_digest_chart *chart = &digest->charts[i];
        for (size_t k = 0; k < chart->series_count; k++) {
            const struct gsp_digest_stats *stats = &chart->series[k].stats;
            const double values[] = {stats->mean, stats->min, stats->max};
            for (size_t n = 0; n < GSP_COUNT(values); n++) {
                gsp_buf_puts(out, "| ");
                gsp_words_value(values[n], chart->unit, out);
                gsp_buf_putc(out, ' ');
            }
            gsp_buf_puts(out, "| ");
            gsp_report_markdown_text(out, chart->title);
            gsp_buf_puts(out, " | ");
            gsp_report_markdown_text(out, chart->series[k].name);
            gsp_buf_puts(out, " |\n");
        }
    }
}

int gsp_digest__markdown(const struct gsp_digest *digest, const struct gsp_digest_write *opts,
                         struct gsp_buf *out, struct gsp_err *err)
{
    const struct gsp_report_opts report = {.limit = rows_of(opts)};
    gsp_buf_puts(out, "# ");
    gsp_report_markdown_text(out, digest->title);
    gsp_buf_puts(out, "\n\n");
    for (size_t i = 0; i < digest->verdict_count; i++) {
        gsp_buf_puts(out, "- ");
        gsp_report_markdown_text(out, digest->verdict[i]);
        gsp_buf_putc(out, '\n');
    }
    gsp_buf_puts(out, "\n|  |  |\n|:---|:---|\n");
    for (size_t i = 0; i < digest->fact_count; i++) {
        gsp_buf_puts(out, "| ");
        gsp_report_markdown_text(out, digest->facts[i].name);
        gsp_buf_puts(out, " | ");
        gsp_report_markdown_text(out, digest->facts[i].value);
        gsp_buf_puts(out, " |\n");
    }
    int rc = GSP_OK;
    if (digest->stacks.function_count) {
        gsp_buf_puts(out, "\n## Functions\n\n");
        rc = gsp_report_markdown(digest->profile, &BY_FUNCTION, &report, out, err);
    }
    if (digest->module_count)
        markdown_modules(digest, rows_of(opts), out);
    if (digest->chart_count)
        markdown_metrics(digest, out);
    return rc;
}
