/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/format.h"
#include "report/document_write_internal.h"
#include "report/grid.h"
#include "report/profile.h"
#include "report/verdict.h"

#define ROWS_DEFAULT   20U
#define MODULE_COLUMNS 8U

static size_t rows_of(const struct gsp_report_write_opts *opts)
{
    return opts->limit ? opts->limit : ROWS_DEFAULT;
}

static const struct gsp_view_options BY_FUNCTION = {.by_function = true};

/* Cells of a module: numbers first, names last. */
static void put_module_cell(const struct gsp_report_module *module, size_t column,
                            struct gsp_buf *out)
{
    switch (column) {
    case 0:
        if (!isnan(module->share))
            gsp_model_share_put(module->share, 1, out);
        break;
    case 1:
        gsp_model_seconds_put(module->total_s, out);
        break;
    case 2:
        gsp_model_count_put(module->calls, out);
        break;
    case 3:
        gsp_model_seconds_put(module->mean_s, out);
        break;
    case 4:
        gsp_model_seconds_put(module->p99_s, out);
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

static struct gsp_report_grid module_grid(void)
{
    return (struct gsp_report_grid){.column_count = MODULE_COLUMNS,
                                    .columns = {{"share", GSP_REPORT_GRID_NUMBER, 8},
                                                {"total", GSP_REPORT_GRID_NUMBER, 8},
                                                {"calls", GSP_REPORT_GRID_NUMBER, 8},
                                                {"mean", GSP_REPORT_GRID_NUMBER, 8},
                                                {"p99", GSP_REPORT_GRID_NUMBER, 8},
                                                {"stage", GSP_REPORT_GRID_TEXT, 8},
                                                {"module", GSP_REPORT_GRID_TEXT, 28},
                                                {"class", GSP_REPORT_GRID_TEXT, 0}}};
}

/* Returns the number of rows left out. */
static size_t add_modules(struct gsp_report_grid *grid, const struct gsp_report *document,
                          size_t limit)
{
    const size_t count = document->module_count < limit ? document->module_count : limit;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < MODULE_COLUMNS; k++) {
            put_module_cell(&document->modules[i], k, &grid->cell);
            gsp_report_grid_cell(grid);
        }
        gsp_report_grid_row(grid);
    }
    return document->module_count - count;
}

static struct gsp_report_grid metric_grid(void)
{
    return (struct gsp_report_grid){.column_count = 5,
                                    .columns = {{"mean", GSP_REPORT_GRID_NUMBER, 10},
                                                {"lowest", GSP_REPORT_GRID_NUMBER, 9},
                                                {"highest", GSP_REPORT_GRID_NUMBER, 9},
                                                {"metric", GSP_REPORT_GRID_TEXT, 0},
                                                {"of", GSP_REPORT_GRID_TEXT, 0}}};
}

/* Returns the number of rows left out. */
static size_t add_metrics(struct gsp_report_grid *grid, const struct gsp_report *document,
                          size_t limit)
{
    size_t count = 0;
    for (size_t i = 0; i < document->chart_count; i++) {
        const struct gsp_report_chart *chart = &document->charts[i];
        for (size_t k = 0; k < chart->series_count; k++) {
            const struct gsp_report_stats *stats = &chart->series[k].stats;
            const double values[] = {stats->mean, stats->min, stats->max};
            if (++count > limit)
                continue;
            for (size_t n = 0; n < GSP_COUNT(values); n++) {
                gsp_model_value_put(values[n], chart->unit, &grid->cell);
                gsp_report_grid_cell(grid);
            }
            gsp_buf_putsv(&grid->cell, chart->title);
            gsp_report_grid_cell(grid);
            gsp_buf_putsv(&grid->cell, chart->series[k].name);
            gsp_report_grid_cell(grid);
            gsp_report_grid_row(grid);
        }
    }
    return count > limit ? count - limit : 0;
}

/* Writes and frees a table below its heading. */
static void put_table(struct gsp_report_grid *grid, const char *heading, size_t left_out,
                      struct gsp_buf *out)
{
    gsp_buf_printf(out, "\n%s\n", heading);
    gsp_report_grid_text(grid, 0, out);
    if (left_out > 0)
        gsp_buf_printf(out, "  and %zu more\n", left_out);
    gsp_report_grid_free(grid);
}

static void put_markdown(struct gsp_report_grid *grid, const char *heading, size_t left_out,
                         struct gsp_buf *out)
{
    gsp_buf_printf(out, "\n## %s\n\n", heading);
    gsp_report_grid_markdown(grid, out);
    if (left_out > 0)
        gsp_buf_printf(out, "\nand %zu more\n", left_out);
    gsp_report_grid_free(grid);
}

