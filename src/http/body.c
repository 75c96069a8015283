/* SPDX-License-Identifier: Apache-2.0 */
#include "http/body.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/json.h"

struct gsp_body {
    yyjson_doc *doc;
    yyjson_val *root;
};

/* Whether brackets outside strings nest deeper than the limit. The text need not be valid JSON. */
static bool too_deep(struct gsp_sv text)
{
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.p[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > GSP_BODY_DEPTH_MAX)
                return true;
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    return false;
}

static int parse(struct gsp_body *body, struct gsp_sv text, struct gsp_err *err)
{
    yyjson_read_err why = {0};
    if (too_deep(text))
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the JSON is nested deeper than %u",
                           GSP_BODY_DEPTH_MAX);
    /* yyjson writes to the text only with YYJSON_READ_INSITU, so removing const is safe. */
    union {
        const char *constant;
        char *mutable;
    } bytes = {.constant = text.p};
    body->doc = yyjson_read_opts(bytes.mutable, text.len, YYJSON_READ_NOFLAG, NULL, &why);
    if (!body->doc)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the body is not JSON: %s at byte %zu",
                           why.msg ? why.msg : "error", why.pos);
    body->root = yyjson_doc_get_root(body->doc);
    if (!yyjson_is_obj(body->root))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the body is not a JSON object");
    return GSP_OK;
}

int gsp_http_body_read(struct gsp_sv text, struct gsp_body **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_body *body = calloc(1, sizeof(*body));
    if (!body)
        return gsp_err_nomem(err);
    int rc = text.len ? parse(body, text, err) : GSP_OK;
    if (rc < 0) {
        gsp_http_body_free(body);
        return rc;
    }
    *out = body;
    return GSP_OK;
}

void gsp_http_body_free(struct gsp_body *body)
{
    if (!body)
        return;
    yyjson_doc_free(body->doc);
    free(body);
}

static yyjson_val *find(const struct gsp_body *body, const char *name)
{
    yyjson_val *value = yyjson_obj_get(body->root, name);
    return yyjson_is_null(value) ? NULL : value;
}

bool gsp_http_body_has(const struct gsp_body *body, const char *name)
{
    return find(body, name) != NULL;
}

int gsp_http_body_text(const struct gsp_body *body, const char *name, struct gsp_sv *out,
                       struct gsp_err *err)
{
    yyjson_val *value = find(body, name);
    if (!value)
        return 0;
    if (!yyjson_is_str(value))
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be a string", name);
    *out = (struct gsp_sv){yyjson_get_str(value), yyjson_get_len(value)};
    return 1;
}

int gsp_http_body_bool(const struct gsp_body *body, const char *name, bool *out,
                       struct gsp_err *err)
{
    yyjson_val *value = find(body, name);
    if (!value)
        return 0;
    if (!yyjson_is_bool(value))
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be true or false", name);
    *out = yyjson_get_bool(value);
    return 1;
}

int gsp_http_body_f64(const struct gsp_body *body, const char *name, double *out,
                      struct gsp_err *err)
{
    yyjson_val *value = find(body, name);
    if (!value)
        return 0;
    if (!yyjson_is_num(value))
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be a number", name);
    *out = yyjson_get_num(value);
    return 1;
}

static bool whole_number(yyjson_val *value, int64_t min, int64_t max, int64_t *out)
{
    if (!yyjson_is_int(value))
        return false;
    if (yyjson_is_uint(value) && yyjson_get_uint(value) > INT64_MAX)
        return false;
    *out = yyjson_get_sint(value);
    return *out >= min && *out <= max;
}

int gsp_http_body_i64(const struct gsp_body *body, const char *name, int64_t *out,
                      struct gsp_err *err)
{
    yyjson_val *value = find(body, name);
    int64_t found = 0;
    if (!value)
        return 0;
    if (!whole_number(value, INT64_MIN, INT64_MAX, &found))
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be a whole number", name);
    *out = found;
    return 1;
}

