/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query.h"

#include "base/json.h"

static void put_param(struct gsp_json *json, const struct gsp_param *param)
{
    switch (param->kind) {
    case GSP_PARAM_NULL:
        gsp_json_null(json);
        break;
    case GSP_PARAM_BOOL:
        gsp_json_bool(json, param->truth);
        break;
    case GSP_PARAM_I64:
        gsp_json_i64(json, param->whole);
        break;
    case GSP_PARAM_F64:
        gsp_json_f64(json, param->number);
        break;
    case GSP_PARAM_TEXT:
        gsp_json_sv(json, param->text);
        break;
    }
}

static void put_params(struct gsp_json *json, const struct gsp_params *params)
{
    const bool named = params->at[0].name.p != NULL;
    gsp_json_key(json, "params");
    if (named)
        gsp_json_obj_begin(json);
    else
        gsp_json_arr_begin(json);
    for (size_t i = 0; i < params->count; i++) {
        if (named)
            gsp_json_keysv(json, params->at[i].name);
        put_param(json, &params->at[i]);
    }
    if (named)
        gsp_json_obj_end(json);
    else
        gsp_json_arr_end(json);
}

void gsp_client_query_body(struct gsp_sv sql, const struct gsp_params *params, const char *format,
                           struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_sv(&json, "sql", sql);
    gsp_json_put_str(&json, "format", format);
    if (params && params->count)
        put_params(&json, params);
    gsp_json_obj_end(&json);
}