static struct gsp_report_grid site_grid(void)
{
    return (struct gsp_report_grid){.column_count = 4,
                                    .columns = {{"bytes", GSP_REPORT_GRID_NUMBER, 0},
                                                {"blocks", GSP_REPORT_GRID_NUMBER, 0},
                                                {"function", GSP_REPORT_GRID_TEXT, 0},
                                                {"file:line", GSP_REPORT_GRID_PATH, 0}}};
}

/* Returns the number of rows left out. */
static size_t add_sites(struct gsp_report_grid *grid, const struct gsp_report *document,
                        size_t limit)
{
    const size_t all = document->memory.site_count;
    const size_t count = all < limit ? all : limit;
    for (size_t i = 0; i < count; i++) {
        const struct gsp_report_site *site = &document->memory.sites[i];
        const struct gsp_report_frame none = {.func = gsp_sv_of("(unknown)")};
        const struct gsp_report_frame *frame =
            site->frame_count ? &document->site_frames[site->frames[site->frame_count - 1]] : &none;
        gsp_model_bytes_put(site->bytes, &grid->cell);
        gsp_report_grid_cell(grid);
        gsp_model_count_put((uint64_t)site->count, &grid->cell);
        gsp_report_grid_cell(grid);
        gsp_buf_putsv(&grid->cell, frame->func);
        gsp_report_grid_cell(grid);
        gsp_buf_putsv(&grid->cell, frame->file);
        if (frame->line > 0)
            gsp_buf_printf(&grid->cell, ":%u", frame->line);
        gsp_report_grid_cell(grid);
        gsp_report_grid_row(grid);
    }
    return all - count;
}

/* Writes the tables of a document with `put`, which frees them. */
static void put_tables(const struct gsp_report *document,
                       void (*put)(struct gsp_report_grid *grid, const char *heading,
                                   size_t left_out, struct gsp_buf *out),
                       size_t limit, size_t metric_limit, struct gsp_buf *out)
{
    if (document->kind == GSP_REPORT_MEMORY && document->memory.site_count) {
        struct gsp_report_grid grid = site_grid();
        const size_t left_out = add_sites(&grid, document, limit);
        put(&grid, "Allocation sites", left_out, out);
    }
    if (document->module_count) {
        struct gsp_report_grid grid = module_grid();
        const size_t left_out = add_modules(&grid, document, limit);
        put(&grid, "Modules", left_out, out);
    }
    if (document->chart_count) {
        struct gsp_report_grid grid = metric_grid();
        const size_t left_out = add_metrics(&grid, document, metric_limit);
        put(&grid, "Metrics", left_out, out);
    }
}

int gsp_report__write_text(const struct gsp_report *document,
                           const struct gsp_report_write_opts *opts, struct gsp_buf *out,
                           struct gsp_err *err)
{
    const struct gsp_profile_report_opts report = {.limit = rows_of(opts), .width = opts->width};
    gsp_buf_term(out, document->title);
    gsp_buf_putc(out, '\n');
    for (size_t i = 0; i < document->fact_count; i++) {
        gsp_buf_printf(out, "  %-16.*s ", (int)document->facts[i].name.len,
                       document->facts[i].name.p);
        gsp_buf_term(out, document->facts[i].value);
        gsp_buf_putc(out, '\n');
    }
    gsp_buf_putc(out, '\n');
    gsp_report_verdict_put(document, out, out);
    int rc = GSP_OK;
    if (document->stacks.function_count) {
        gsp_buf_puts(out, "\nFunctions, all threads\n");
        rc = gsp_report_profile_top(document->profile, &BY_FUNCTION, &report, out, err);
    }
    put_tables(document, put_table, rows_of(opts), rows_of(opts), out);
    return rc;
}

int gsp_report__write_markdown(const struct gsp_report *document,
                               const struct gsp_report_write_opts *opts, struct gsp_buf *out,
                               struct gsp_err *err)
{
    const struct gsp_profile_report_opts report = {.limit = rows_of(opts)};
    gsp_buf_puts(out, "# ");
    gsp_report_markdown_text(out, document->title);
    gsp_buf_puts(out, "\n\n");
    for (size_t i = 0; i < document->verdict_count; i++) {
        gsp_buf_puts(out, "- ");
        gsp_report_markdown_text(out, document->verdict[i]);
        gsp_buf_putc(out, '\n');
    }
    gsp_buf_puts(out, "\n|  |  |\n|:---|:---|\n");
    for (size_t i = 0; i < document->fact_count; i++) {
        gsp_buf_puts(out, "| ");
        gsp_report_markdown_text(out, document->facts[i].name);
        gsp_buf_puts(out, " | ");
        gsp_report_markdown_text(out, document->facts[i].value);
        gsp_buf_puts(out, " |\n");
    }
    int rc = GSP_OK;
    if (document->stacks.function_count) {
        gsp_buf_puts(out, "\n## Functions\n\n");
        rc = gsp_report_profile_markdown(document->profile, &BY_FUNCTION, &report, out, err);
    }
    put_tables(document, put_markdown, rows_of(opts), SIZE_MAX, out);
    return rc;
}