int gsp_http_body_ints(const struct gsp_body *body, const char *name, int64_t min, int64_t max,
                       struct gsp_http_body_ints *out, struct gsp_err *err)
{
    yyjson_val *value = find(body, name);
    if (!value)
        return 0;
    if (!yyjson_is_arr(value))
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be an array of whole numbers", name);
    const size_t count = yyjson_arr_size(value);
    int64_t *at = calloc(count ? count : 1, sizeof(*at));
    if (!at)
        return gsp_err_nomem(err);
    yyjson_arr_iter iter;
    yyjson_arr_iter_init(value, &iter);
    for (size_t i = 0; i < count; i++) {
        yyjson_val *item = yyjson_arr_iter_next(&iter);
        if (whole_number(item, min, max, &at[i]))
            continue;
        free(at);
        return gsp_err_set(err, GSP_E_USAGE, 0,
                           "%s must be an array of whole numbers of at least %lld", name,
                           (long long)min);
    }
    *out = (struct gsp_http_body_ints){at, count};
    return 1;
}

static void write_value(struct gsp_json *json, yyjson_val *value);

static void write_object(struct gsp_json *json, yyjson_val *value)
{
    yyjson_obj_iter iter;
    yyjson_obj_iter_init(value, &iter);
    gsp_json_obj_begin(json);
    for (yyjson_val *key = yyjson_obj_iter_next(&iter); key; key = yyjson_obj_iter_next(&iter)) {
        gsp_json_keysv(json, (struct gsp_sv){yyjson_get_str(key), yyjson_get_len(key)});
        write_value(json, yyjson_obj_iter_get_val(key));
    }
    gsp_json_obj_end(json);
}

static void write_array(struct gsp_json *json, yyjson_val *value)
{
    yyjson_arr_iter iter;
    yyjson_arr_iter_init(value, &iter);
    gsp_json_arr_begin(json);
    for (yyjson_val *item = yyjson_arr_iter_next(&iter); item; item = yyjson_arr_iter_next(&iter))
        write_value(json, item);
    gsp_json_arr_end(json);
}

/* gsp_http_body_read() limits the depth to GSP_BODY_DEPTH_MAX. */
static void write_value(struct gsp_json *json, yyjson_val *value)
{
    if (yyjson_is_obj(value))
        write_object(json, value);
    else if (yyjson_is_arr(value))
        write_array(json, value);
    else if (yyjson_is_str(value))
        gsp_json_sv(json, (struct gsp_sv){yyjson_get_str(value), yyjson_get_len(value)});
    else if (yyjson_is_bool(value))
        gsp_json_bool(json, yyjson_get_bool(value));
    else if (yyjson_is_uint(value))
        gsp_json_u64(json, yyjson_get_uint(value));
    else if (yyjson_is_sint(value))
        gsp_json_i64(json, yyjson_get_sint(value));
    else if (yyjson_is_num(value))
        gsp_json_f64(json, yyjson_get_num(value));
    else
        gsp_json_null(json);
}

int gsp_http_body_object(const struct gsp_body *body, const char *name, struct gsp_buf *out,
                         struct gsp_err *err)
{
    struct gsp_json json;
    yyjson_val *value = find(body, name);
    if (!value)
        return 0;
    if (!yyjson_is_obj(value))
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be an object", name);
    gsp_json_init(&json, out);
    write_object(&json, value);
    return out->failed ? gsp_err_nomem(err) : 1;
}

int gsp_http_body_json(const struct gsp_body *body, const char *name, struct gsp_buf *out,
                       struct gsp_err *err)
{
    struct gsp_json json;
    yyjson_val *value = find(body, name);
    if (!value)
        return 0;
    gsp_json_init(&json, out);
    write_value(&json, value);
    return out->failed ? gsp_err_nomem(err) : 1;
}

/* Returns false for arrays, objects and integers beyond 64 bits. */
static bool read_scalar(yyjson_val *value, struct gsp_body_scalar *out)
{
    if (yyjson_is_str(value)) {
        out->kind = GSP_SCALAR_TEXT;
        out->text = (struct gsp_sv){yyjson_get_str(value), yyjson_get_len(value)};
    } else if (yyjson_is_bool(value)) {
        out->kind = GSP_SCALAR_BOOL;
        out->truth = yyjson_get_bool(value);
    } else if (yyjson_is_int(value)) {
        out->kind = GSP_SCALAR_I64;
        return whole_number(value, INT64_MIN, INT64_MAX, &out->whole);
    } else if (yyjson_is_num(value)) {
        out->kind = GSP_SCALAR_F64;
        out->number = yyjson_get_num(value);
    } else {
        out->kind = GSP_SCALAR_NULL;
        return yyjson_is_null(value);
    }
    return true;
}

