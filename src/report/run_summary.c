/* SPDX-License-Identifier: Apache-2.0 */
#include "report/run_summary.h"

#include "base/str.h"
#include "model/rows.h"
#include "ring/dir.h"
#include "store/store.h"

#define LINES_MAX "8"

/* Idle threads would hide the busy ones. */
static const char FUNCTIONS_SQL[] =
    "WITH stacks AS (SELECT stack_id, sum(weight_ns) AS ns FROM python.stack_sample "
    "WHERE on_cpu GROUP BY stack_id), "
    "whole AS (SELECT sum(ns) AS ns FROM stacks) "
    "SELECT func::VARCHAR, file::VARCHAR, "
    "100.0 * coalesce(sum(stacks.ns) FILTER (WHERE depth = 0), 0) / any_value(whole.ns) AS self, "
    "100.0 * sum(stacks.ns) / any_value(whole.ns) AS total "
    "FROM stacks JOIN gsprof.stack_functions() USING (stack_id), whole "
    "GROUP BY func, file ORDER BY self DESC, total DESC, func LIMIT " LINES_MAX;

static const char MODULES_SQL[] =
    "SELECT module::VARCHAR, stage::VARCHAR, total_s * 1.0 AS total_s, mean_ms * 1.0 AS mean_ms "
    "FROM gsprof.module_percentiles() ORDER BY total_s DESC, module LIMIT " LINES_MAX;

/* A row of either statement. */
struct line {
    struct gsp_sv text[2];
    double number[2];
};

static struct gsp_sv text_at(const struct gsp_rows *rows, const struct gsp_batch_view *batch,
                             size_t column, size_t row)
{
    const struct gsp_values *values = &batch->values[column];
    if (gsp_model_values_is_null(values, row))
        return gsp_sv_of("?");
    if (rows->columns[column].kind == GSP_CELL_DICT)
        return rows->columns[column].dict[((const uint32_t *)values->data)[row]];
    return ((const struct gsp_sv *)values->data)[row];
}

static double number_at(const struct gsp_rows *rows, const struct gsp_batch_view *batch,
                        size_t column, size_t row)
{
    const struct gsp_values *values = &batch->values[column];
    const bool is_number = rows->columns[column].kind == GSP_CELL_F64;
    return is_number && !gsp_model_values_is_null(values, row) ? ((const double *)values->data)[row]
                                                               : 0;
}

static void print_function(const struct line *line, struct gsp_buf *out)
{
    gsp_buf_printf(out, "  %5.1f %%  %5.1f %%  ", line->number[0], line->number[1]);
    gsp_buf_term(out, line->text[0]);
    gsp_buf_puts(out, " (");
    gsp_buf_term(out, gsp_sv_basename(line->text[1]));
    gsp_buf_puts(out, ")\n");
}

static void print_module(const struct line *line, struct gsp_buf *out)
{
    gsp_buf_printf(out, "  %8.3f s  %8.3f ms  ", line->number[0], line->number[1]);
    gsp_buf_term(out, line->text[0]);
    gsp_buf_puts(out, " (");
    gsp_buf_term(out, line->text[1]);
    gsp_buf_puts(out, ")\n");
}

/* A statement and the form of its table. Nothing is printed without rows. */
struct part {
    const char *sql;
    const char *heading;
    void (*print)(const struct line *line, struct gsp_buf *out);
};

static const struct part FUNCTIONS = {
    FUNCTIONS_SQL, "Where the time went (running threads)\n     self    total  function\n",
    print_function};
static const struct part MODULES = {
    MODULES_SQL, "Slowest modules\n       total        mean  module\n", print_module};

static int print_rows(struct gsp_store *store, const struct part *part, struct gsp_buf *out,
                      size_t *count, struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    int rc = gsp_store_query(store, gsp_sv_of(part->sql), &rows, NULL, err);
    struct gsp_batch_view batch;
    *count = 0;
    while (rc == GSP_OK && (rc = gsp_rows_next(rows, &batch, err)) > 0) {
        for (size_t i = 0; i < batch.row_count; i++) {
            const struct line line = {
                .text = {text_at(rows, &batch, 0, i), text_at(rows, &batch, 1, i)},
                .number = {number_at(rows, &batch, 2, i), number_at(rows, &batch, 3, i)}};
            if ((*count)++ == 0)
                gsp_buf_puts(out, part->heading);
            part->print(&line, out);
        }
        rc = GSP_OK;
    }
    gsp_rows_free(rows);
    return rc;
}

static int add_ring_dirs(struct gsp_store *store, const pid_t *pids, size_t count,
                         struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < count; i++) {
        struct gsp_ring_dir_pair dirs;
        if (gsp_ring_dir_find_pair(pids[i], GSP_RING_DIR_NO_OWNER, &dirs, NULL) != GSP_OK)
            continue;
        for (size_t k = 0; rc == GSP_OK && k < dirs.count; k++)
            rc = gsp_store_add_ring_dir(store, &dirs.at[k], err);
    }
    return rc == GSP_OK ? gsp_store_lock(store, err) : rc;
}

int gsp_report_run_summary_put(const pid_t *pids, size_t count, struct gsp_buf *out,
                               size_t *functions, struct gsp_err *err)
{
    struct gsp_store *store = NULL;
    size_t modules = 0;
    *functions = 0;
    int rc = gsp_store_open(&(struct gsp_store_options){0}, &store, err);
    if (rc == GSP_OK)
        rc = add_ring_dirs(store, pids, count, err);
    if (rc == GSP_OK)
        rc = print_rows(store, &FUNCTIONS, out, functions, err);
    if (rc == GSP_OK)
        rc = print_rows(store, &MODULES, out, &modules, err);
    gsp_store_close(store);
    return rc;
}
