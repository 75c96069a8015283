/* SPDX-License-Identifier: Apache-2.0 */
#include "compare/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "model/format.h"
#include "report/grid.h"

/* Rows of two recordings match by name. */
static int find_or_add(struct gsp_memory_comparison *comparison, struct gsp_hmap *map,
                       struct gsp_buf *name, struct gsp_memory_comparison_row **out)
{
    const uint64_t a = gsp_hash_bytes(name->p, name->len, 1);
    const uint64_t b = gsp_hash_bytes(name->p, name->len, 2);
    const uint32_t *known = gsp_hmap_get(map, a, b);
    if (known) {
        *out = &comparison->at[*known];
        return GSP_OK;
    }
    if (name->failed || !gsp_hmap_put(map, a, b, (uint32_t)comparison->count))
        return GSP_E_NOMEM;
    *out = &comparison->at[comparison->count++];
    (*out)->name = *name;
    *name = (struct gsp_buf){0};
    return GSP_OK;
}

static int add_side(struct gsp_memory_comparison *comparison, struct gsp_hmap *map,
                    const struct gsp_memory_view *report, bool is_after)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < report->rows.count; i++) {
        const struct gsp_memlog_row *from = &report->rows.at[i];
        struct gsp_memory_comparison_row *row = NULL;
        gsp_auto_buf name = {0};
        gsp_memlog_group_name(&report->groups, report->log, from->group, &name);
        rc = find_or_add(comparison, map, &name, &row);
        if (rc < 0)
            break;
        *(is_after ? &row->after : &row->before) += from->value.bytes;
        row->var += from->value.var;
    }
    return rc;
}

static int by_difference(const void *a, const void *b)
{
    const struct gsp_memory_comparison_row *x = a;
    const struct gsp_memory_comparison_row *y = b;
    const int64_t p = llabs(x->after - x->before);
    const int64_t q = llabs(y->after - y->before);
    return (p < q) - (p > q);
}

int gsp_compare_memory_make(struct gsp_memory_comparison *comparison,
                            const struct gsp_memory_view *a, const struct gsp_memory_view *b,
                            struct gsp_err *err)
{
    struct gsp_hmap map = {0};
    *comparison = (struct gsp_memory_comparison){0};
    comparison->at = calloc(a->rows.count + b->rows.count + 1, sizeof(*comparison->at));
    int rc = comparison->at ? add_side(comparison, &map, a, false) : GSP_E_NOMEM;
    if (rc == GSP_OK)
        rc = add_side(comparison, &map, b, true);
    gsp_hmap_free(&map);
    if (rc < 0)
        return gsp_err_nomem(err);
    qsort(comparison->at, comparison->count, sizeof(*comparison->at), by_difference);
    return GSP_OK;
}

void gsp_compare_memory_free(struct gsp_memory_comparison *comparison)
{
    for (size_t i = 0; i < comparison->count; i++)
        gsp_buf_free(&comparison->at[i].name);
    free(comparison->at);
    *comparison = (struct gsp_memory_comparison){0};
}

static void add_amount(struct gsp_report_grid *grid, int64_t bytes)
{
    gsp_model_amount_put(GSP_UNIT_BYTES, bytes, &grid->cell);
    gsp_report_grid_cell(grid);
}

void gsp_compare_memory_text(const struct gsp_memory_comparison *comparison,
                             const struct gsp_memory_view *b, struct gsp_buf *out)
{
    struct gsp_report_grid grid = {
        .column_count = 4,
        .columns = {{"change", GSP_REPORT_GRID_NUMBER, 10},
                    {"before", GSP_REPORT_GRID_NUMBER, 8},
                    {"after", GSP_REPORT_GRID_NUMBER, 8},
                    {gsp_memlog_group_by_name(b->groups.by), GSP_REPORT_GRID_TEXT, 0}}};
    for (size_t i = 0; i < comparison->count && (!b->limit || i < b->limit); i++) {
        const struct gsp_memory_comparison_row *row = &comparison->at[i];
        add_amount(&grid, row->after - row->before);
        add_amount(&grid, row->before);
        add_amount(&grid, row->after);
        gsp_buf_putsv(&grid.cell, gsp_buf_sv(&row->name));
        gsp_report_grid_cell(&grid);
        gsp_report_grid_row(&grid);
    }
    gsp_report_grid_text(&grid, b->width, out);
    gsp_report_grid_free(&grid);
}

int gsp_compare_memory_rows(const struct gsp_memory_comparison *comparison,
                            struct gsp_row_list **out, struct gsp_err *err)
{
    static const struct gsp_rows_column COLUMNS[] = {
        {.name = "name", .sql_type = "VARCHAR", .kind = GSP_CELL_TEXT},
        {.name = "change_bytes", .sql_type = "BIGINT", .kind = GSP_CELL_I64},
        {.name = "before_bytes", .sql_type = "BIGINT", .kind = GSP_CELL_I64},
        {.name = "after_bytes", .sql_type = "BIGINT", .kind = GSP_CELL_I64},
        {.name = "error_bytes", .sql_type = "BIGINT", .kind = GSP_CELL_I64},
    };
    int rc = gsp_model_row_list_new(COLUMNS, GSP_COUNT(COLUMNS), out, err);
    for (size_t i = 0; rc == GSP_OK && i < comparison->count; i++) {
        const struct gsp_memory_comparison_row *row = &comparison->at[i];
        gsp_model_row_list_add_text(*out, gsp_buf_sv(&row->name));
        gsp_model_row_list_add_i64(*out, row->after - row->before);
        gsp_model_row_list_add_i64(*out, row->before);
        gsp_model_row_list_add_i64(*out, row->after);
        gsp_model_row_list_add_i64(*out, (int64_t)(1024 * sqrt(row->var)));
    }
    return rc;
}