static const char SCALAR_RULE[] = "a string, a boolean, null, or a number (integers: 64 bits)";

static int each_of_array(yyjson_val *array, const char *name,
                         int (*each)(void *ctx, const struct gsp_body_scalar *value), void *ctx,
                         struct gsp_err *err)
{
    yyjson_arr_iter iter;
    yyjson_arr_iter_init(array, &iter);
    size_t number = 1;
    for (yyjson_val *item = yyjson_arr_iter_next(&iter); item;
         item = yyjson_arr_iter_next(&iter), number++) {
        struct gsp_body_scalar value = {0};
        if (!read_scalar(item, &value))
            return gsp_err_set(err, GSP_E_USAGE, 0, "value %zu of %s must be %s", number, name,
                               SCALAR_RULE);
        int rc = each(ctx, &value);
        if (rc < 0)
            return rc;
    }
    return 1;
}

static int each_of_object(yyjson_val *object, const char *name,
                          int (*each)(void *ctx, const struct gsp_body_scalar *value), void *ctx,
                          struct gsp_err *err)
{
    yyjson_obj_iter iter;
    yyjson_obj_iter_init(object, &iter);
    for (yyjson_val *key = yyjson_obj_iter_next(&iter); key; key = yyjson_obj_iter_next(&iter)) {
        struct gsp_body_scalar value = {.name = {yyjson_get_str(key), yyjson_get_len(key)}};
        if (!read_scalar(yyjson_obj_iter_get_val(key), &value))
            return gsp_err_set(err, GSP_E_USAGE, 0, "%.60s of %s must be %s", value.name.p, name,
                               SCALAR_RULE);
        int rc = each(ctx, &value);
        if (rc < 0)
            return rc;
    }
    return 1;
}

int gsp_http_body_scalars(const struct gsp_body *body, const char *name,
                          int (*each)(void *ctx, const struct gsp_body_scalar *value), void *ctx,
                          struct gsp_err *err)
{
    yyjson_val *value = find(body, name);
    if (!value)
        return 0;
    if (yyjson_is_arr(value))
        return each_of_array(value, name, each, ctx, err);
    if (yyjson_is_obj(value))
        return each_of_object(value, name, each, ctx, err);
    return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be an array or an object", name);
}

int gsp_http_body_each(const struct gsp_body *body, const char *name,
                       int (*each)(void *ctx, const struct gsp_body *item), void *ctx,
                       struct gsp_err *err)
{
    yyjson_val *value = find(body, name);
    yyjson_arr_iter iter;
    if (!value)
        return 0;
    if (!yyjson_arr_iter_init(value, &iter))
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be an array of objects", name);
    for (yyjson_val *item = yyjson_arr_iter_next(&iter); item; item = yyjson_arr_iter_next(&iter)) {
        if (!yyjson_is_obj(item))
            return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be an array of objects", name);
        const struct gsp_body view = {.root = item};
        int rc = each(ctx, &view);
        if (rc < 0)
            return rc;
    }
    return 1;
}

bool gsp_http_body_member(const struct gsp_body *body, size_t i, struct gsp_sv *name,
                          struct gsp_buf *value)
{
    yyjson_obj_iter iter;
    if (!body->root || !yyjson_obj_iter_init(body->root, &iter))
        return false;
    yyjson_val *key = yyjson_obj_iter_next(&iter);
    for (; key && i; i--)
        key = yyjson_obj_iter_next(&iter);
    if (!key)
        return false;
    yyjson_val *found = yyjson_obj_iter_get_val(key);
    *name = (struct gsp_sv){yyjson_get_str(key), yyjson_get_len(key)};
    if (yyjson_is_str(found)) {
        gsp_buf_put(value, yyjson_get_str(found), yyjson_get_len(found));
        return true;
    }
    struct gsp_json json;
    gsp_json_init(&json, value);
    write_value(&json, found);
    return true;
}
