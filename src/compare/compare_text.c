/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "compare/compare_internal.h"
#include "compare/compare_write_internal.h"
#include "model/format.h"
#include "report/grid.h"

#define ROWS_DEFAULT 15U

struct printer {
    const struct gsp_compare *compare;
    const struct gsp_compare_write_opts *opts;
    struct gsp_buf *out;
    size_t limit;
    bool is_markdown;
};

static void put_name(const struct printer *p, struct gsp_sv name)
{
    if (p->is_markdown)
        gsp_report_markdown_text(p->out, name);
    else
        gsp_buf_term(p->out, name);
}

static void heading(const struct printer *p, const char *text)
{
    gsp_buf_printf(p->out, p->is_markdown ? "\n## %s\n\n" : "\n%s\n", text);
}

void gsp_compare_result_put(const struct gsp_compare_rule_result *result, struct gsp_buf *out)
{
    const struct gsp_compare_rule *rule = result->rule;
    gsp_buf_term(out, gsp_sv_of(rule->text));
    gsp_buf_puts(out, result->is_failed ? ": failed, " : ": passed, ");
    if (rule->subject != GSP_RULE_METRIC) {
        gsp_buf_term(out, result->row->name);
        gsp_buf_putc(out, ' ');
    }
    if (rule->kind == GSP_RULE_CHANGE_PCT && isinf(result->value))
        gsp_buf_puts(out, "was 0 before");
    else if (rule->kind == GSP_RULE_CHANGE_PCT)
        gsp_compare__put_change(result->value, out);
    else
        gsp_model_value_put(result->value, result->row->unit, out);
    if (result->is_over && !result->is_significant)
        gsp_buf_puts(out, result->row->verdict == GSP_COMPARE_UNKNOWN
                              ? " but too few values to tell it from chance"
                              : " but not significant");
}

/* Adds the cells that metrics and modules share, and ends the row. */
static void put_cells(struct gsp_report_grid *grid, const struct gsp_compare_row *row)
{
    for (int i = 0; i < 2; i++) {
        gsp_model_value_put(row->value[i], row->unit, &grid->cell);
        gsp_report_grid_cell(grid);
    }
    gsp_compare__put_change(row->change, &grid->cell);
    gsp_report_grid_cell(grid);
    if (isnan(row->low) || gsp_compare__is_from_nothing(row->change)) {
        gsp_buf_putc(&grid->cell, '-');
    } else {
        gsp_buf_printf(&grid->cell, "%+.1f to ", 100 * row->low);
        gsp_buf_printf(&grid->cell, "%+.1f %%", 100 * row->high);
    }
    gsp_report_grid_cell(grid);
    gsp_compare__put_p(row->p, &grid->cell);
    gsp_report_grid_cell(grid);
    gsp_buf_puts(&grid->cell, gsp_compare__verdict_text(row->verdict));
    gsp_report_grid_cell(grid);
    gsp_report_grid_row(grid);
}

static void put_grid(const struct printer *p, const struct gsp_report_grid *grid)
{
    if (p->is_markdown)
        gsp_report_grid_markdown(grid, p->out);
    else
        gsp_report_grid_text(grid, p->opts->width, p->out);
}

static void put_table(const struct printer *p, const char *title,
                      const struct gsp_compare_row *rows, size_t count)
{
    struct gsp_report_grid grid = {.column_count = 7,
                                   .columns = {{title, GSP_REPORT_GRID_PATH, 0},
                                               {"a", GSP_REPORT_GRID_NUMBER, 0},
                                               {"b", GSP_REPORT_GRID_NUMBER, 0},
                                               {"change", GSP_REPORT_GRID_NUMBER, 0},
                                               {"95 % interval", GSP_REPORT_GRID_NUMBER, 0},
                                               {"p", GSP_REPORT_GRID_NUMBER, 0},
                                               {"verdict", GSP_REPORT_GRID_NUMBER, 0}}};
    for (size_t i = 0; i < count && i < p->limit; i++) {
        gsp_buf_putsv(&grid.cell, rows[i].name);
        gsp_report_grid_cell(&grid);
        put_cells(&grid, &rows[i]);
    }
    put_grid(p, &grid);
    gsp_report_grid_free(&grid);
    if (count > p->limit)
        gsp_buf_printf(p->out, "%s%zu more (--top %zu shows all)\n", p->is_markdown ? "\n" : "",
                       count - p->limit, count);
}

