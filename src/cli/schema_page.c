/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/schema_page.h"

#include "wire/table.h"

static const char *sql_type(enum gsp_type type)
{
    switch (type) {
    case GSP_I64:
        return "BIGINT";
    case GSP_F64:
        return "DOUBLE";
    case GSP_BOOL:
        return "BOOLEAN";
    case GSP_STR:
    case GSP_TEXT:
        break;
    }
    return "VARCHAR";
}

static void put_row(struct gsp_buf *out, const char *name, enum gsp_type type, const char *unit,
                    const char *doc)
{
    gsp_buf_printf(out, "| `%s` | %s | %s | %s |\n", name, sql_type(type), unit, doc);
}

/* The common columns as SQL shows them, even if the stored rows do not have them. */
static void put_common(struct gsp_buf *out, const struct gsp_table *table)
{
    if (table->scope == GSP_SCOPE_PLAIN)
        return;
    put_row(out, "ts_ns", GSP_I64, "ns", "time, CLOCK_REALTIME");
    put_row(out, "host", GSP_STR, "", "name of the machine");
    if (table->scope == GSP_SCOPE_HOST)
        return;
    put_row(out, "pid", GSP_I64, "", "process id");
    put_row(out, "rank", GSP_I64, "", "rank of the process in a distributed job, if known");
}

/* The number of common columns in the struct. */
static uint32_t common_count(const struct gsp_table *table)
{
    static const uint32_t COUNTS[] = {
        [GSP_SCOPE_TARGET] = 2, [GSP_SCOPE_ROWS] = 4, [GSP_SCOPE_HOST] = 2, [GSP_SCOPE_PLAIN] = 0};
    return COUNTS[table->scope];
}

void gsp_cli__schema_markdown(struct gsp_buf *out)
{
    gsp_buf_puts(
        out, "# Tables\n\n"
             "Generated from `src/wire/tables.def` by `gsprof docs`. [sql.md](sql.md) has example "
             "queries.\n\n"
             "A value that could not be read is NULL, never 0. Every table always "
             "exists; a table without data is empty.\n");
    for (size_t i = 0; i < GSP_TABLE_COUNT; i++) {
        const struct gsp_table *table = gsp_wire_table_at(i);
        gsp_buf_printf(out, "\n## %s.%s\n\nA row is %s.\n\n", table->schema, table->name,
                       table->doc);
        gsp_buf_puts(out, "| column | type | unit | description |\n|---|---|---|---|\n");
        put_common(out, table);
        for (uint32_t c = common_count(table); c < table->column_count; c++) {
            const struct gsp_column *column = &table->columns[c];
            put_row(out, column->name, column->type, column->unit, column->doc);
        }
    }
}
