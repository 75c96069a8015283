/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h -- the JSON writer.
 *
 * The writer inserts commas and escapes strings. Invalid UTF-8 becomes U+FFFD, and numbers that
 * are not finite become null.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define GSP_JSON_DEPTH_MAX 32

struct gsp_json {
    struct gsp_buf *out;
    unsigned depth;
    bool has_item[GSP_JSON_DEPTH_MAX + 1];
    bool after_key;
};

void gsp_json_init(struct gsp_json *json, struct gsp_buf *out);

void gsp_json_obj_begin(struct gsp_json *json);
void gsp_json_obj_end(struct gsp_json *json);
void gsp_json_arr_begin(struct gsp_json *json);
void gsp_json_arr_end(struct gsp_json *json);
void gsp_json_key(struct gsp_json *json, const char *key);
void gsp_json_keysv(struct gsp_json *json, struct gsp_sv key);

void gsp_json_sv(struct gsp_json *json, struct gsp_sv text);
void gsp_json_str(struct gsp_json *json, const char *text); /* NULL writes null */
void gsp_json_i64(struct gsp_json *json, int64_t v);
void gsp_json_u64(struct gsp_json *json, uint64_t v);
void gsp_json_f64(struct gsp_json *json, double v); /* shortest form that parses to v */
/* Writes v * 10^-decimals exactly: (1234567890123, 9) writes 1234.567890123. */
void gsp_json_fixed(struct gsp_json *json, int64_t v, unsigned decimals);
void gsp_json_bool(struct gsp_json *json, bool v);
void gsp_json_null(struct gsp_json *json);
/* Writes a value that is already JSON, without checking it. */
void gsp_json_raw(struct gsp_json *json, struct gsp_sv value);

/* Writes the key, and null if its value is not known. Returns is_known: then a value must
 * follow. */
static inline bool gsp_json_key_or_null(struct gsp_json *json, const char *key, bool is_known)
{
    gsp_json_key(json, key);
    if (!is_known)
        gsp_json_null(json);
    return is_known;
}

/* Write one member of an object. */
static inline void gsp_json_put_sv(struct gsp_json *json, const char *key, struct gsp_sv text)
{
    gsp_json_key(json, key);
    gsp_json_sv(json, text);
}

static inline void gsp_json_put_str(struct gsp_json *json, const char *key, const char *text)
{
    gsp_json_key(json, key);
    gsp_json_str(json, text);
}

static inline void gsp_json_put_i64(struct gsp_json *json, const char *key, int64_t v)
{
    gsp_json_key(json, key);
    gsp_json_i64(json, v);
}

static inline void gsp_json_put_u64(struct gsp_json *json, const char *key, uint64_t v)
{
    gsp_json_key(json, key);
    gsp_json_u64(json, v);
}

static inline void gsp_json_put_f64(struct gsp_json *json, const char *key, double v)
{
    gsp_json_key(json, key);
    gsp_json_f64(json, v);
}

static inline void gsp_json_put_bool(struct gsp_json *json, const char *key, bool v)
{
    gsp_json_key(json, key);
    gsp_json_bool(json, v);
}

static inline void gsp_json_put_fixed(struct gsp_json *json, const char *key, int64_t v,
                                      unsigned decimals)
{
    gsp_json_key(json, key);
    gsp_json_fixed(json, v, decimals);
}

static inline void gsp_json_put_raw(struct gsp_json *json, const char *key, struct gsp_sv value)
{
    gsp_json_key(json, key);
    gsp_json_raw(json, value);
}

/* Begin a member that is an object or an array. */
static inline void gsp_json_put_obj_begin(struct gsp_json *json, const char *key)
{
    gsp_json_key(json, key);
    gsp_json_obj_begin(json);
}

static inline void gsp_json_put_arr_begin(struct gsp_json *json, const char *key)
{
    gsp_json_key(json, key);
    gsp_json_arr_begin(json);
}

static inline void gsp_json_put_null(struct gsp_json *json, const char *key)
{
    gsp_json_key(json, key);
    gsp_json_null(json);
}
