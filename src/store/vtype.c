/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "store/value.h"

/* The JSON writer supports 32 levels; a map uses one more. */
#define DEPTH_MAX 15U

static const char *const type_names[] = {
    [DUCKDB_TYPE_BOOLEAN] = "BOOLEAN",
    [DUCKDB_TYPE_TINYINT] = "TINYINT",
    [DUCKDB_TYPE_SMALLINT] = "SMALLINT",
    [DUCKDB_TYPE_INTEGER] = "INTEGER",
    [DUCKDB_TYPE_BIGINT] = "BIGINT",
    [DUCKDB_TYPE_UTINYINT] = "UTINYINT",
    [DUCKDB_TYPE_USMALLINT] = "USMALLINT",
    [DUCKDB_TYPE_UINTEGER] = "UINTEGER",
    [DUCKDB_TYPE_UBIGINT] = "UBIGINT",
    [DUCKDB_TYPE_FLOAT] = "FLOAT",
    [DUCKDB_TYPE_DOUBLE] = "DOUBLE",
    [DUCKDB_TYPE_TIMESTAMP] = "TIMESTAMP",
    [DUCKDB_TYPE_DATE] = "DATE",
    [DUCKDB_TYPE_TIME] = "TIME",
    [DUCKDB_TYPE_INTERVAL] = "INTERVAL",
    [DUCKDB_TYPE_HUGEINT] = "HUGEINT",
    [DUCKDB_TYPE_UHUGEINT] = "UHUGEINT",
    [DUCKDB_TYPE_VARCHAR] = "VARCHAR",
    [DUCKDB_TYPE_BLOB] = "BLOB",
    [DUCKDB_TYPE_DECIMAL] = "DECIMAL",
    [DUCKDB_TYPE_TIMESTAMP_S] = "TIMESTAMP_S",
    [DUCKDB_TYPE_TIMESTAMP_MS] = "TIMESTAMP_MS",
    [DUCKDB_TYPE_TIMESTAMP_NS] = "TIMESTAMP_NS",
    [DUCKDB_TYPE_ENUM] = "ENUM",
    [DUCKDB_TYPE_LIST] = "LIST",
    [DUCKDB_TYPE_STRUCT] = "STRUCT",
    [DUCKDB_TYPE_MAP] = "MAP",
    [DUCKDB_TYPE_ARRAY] = "ARRAY",
    [DUCKDB_TYPE_UUID] = "UUID",
    [DUCKDB_TYPE_UNION] = "UNION",
    [DUCKDB_TYPE_BIT] = "BIT",
    [DUCKDB_TYPE_TIME_TZ] = "TIME WITH TIME ZONE",
    [DUCKDB_TYPE_TIMESTAMP_TZ] = "TIMESTAMP WITH TIME ZONE",
    [DUCKDB_TYPE_BIGNUM] = "BIGNUM",
    [DUCKDB_TYPE_SQLNULL] = "NULL",
    [DUCKDB_TYPE_TIME_NS] = "TIME_NS",
};

const char *gsp_store__vtype_name(const struct gsp_vtype *type)
{
    if (type->is_json)
        return "JSON";
    const char *name = (size_t)type->id < GSP_COUNT(type_names) ? type_names[type->id] : NULL;
    return name ? name : "?";
}

static int read_dict(duckdb_logical_type type, struct gsp_vtype *out, struct gsp_err *err)
{
    const struct gsp_duckdb *duck = out->duck;
    out->inner = duck->enum_internal_type(type);
    out->dict_count = duck->enum_dictionary_size(type);
    out->dict = calloc((size_t)out->dict_count + 1, sizeof(*out->dict));
    gsp_auto_buf bytes = {0};
    if (!out->dict)
        return gsp_err_nomem(err);
    for (uint32_t i = 0; i < out->dict_count; i++) {
        char *text = duck->enum_dictionary_value(type, i);
        out->dict[i].len = text ? strlen(text) : 0;
        gsp_buf_puts(&bytes, text ? text : "");
        duck->free(text);
    }
    out->dict_bytes = gsp_buf_take(&bytes);
    if (!out->dict_bytes)
        return gsp_err_nomem(err);
    size_t pos = 0;
    for (uint32_t i = 0; i < out->dict_count; i++) {
        out->dict[i].p = out->dict_bytes + pos;
        pos += out->dict[i].len;
    }
    return GSP_OK;
}

