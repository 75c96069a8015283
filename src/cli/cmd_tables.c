/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/query_runner.h"
#include "model/cells.h"
#include "model/row_list.h"
#include "wire/table.h"

struct tables_opts {
    struct gsp_remote_opts remote;
    bool columns;
    bool json;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_SWITCH(struct tables_opts, columns, "columns", 0, false,
                   "List each column with its type, unit and meaning."),
    GSP_OPT_SWITCH(struct tables_opts, json, "json", 0, false, "Print a JSON array of objects."),
    GSP_OPT_TOKEN(struct tables_opts),
    GSP_OPT_TOKEN_FILE(struct tables_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof tables 4242", "List the tables of a process with their row counts"},
    {"gsprof tables 4242 --columns", "Describe the columns"},
    {"gsprof tables profile.gsp --json", "Print JSON"},
    {"gsprof tables localhost:8091", "List the tables of a daemon"},
};

static const struct gsp_rows_column TABLES[] = {
    {"table", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"rows", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"description", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
};

static const struct gsp_rows_column COLUMNS[] = {
    {"table", "VARCHAR", NULL, 0, GSP_CELL_TEXT},   {"column", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"type", "VARCHAR", NULL, 0, GSP_CELL_TEXT},    {"unit", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"meaning", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
};

/* A row of information_schema: schema, table and, with --columns, column and type. */
struct entry {
    struct gsp_sv part[4];
};

/* The columns that precede a table's own. */
static const struct gsp_column COMMON[] = {
    {"ts_ns", "ns", "time of the row, CLOCK_REALTIME", GSP_I64, 0},
    {"mono_ns", "ns", "the same moment by CLOCK_MONOTONIC", GSP_I64, 0},
    {"host", "", "machine", GSP_STR, 0},
    {"pid", "", "process", GSP_I64, 0},
    {"rank", "", "rank of the process in its job, if known", GSP_I64, 0},
};

static const struct gsp_table *find_table(const struct entry *entry)
{
    char schema[GSP_NAME_MAX];
    char name[GSP_NAME_MAX];
    snprintf(schema, sizeof(schema), "%.*s", (int)entry->part[0].len, entry->part[0].p);
    snprintf(name, sizeof(name), "%.*s", (int)entry->part[1].len, entry->part[1].p);
    return gsp_wire_table_find(schema, name);
}

static const struct gsp_column *find_column(const struct entry *entry)
{
    const struct gsp_table *table = find_table(entry);
    for (uint32_t i = 0; table && i < table->column_count; i++)
        if (gsp_sv_eq(gsp_sv_of(table->columns[i].name), entry->part[2]))
            return &table->columns[i];
    for (size_t i = 0; table && i < GSP_COUNT(COMMON); i++)
        if (gsp_sv_eq(gsp_sv_of(COMMON[i].name), entry->part[2]))
            return &COMMON[i];
    return NULL;
}

static void put_quoted(struct gsp_sv name, struct gsp_buf *out)
{
    gsp_buf_putc(out, '"');
    for (size_t i = 0; i < name.len; i++) {
        if (name.p[i] == '"')
            gsp_buf_putc(out, '"');
        gsp_buf_putc(out, name.p[i]);
    }
    gsp_buf_putc(out, '"');
}

static void put_count(const struct entry *entry, size_t index, struct gsp_buf *sql)
{
    gsp_buf_printf(sql, "SELECT %zu AS i, count(*) AS n FROM ", index);
    put_quoted(entry->part[0], sql);
    gsp_buf_putc(sql, '.');
    put_quoted(entry->part[1], sql);
}

/* Reads rows of (index, count) into counts[]; returns false if the statement fails. */
static bool read_counts(struct gsp_query_runner *runner, struct gsp_buf *sql, int64_t *counts,
                        size_t count)
{
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view batch;
    const char *text = gsp_buf_cstr(sql);
    int rc = text ? gsp_cli__query_rows(runner, text, &rows, NULL) : GSP_E_NOMEM;
    while (rc >= 0 && (rc = gsp_rows_next(rows, &batch, NULL)) == 1) {
        for (size_t i = 0; i < batch.row_count && rows->column_count == 2; i++) {
            gsp_auto_buf index = {0};
            int64_t at = 0;
            gsp_model_cell_put(&rows->columns[0], &batch.values[0], i, &index);
            const char *number = gsp_buf_cstr(&index);
            if (number && gsp_parse_i64(number, 0, (int64_t)count - 1, &at, NULL) == GSP_OK)
                counts[at] = ((const int64_t *)batch.values[1].data)[i];
        }
    }
    gsp_rows_free(rows);
    return rc >= 0;
}

/* Counts all tables in one statement, because a daemon starts a process for each. If that fails,
 * counts each table separately: those of a process that must not be read cannot be counted and stay
 * INT64_MIN, which is NULL. */
static void count_rows(struct gsp_query_runner *runner, const struct entry *entries,
                       int64_t *counts, size_t count)
{
    gsp_auto_buf sql = {0};
    for (size_t i = 0; i < count; i++) {
        counts[i] = INT64_MIN;
        gsp_buf_puts(&sql, i ? " UNION ALL " : "");
        put_count(&entries[i], i, &sql);
    }
    if (read_counts(runner, &sql, counts, count))
        return;
    for (size_t i = 0; i < count; i++) {
        gsp_buf_clear(&sql);
        put_count(&entries[i], i, &sql);
        read_counts(runner, &sql, counts, count);
    }
}

static void put_text(struct gsp_row_list *row_list, const char *text)
{
    gsp_model_row_list_add_text(row_list,
                                text && text[0] ? gsp_sv_of(text) : (struct gsp_sv){NULL, 0});
}

static void add_entry(const struct entry *entry, const int64_t *rows, struct gsp_row_list *row_list)
{
    gsp_auto_buf name = {0};
    gsp_buf_putsv(&name, entry->part[0]);
    gsp_buf_putc(&name, '.');
    gsp_buf_putsv(&name, entry->part[1]);
    gsp_model_row_list_add_text(row_list, gsp_buf_sv(&name));
    if (rows) {
        const struct gsp_table *table = find_table(entry);
        gsp_model_row_list_add_i64(row_list, *rows);
        put_text(row_list, table ? table->doc : NULL);
        return;
    }
    const struct gsp_column *column = find_column(entry);
    bool is_enum = gsp_sv_starts(entry->part[3], "ENUM");
    gsp_model_row_list_add_text(row_list, entry->part[2]);
    gsp_model_row_list_add_text(row_list, is_enum ? gsp_sv_of("VARCHAR") : entry->part[3]);
    put_text(row_list, column ? column->unit : NULL);
    put_text(row_list, column ? column->doc : NULL);
}

/* Copies the names, because the rows of a query must be freed before the next query. */
static int read_entries(struct gsp_query_runner *runner, size_t parts, struct gsp_buf *bytes,
                        size_t *count, struct gsp_err *err)
{
    static const char TABLES_SQL[] =
        "SELECT table_schema, table_name FROM information_schema.tables "
        "ORDER BY table_schema, table_name";
    static const char COLUMNS_SQL[] =
        "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns "
        "WHERE (table_schema, table_name) IN "
        "(SELECT (table_schema, table_name) FROM information_schema.tables) "
        "ORDER BY table_schema, table_name, ordinal_position";
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view batch;
    int rc = gsp_cli__query_rows(runner, parts == 2 ? TABLES_SQL : COLUMNS_SQL, &rows, err);
    while (rc == GSP_OK && (rc = gsp_rows_next(rows, &batch, err)) == 1) {
        for (size_t row = 0; row < batch.row_count; row++) {
            for (size_t i = 0; i < parts; i++) {
                gsp_model_cell_put(&rows->columns[i], &batch.values[i], row, bytes);
                gsp_buf_putc(bytes, '\0');
            }
        }
        *count += batch.row_count;
        rc = GSP_OK;
    }
    gsp_rows_free(rows);
    if (rc == GSP_OK && bytes->failed)
        rc = gsp_err_nomem(err);
    return rc;
}

/* counts is NULL with --columns. */
static void add_entries(struct gsp_query_runner *runner, struct gsp_sv names, struct entry *entries,
                        int64_t *counts, size_t count, struct gsp_row_list *row_list)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < (counts ? 2U : 4U); k++)
            gsp_sv_split(&names, '\0', &entries[i].part[k]);
    if (counts && count)
        count_rows(runner, entries, counts, count);
    for (size_t i = 0; i < count; i++)
        add_entry(&entries[i], counts ? &counts[i] : NULL, row_list);
}

static int show(struct gsp_query_runner *runner, struct gsp_err *err)
{
    const struct tables_opts *opts = runner->parsed->opts;
    size_t parts = opts->columns ? 4 : 2;
    size_t count = 0;
    gsp_auto_buf bytes = {0};
    struct gsp_row_list *row_list = NULL;
    int rc = read_entries(runner, parts, &bytes, &count, err);
    if (rc == GSP_OK)
        rc = opts->columns ? gsp_model_row_list_new(COLUMNS, GSP_COUNT(COLUMNS), &row_list, err)
                           : gsp_model_row_list_new(TABLES, GSP_COUNT(TABLES), &row_list, err);
    if (rc < 0)
        return rc;
    struct entry *entries = calloc(count + 1, sizeof(*entries));
    int64_t *counts = opts->columns ? NULL : calloc(count + 1, sizeof(*counts));
    if (entries && (counts || opts->columns))
        add_entries(runner, gsp_buf_sv(&bytes), entries, counts, count, row_list);
    else
        rc = gsp_err_nomem(err);
    free(entries);
    free(counts);
    if (rc == GSP_OK)
        rc = gsp_cli__put_rows(gsp_model_row_list_rows(row_list), &runner->dest, err);
    gsp_rows_free(gsp_model_row_list_rows(row_list));
    return rc;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct tables_opts *opts = parsed->opts;
    struct gsp_err err = {0};
    struct gsp_query_runner runner = {.parsed = parsed, .remote_opts = opts->remote};
    runner.dest = (struct gsp_rows_dest){.format = opts->json ? GSP_ROWS_JSON : GSP_ROWS_TABLE,
                                         .color = parsed->globals.color};
    int status =
        gsp_cli__query_open(&runner, parsed->args[0], &(struct gsp_store_options){0}, NULL);
    if (status == 0 && show(&runner, &err) < 0)
        status =
            gsp_cli__fail(parsed, &(struct gsp_hint_context){.endpoint = parsed->args[0]}, &err);
    gsp_cli__query_close(&runner);
    return status;
}

const struct gsp_command gsp_cmd_tables = {
    .name = "tables",
    .summary = "List the tables that can be queried",
    .synopsis = "ENDPOINT [--columns] [--json]",
    .about =
        "ENDPOINT is the same as for `gsprof query`: a pid, the folder of a run, a Parquet file, a "
        "profile or a daemon. Every table of gsprof exists; tables without data are empty. The "
        "rows of python.backtrace are the current frames.",
    GSP_COMMAND_OPTS(OPTS, struct tables_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_min = 1,
    .args_max = 1,
    .takes_endpoint = true,
    .lesser = true,
    .run = run,
};
