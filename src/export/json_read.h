/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_read.h -- the reader of profile JSON, and helpers for all readers of JSON profiles.
 *
 * Threads: no state.
 */
#pragma once

#include <yyjson.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

/* Fills an empty profile from profile.json. Only "samples" is required.
 * Fails with FORMAT, LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_export__json_read(struct gsp_sv bytes, struct gsp_profile *profile,
                                         struct gsp_err *err);

/* Parses JSON. The caller frees *out with yyjson_doc_free(). Fails with FORMAT (the message has
 * the byte offset) or NOMEM. */
GSP_MUST_CHECK int gsp_export__json_parse(struct gsp_sv bytes, yyjson_doc **out,
                                          struct gsp_err *err);

/* Returns the frame id of an element of a stack. Fails with FORMAT, LIMIT or NOMEM. */
typedef int (*gsp_export__json_frame_fn)(void *ctx, yyjson_val *element, uint32_t *out);

/* Interns the stack whose frames an array lists, root first. An empty array is GSP_NONE. Fails as
 * frame_of does. */
GSP_MUST_CHECK int gsp_export__json_stack(struct gsp_profile *profile, yyjson_val *list,
                                          gsp_export__json_frame_fn frame_of, void *ctx,
                                          uint32_t *out, struct gsp_err *err);

/* Return a member of an object, or a default ("", otherwise, 0, false) if it does not exist or has
 * another type. */
struct gsp_sv gsp_export__json_sv(yyjson_val *obj, const char *key);
double gsp_export__json_num(yyjson_val *obj, const char *key, double otherwise);
int64_t gsp_export__json_i64(yyjson_val *obj, const char *key, int64_t otherwise);
uint64_t gsp_export__json_u64(yyjson_val *obj, const char *key);
bool gsp_export__json_flag(yyjson_val *obj, const char *key);
