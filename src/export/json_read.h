/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_read.h -- the reader of profile JSON, and what readers of JSON share.
 *
 * Used by: json.c, which has the format's row, and speedscope_read.c.
 * Threads: no state.
 */
#pragma once

#include <yyjson.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

/* Fills an empty profile from profile.json: only "samples" must be there.
 * Fails with FORMAT, LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_export__read_json(struct gsp_sv bytes, struct gsp_profile *profile,
                                         struct gsp_err *err);

/* Parses; *out is to be freed with yyjson_doc_free().  Fails with FORMAT and the byte. */
GSP_MUST_CHECK int gsp_export__json_parse(struct gsp_sv bytes, yyjson_doc **out,
                                          struct gsp_err *err);

/* Members of an object, and a value where there is no such member or it is of another type. */
struct gsp_sv gsp_export__json_sv(yyjson_val *obj, const char *key);
double gsp_export__json_num(yyjson_val *obj, const char *key, double otherwise);
int64_t gsp_export__json_i64(yyjson_val *obj, const char *key, int64_t otherwise);
uint64_t gsp_export__json_u64(yyjson_val *obj, const char *key);
bool gsp_export__json_flag(yyjson_val *obj, const char *key);
