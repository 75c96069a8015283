/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/table.h"

#define TIMES                                                                                      \
    {"ts_ns", "ns", "time, CLOCK_REALTIME", GSP_I64, offsetof(row, ts_ns)},                        \
        {"mono_ns", "ns", "time, CLOCK_MONOTONIC", GSP_I64, offsetof(row, mono_ns)},
#define COMMON_TARGET TIMES
#define COMMON_ROWS                                                                                \
    TIMES{"pid", "", "process id", GSP_I64, offsetof(row, pid)},                                   \
        {"rank", "", "rank of the process in a distributed job, if known", GSP_I64,                \
         offsetof(row, rank)},
#define COMMON_HOST TIMES
#define COMMON_PLAIN

/* One function per table, so that GSP_COL can refer to the struct of its table as `row`. */
#define GSP_TABLE(schema_, name_, scope_, doc_)                                                    \
    static const struct gsp_table *table_##schema_##_##name_(void)                                 \
    {                                                                                              \
        typedef struct gsp_row_##schema_##_##name_ row;                                            \
        static const enum gsp_scope scope = GSP_SCOPE_##scope_;                                    \
        static const char doc[] = doc_;                                                            \
        static const struct gsp_column columns[] = { COMMON_##scope_
#define GSP_COL(name_, type_, unit_, doc_) {#name_, unit_, doc_, GSP_##type_, offsetof(row, name_)},
#define GSP_TABLE_END(schema_, name_)                                                              \
    }                                                                                              \
    ;                                                                                              \
    static const struct gsp_table table = {#schema_,           #name_,     doc, columns, scope,    \
                                           GSP_COUNT(columns), sizeof(row)};                       \
    return &table;                                                                                 \
    }
#include "wire/tables.def"
#undef GSP_TABLE
#undef GSP_COL
#undef GSP_TABLE_END

static const struct gsp_table *(*const tables[])(void) = {
#define GSP_TABLE(schema, name, scope, doc) table_##schema##_##name,
#define GSP_COL(name, type, unit, doc)
#define GSP_TABLE_END(schema, name)
#include "wire/tables.def"
};

const struct gsp_table *gsp_wire_table_at(size_t i)
{
    return i < GSP_COUNT(tables) ? tables[i]() : NULL;
}

const struct gsp_table *gsp_wire_table_find(const char *schema, const char *name)
{
    for (size_t i = 0; i < GSP_COUNT(tables); i++) {
        const struct gsp_table *table = tables[i]();
        if (strcmp(table->schema, schema) == 0 && strcmp(table->name, name) == 0)
            return table;
    }
    return NULL;
}

size_t gsp_wire_type_width(uint32_t type)
{
    static const uint8_t widths[] = {
        [GSP_I64] = 8, [GSP_F64] = 8, [GSP_BOOL] = 1, [GSP_STR] = 4, [GSP_TEXT] = 8};
    return type < GSP_COUNT(widths) ? widths[type] : 0;
}

const char *gsp_wire_type_name(uint32_t type)
{
    static const char *const names[] = {[GSP_I64] = "i64",
                                        [GSP_F64] = "f64",
                                        [GSP_BOOL] = "bool",
                                        [GSP_STR] = "str",
                                        [GSP_TEXT] = "text"};
    return type >= GSP_I64 && type < GSP_COUNT(names) ? names[type] : "?";
}

bool gsp_wire_table_name_is_valid(struct gsp_sv name)
{
    if (name.len == 0 || name.len >= GSP_NAME_MAX || (name.p[0] >= '0' && name.p[0] <= '9'))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'))
            return false;
    }
    return true;
}