static void put_functions(const struct printer *p)
{
    const struct gsp_compare *compare = p->compare;
    struct gsp_report_grid grid = {.column_count = 7,
                                   .columns = {{"function", GSP_REPORT_GRID_PATH, 0},
                                               {"a", GSP_REPORT_GRID_NUMBER, 0},
                                               {"b", GSP_REPORT_GRID_NUMBER, 0},
                                               {"change", GSP_REPORT_GRID_NUMBER, 0},
                                               {"", GSP_REPORT_GRID_NUMBER, 0},
                                               {"p", GSP_REPORT_GRID_NUMBER, 0},
                                               {"verdict", GSP_REPORT_GRID_NUMBER, 0}}};
    const struct gsp_sv unit = gsp_sv_of(compare->unit);
    size_t shown = 0;
    for (size_t i = 0; i < compare->function_count && shown < p->limit; i++) {
        const struct gsp_compare_function *function = &compare->functions[compare->order[i]];
        const struct gsp_compare_row *row = &function->row;
        const double difference = row->value[1] - row->value[0];
        if (!(fabs(difference) > 0))
            break;
        shown++;
        gsp_buf_putsv(&grid.cell, row->name);
        if (function->file.len > 0) {
            gsp_buf_puts(&grid.cell, " (");
            gsp_buf_putsv(&grid.cell, function->file);
            if (function->line > 0)
                gsp_buf_printf(&grid.cell, ":%u", function->line);
            gsp_buf_putc(&grid.cell, ')');
        }
        gsp_report_grid_cell(&grid);
        for (int side = 0; side < 2; side++) {
            gsp_model_value_put(row->value[side], unit, &grid.cell);
            gsp_report_grid_cell(&grid);
        }
        gsp_buf_puts(&grid.cell, difference > 0 ? "+" : "");
        gsp_model_value_put(difference, unit, &grid.cell);
        gsp_report_grid_cell(&grid);
        gsp_compare__put_change(row->change, &grid.cell);
        gsp_report_grid_cell(&grid);
        gsp_compare__put_p(row->p, &grid.cell);
        gsp_report_grid_cell(&grid);
        gsp_buf_puts(&grid.cell, gsp_compare__verdict_text(row->verdict));
        gsp_report_grid_cell(&grid);
        gsp_report_grid_row(&grid);
    }
    put_grid(p, &grid);
    gsp_report_grid_free(&grid);
}

static void put_functions_heading(const struct printer *p)
{
    static const char *const titles[] = {"", "Own time of functions per step",
                                         "Own time of functions in total",
                                         "Own share of functions"};
    heading(p, titles[p->compare->per]);
}

static void put_list(const struct printer *p, struct gsp_sv line)
{
    gsp_buf_puts(p->out, p->is_markdown ? "- " : "  ");
    put_name(p, line);
    gsp_buf_putc(p->out, '\n');
}

static void put_results(const struct printer *p)
{
    heading(p, "Rules");
    for (size_t i = 0; i < p->opts->result_count; i++) {
        gsp_auto_buf line = {0};
        gsp_compare_result_put(&p->opts->results[i], &line);
        put_list(p, gsp_buf_sv(&line));
    }
}

void gsp_compare__write_text(const struct gsp_compare *compare,
                             const struct gsp_compare_write_opts *opts, bool is_markdown,
                             struct gsp_buf *out)
{
    const struct printer p = {.compare = compare,
                              .opts = opts,
                              .out = out,
                              .limit = opts->limit > 0 ? opts->limit : ROWS_DEFAULT,
                              .is_markdown = is_markdown};
    gsp_buf_puts(out, is_markdown ? "# a: " : "a: ");
    put_name(&p, compare->name[0]);
    gsp_buf_puts(out, is_markdown ? ", b: " : "\nb: ");
    put_name(&p, compare->name[1]);
    gsp_buf_puts(out, is_markdown ? "\n\n**" : "\n\n");
    put_name(&p, compare->verdict);
    gsp_buf_puts(out, is_markdown ? "**\n" : "\n");
    if (compare->note_count > 0)
        gsp_buf_putc(out, '\n');
    for (size_t i = 0; i < compare->note_count; i++)
        put_list(&p, compare->notes[i]);
    if (compare->metric_count > 0) {
        heading(&p, "Metrics");
        put_table(&p, "metric", compare->metrics, compare->metric_count);
    }
    if (compare->module_count > 0) {
        heading(&p, "Modules");
        put_table(&p, "module", compare->modules, compare->module_count);
    }
    if (compare->function_count > 0 && !compare->is_same) {
        put_functions_heading(&p);
        put_functions(&p);
    }
    if (opts->result_count > 0)
        put_results(&p);
}
