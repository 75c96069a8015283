/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "store/store_internal.h"

/* Also the engine's limit. */
#define PARAMS_MAX 65535U
/* Longest parameter name in a message, in bytes. */
#define NAME_SHOWN 60

/* The name of ? and $1 is their number. */
static const struct gsp_param *find(const struct gsp_params *params, const char *name)
{
    int64_t number = 0;
    if (params->count > 0 && !params->at[0].name.p) {
        const int rc = gsp_parse_i64(name, 1, (int64_t)params->count, &number, NULL);
        return rc == GSP_OK ? &params->at[number - 1] : NULL;
    }
    for (size_t i = 0; i < params->count; i++)
        if (gsp_sv_eq(params->at[i].name, gsp_sv_of(name)))
            return &params->at[i];
    return NULL;
}

static duckdb_state bind_one(const struct gsp_duckdb *duck, duckdb_prepared_statement prepared,
                             idx_t index, const struct gsp_param *param)
{
    switch (param->kind) {
    case GSP_PARAM_BOOL:
        return duck->bind_boolean(prepared, index, param->truth);
    case GSP_PARAM_I64:
        return duck->bind_int64(prepared, index, param->whole);
    case GSP_PARAM_F64:
        return duck->bind_double(prepared, index, param->number);
    case GSP_PARAM_TEXT:
        return duck->bind_varchar_length(prepared, index, param->text.p ? param->text.p : "",
                                         param->text.len);
    case GSP_PARAM_NULL:
        break;
    }
    return duck->bind_null(prepared, index);
}

/* Reads the name of a parameter (index from 1): "name", or "1". */
static int name_at(const struct gsp_duckdb *duck, duckdb_prepared_statement prepared, idx_t index,
                   struct gsp_buf *out, struct gsp_err *err)
{
    const char *name = duck->parameter_name(prepared, index);
    if (!name) {
        return gsp_err_set(err, GSP_E_USAGE, 0,
                           "$%llu is missing: parameters must be numbered without a gap",
                           (unsigned long long)index);
    }
    gsp_buf_puts(out, name);
    duck->free((void *)(uintptr_t)name);
    return gsp_buf_cstr(out) ? GSP_OK : gsp_err_nomem(err);
}

static int bind_at(const struct gsp_duckdb *duck, duckdb_prepared_statement prepared, idx_t index,
                   const struct gsp_params *params, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    const int rc = name_at(duck, prepared, index, &text, err);
    if (rc != GSP_OK)
        return rc;
    const char *name = text.p;
    const struct gsp_param *param = find(params, name);
    if (!param) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "no value given for the parameter $%.*s",
                           NAME_SHOWN, name);
    }
    if (param->kind == GSP_PARAM_TEXT && param->text.len > 0 &&
        memchr(param->text.p, '\0', param->text.len)) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "the value of the parameter $%.*s contains a NUL",
                           NAME_SHOWN, name);
    }
    if (bind_one(duck, prepared, index, param) != DuckDBSuccess) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "the parameter $%.*s does not accept its value",
                           NAME_SHOWN, name);
    }
    return GSP_OK;
}

/* A value without a parameter most likely means a wrong statement: report it. */
static int check_spare(const struct gsp_duckdb *duck, duckdb_prepared_statement prepared,
                       idx_t count, const struct gsp_params *params, struct gsp_err *err)
{
    if (params->count > 0 && params->at[0].name.p) {
        for (size_t i = 0; i < params->count; i++) {
            gsp_auto_buf name = {0};
            idx_t index = 0;
            gsp_buf_putsv(&name, params->at[i].name);
            const char *text = gsp_buf_cstr(&name);
            if (!text || strlen(text) != params->at[i].name.len ||
                duck->bind_parameter_index(prepared, &index, text) != DuckDBSuccess) {
                return gsp_err_set(err, GSP_E_USAGE, 0, "the statement has no parameter $%.*s",
                                   NAME_SHOWN, text ? text : "");
            }
        }
    } else if (params->count > count) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "the statement has %llu parameter%s, not %zu",
                           (unsigned long long)count, count == 1 ? "" : "s", params->count);
    }
    return GSP_OK;
}

int gsp_store__params_bind(const struct gsp_duckdb *duck, duckdb_prepared_statement prepared,
                           const struct gsp_params *params, struct gsp_err *err)
{
    static const struct gsp_params none = {NULL, 0};
    const idx_t count = duck->nparams(prepared);
    if (!params)
        params = &none;
    if (count > PARAMS_MAX || params->count > PARAMS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "more than %u parameters", PARAMS_MAX);
    int rc = check_spare(duck, prepared, count, params, err);
    for (idx_t index = 1; index <= count && rc == GSP_OK; index++)
        rc = bind_at(duck, prepared, index, params, err);
    return rc;
}
