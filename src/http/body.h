/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.h -- reads the members of a JSON object: the body of a request or of an answer.
 *
 * Reads:   untrusted bytes; rejects objects deeper than GSP_BODY_DEPTH_MAX.
 * Threads: a body never changes once read.
 *
 * A member of another type is an error; the message names the member. A null member counts as
 * absent.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define GSP_BODY_DEPTH_MAX 24U

struct gsp_body; /* opaque */

/* Reads one JSON object; an empty text reads as {}. Fails with FORMAT (the message has the
 * position), LIMIT (depth), NOMEM. */
GSP_MUST_CHECK int gsp_http_body_read(struct gsp_sv text, struct gsp_body **out,
                                      struct gsp_err *err);
void gsp_http_body_free(struct gsp_body *body); /* NULL does nothing */

struct gsp_http_body_ints {
    int64_t *at;
    size_t count;
};

/* Whether the member exists, of any type. */
bool gsp_http_body_has(const struct gsp_body *body, const char *name);

/* The getters return 1 if the member exists, and 0 if not; *out is then unchanged. They fail with
 * USAGE if it has another type. */
GSP_MUST_CHECK int gsp_http_body_text(const struct gsp_body *body, const char *name,
                                      struct gsp_sv *out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_http_body_bool(const struct gsp_body *body, const char *name, bool *out,
                                      struct gsp_err *err);
GSP_MUST_CHECK int gsp_http_body_f64(const struct gsp_body *body, const char *name, double *out,
                                     struct gsp_err *err);
/* A whole number that fits in int64_t. */
GSP_MUST_CHECK int gsp_http_body_i64(const struct gsp_body *body, const char *name, int64_t *out,
                                     struct gsp_err *err);
/* An array of whole numbers within [min, max]. The caller frees out->at. */
GSP_MUST_CHECK int gsp_http_body_ints(const struct gsp_body *body, const char *name, int64_t min,
                                      int64_t max, struct gsp_http_body_ints *out,
                                      struct gsp_err *err);
/* An object, as JSON text. */
GSP_MUST_CHECK int gsp_http_body_object(const struct gsp_body *body, const char *name,
                                        struct gsp_buf *out, struct gsp_err *err);

/* A member of any type, as JSON text. */
GSP_MUST_CHECK int gsp_http_body_json(const struct gsp_body *body, const char *name,
                                      struct gsp_buf *out, struct gsp_err *err);

enum gsp_scalar_kind {
    GSP_SCALAR_NULL,
    GSP_SCALAR_BOOL,
    GSP_SCALAR_I64,
    GSP_SCALAR_F64,
    GSP_SCALAR_TEXT,
};

struct gsp_body_scalar {
    struct gsp_sv name; /* of a member of an object; {NULL, 0}: the value is in an array */
    struct gsp_sv text; /* borrowed from the body, like name */
    int64_t whole;
    double number;
    enum gsp_scalar_kind kind;
    bool truth;
};

/* Calls each() for the values of an array or an object, in order, until one call fails; returns
 * that result. Returns 1 if the member exists, 0 if not. Fails with USAGE if it is neither array
 * nor object, or if a value is an array, an object or an integer beyond 64 bits; the message names
 * the value. */
GSP_MUST_CHECK int gsp_http_body_scalars(const struct gsp_body *body, const char *name,
                                         int (*each)(void *ctx,
                                                     const struct gsp_body_scalar *value),
                                         void *ctx, struct gsp_err *err);

/* Calls each() for the objects of an array, in order, until one call fails; returns that result.
 * Returns 1 if the member exists, 0 if not. Fails with USAGE if it is not an array of objects. */
GSP_MUST_CHECK int gsp_http_body_each(const struct gsp_body *body, const char *name,
                                      int (*each)(void *ctx, const struct gsp_body *item),
                                      void *ctx, struct gsp_err *err);

/* Reads the name of the i-th member and appends its value to value: a string as is, any other
 * value as JSON text. Returns false past the last. */
bool gsp_http_body_member(const struct gsp_body *body, size_t i, struct gsp_sv *name,
                          struct gsp_buf *value);