static size_t count_children(duckdb_logical_type type, const struct gsp_vtype *out)
{
    switch ((unsigned)out->id) {
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_ARRAY:
        return 1;
    case DUCKDB_TYPE_MAP:
        return 2;
    case DUCKDB_TYPE_STRUCT:
        return out->duck->struct_type_child_count(type);
    case DUCKDB_TYPE_UNION:
        return out->duck->union_type_member_count(type);
    default:
        return 0;
    }
}

static duckdb_logical_type child_type(duckdb_logical_type type, const struct gsp_vtype *out,
                                      size_t i)
{
    const struct gsp_duckdb *duck = out->duck;
    switch ((unsigned)out->id) {
    case DUCKDB_TYPE_LIST:
        return duck->list_type_child_type(type);
    case DUCKDB_TYPE_ARRAY:
        return duck->array_type_child_type(type);
    case DUCKDB_TYPE_MAP:
        return i ? duck->map_type_value_type(type) : duck->map_type_key_type(type);
    case DUCKDB_TYPE_STRUCT:
        return duck->struct_type_child_type(type, i);
    default:
        return duck->union_type_member_type(type, i);
    }
}

static int read_name(duckdb_logical_type type, struct gsp_vtype *out, size_t i, struct gsp_err *err)
{
    if (out->id != DUCKDB_TYPE_STRUCT && out->id != DUCKDB_TYPE_UNION)
        return GSP_OK;
    char *name = out->id == DUCKDB_TYPE_STRUCT ? out->duck->struct_type_child_name(type, i)
                                               : out->duck->union_type_member_name(type, i);
    out->names[i] = strdup(name ? name : "");
    out->duck->free(name);
    return out->names[i] ? GSP_OK : gsp_err_nomem(err);
}

static int read_children(duckdb_logical_type type, unsigned depth, struct gsp_vtype *out,
                         struct gsp_err *err)
{
    const size_t count = count_children(type, out);
    if (count == 0)
        return GSP_OK;
    if (depth >= DEPTH_MAX) {
        return gsp_err_set(err, GSP_E_USAGE, 0,
                           "a column has lists or structs nested more than %u deep", DEPTH_MAX);
    }
    out->children = calloc(count, sizeof(*out->children));
    out->names = calloc(count, sizeof(*out->names));
    if (!out->children || !out->names)
        return gsp_err_nomem(err);
    out->child_count = count;
    for (size_t i = 0; i < count; i++) {
        duckdb_logical_type child = child_type(type, out, i);
        int rc = gsp_store__vtype_read(out->duck, child, depth + 1, &out->children[i], err);
        out->duck->destroy_logical_type(&child);
        if (rc == GSP_OK)
            rc = read_name(type, out, i, err);
        if (rc != GSP_OK)
            return rc;
    }
    return GSP_OK;
}

int gsp_store__vtype_read(const struct gsp_duckdb *duck, duckdb_logical_type type, unsigned depth,
                          struct gsp_vtype *out, struct gsp_err *err)
{
    *out = (struct gsp_vtype){.duck = duck, .id = duck->get_type_id(type)};
    if ((size_t)out->id >= GSP_COUNT(type_names) || !type_names[out->id]) {
        return gsp_err_set(err, GSP_E_USAGE, 0,
                           "a column has an unsupported type: cast it to VARCHAR");
    }
    if (out->id == DUCKDB_TYPE_DECIMAL) {
        out->inner = duck->decimal_internal_type(type);
        out->scale = duck->decimal_scale(type);
        out->width = duck->decimal_width(type);
    } else if (out->id == DUCKDB_TYPE_ENUM) {
        return read_dict(type, out, err);
    } else if (out->id == DUCKDB_TYPE_ARRAY) {
        out->array_size = (uint32_t)duck->array_type_array_size(type);
    } else if (out->id == DUCKDB_TYPE_VARCHAR) {
        char *alias = duck->logical_type_get_alias(type);
        out->is_json = alias && strcmp(alias, "JSON") == 0;
        duck->free(alias);
    }
    return read_children(type, depth, out, err);
}

void gsp_store__vtype_free(struct gsp_vtype *type)
{
    for (size_t i = 0; i < type->child_count; i++) {
        gsp_store__vtype_free(&type->children[i]);
        free(type->names[i]);
    }
    free(type->children);
    free(type->names);
    free(type->dict);
    free(type->dict_bytes);
    *type = (struct gsp_vtype){0};
}
