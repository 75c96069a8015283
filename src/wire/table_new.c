/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "wire/table.h"

/* A table and everything it points to, in one allocation. */
struct owned_column {
    char name[GSP_NAME_MAX];
    char unit[GSP_NAME_MAX];
    char doc[GSP_DOC_MAX];
};

struct owned_table {
    struct gsp_table table; /* first, because gsp_wire_table_free() receives its address */
    char schema[GSP_NAME_MAX];
    char name[GSP_NAME_MAX];
    char doc[GSP_DOC_MAX];
    struct gsp_column columns[GSP_COLUMNS_MAX];
    struct owned_column text[GSP_COLUMNS_MAX];
};

static const struct gsp_column_spec times[] = {
    {"ts_ns", "ns", "time, CLOCK_REALTIME", GSP_I64},
    {"mono_ns", "ns", "time, CLOCK_MONOTONIC", GSP_I64},
};
static const struct gsp_column_spec process[] = {
    {"pid", "", "process id", GSP_I64},
    {"rank", "", "rank of the process in a distributed job, if known", GSP_I64},
};

static void set_text(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text ? text : "");
}

/* Adds a member to the row as a C compiler would. Returns its offset. */
static size_t add_member(size_t *row_bytes, enum gsp_type type)
{
    const size_t width = type == GSP_TEXT ? sizeof(struct gsp_sv) : gsp_wire_type_width(type);
    const size_t align = type == GSP_TEXT ? _Alignof(struct gsp_sv) : width;
    const size_t at = (*row_bytes + align - 1) / align * align;
    *row_bytes = at + width;
    return at;
}

static bool has_column(const struct owned_table *owned, const char *name)
{
    for (uint32_t i = 0; i < owned->table.column_count; i++)
        if (strcmp(owned->columns[i].name, name) == 0)
            return true;
    return false;
}

static int add_column(struct owned_table *owned, const struct gsp_column_spec *spec,
                      size_t *row_bytes, struct gsp_err *err)
{
    const uint32_t i = owned->table.column_count;
    if (!gsp_wire_table_name_is_valid(gsp_sv_of(spec->name))) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "'%s' is not a valid column name: %s",
                           spec->name ? spec->name : "", GSP_TABLE_NAME_RULE);
    }
    if (gsp_wire_type_width(spec->type) == 0) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "column %s: invalid type %d", spec->name,
                           (int)spec->type);
    }
    if (i == GSP_COLUMNS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "a table has at most %u columns", GSP_COLUMNS_MAX);
    if (has_column(owned, spec->name))
        return gsp_err_set(err, GSP_E_USAGE, 0, "column %s is defined twice", spec->name);
    struct owned_column *text = &owned->text[i];
    set_text(text->name, sizeof(text->name), spec->name);
    set_text(text->unit, sizeof(text->unit), spec->unit);
    set_text(text->doc, sizeof(text->doc), spec->doc);
    owned->columns[i] =
        (struct gsp_column){.name = text->name,
                            .unit = text->unit,
                            .doc = text->doc,
                            .type = spec->type,
                            .row_offset = (uint32_t)add_member(row_bytes, spec->type)};
    owned->table.column_count++;
    return 0;
}

static int add_columns(struct owned_table *owned, const struct gsp_column_spec *specs, size_t count,
                       size_t *row_bytes, struct gsp_err *err)
{
    for (size_t i = 0; i < count; i++) {
        const int rc = add_column(owned, &specs[i], row_bytes, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int fill(struct owned_table *owned, const struct gsp_table_spec *spec, struct gsp_err *err)
{
    if (!gsp_wire_table_name_is_valid(gsp_sv_of(spec->schema)) ||
        !gsp_wire_table_name_is_valid(gsp_sv_of(spec->name))) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "'%s.%s' is not a valid table name: %s",
                           spec->schema ? spec->schema : "", spec->name ? spec->name : "",
                           GSP_TABLE_NAME_RULE);
    }
    if (spec->scope > GSP_SCOPE_PLAIN)
        return gsp_err_set(err, GSP_E_USAGE, 0, "invalid scope %d", (int)spec->scope);
    set_text(owned->schema, sizeof(owned->schema), spec->schema);
    set_text(owned->name, sizeof(owned->name), spec->name);
    set_text(owned->doc, sizeof(owned->doc), spec->doc);
    owned->table = (struct gsp_table){.schema = owned->schema,
                                      .name = owned->name,
                                      .doc = owned->doc,
                                      .columns = owned->columns,
                                      .scope = spec->scope};
    size_t row_bytes = 0;
    int rc = 0;
    if (spec->scope != GSP_SCOPE_PLAIN)
        rc = add_columns(owned, times, GSP_COUNT(times), &row_bytes, err);
    if (rc == 0 && spec->scope == GSP_SCOPE_ROWS)
        rc = add_columns(owned, process, GSP_COUNT(process), &row_bytes, err);
    if (rc == 0)
        rc = add_columns(owned, spec->columns, spec->column_count, &row_bytes, err);
    if (rc == 0 && owned->table.column_count == 0)
        rc = gsp_err_set(err, GSP_E_USAGE, 0, "table %s has no columns", owned->name);
    owned->table.row_bytes = (uint32_t)((row_bytes + 7) / 8 * 8);
    return rc;
}

int gsp_wire_table_new(const struct gsp_table_spec *spec, struct gsp_table **out,
                       struct gsp_err *err)
{
    *out = NULL;
    struct owned_table *owned = calloc(1, sizeof(*owned));
    if (!owned)
        return gsp_err_nomem(err);
    const int rc = fill(owned, spec, err);
    if (rc != 0) {
        free(owned);
        return rc;
    }
    *out = &owned->table;
    return 0;
}

void gsp_wire_table_free(struct gsp_table *table)
{
    free(table);
}
