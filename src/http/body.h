/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.h -- the JSON object that a request or an answer brings, member by member.
 *
 * Reads:   bytes of any content; objects deeper than GSP_BODY_DEPTH_MAX are refused.
 * Used by: daemon/ (requests), client/ and cli/ (answers).
 * Threads: a body never changes once read.
 *
 * A member that is there with another type is an error that names it; one that is null counts
 * as not there.
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

/* Reads one JSON object; no bytes at all are {}.  Fails with FORMAT (what is wrong, and where),
 * LIMIT (depth), NOMEM. */
GSP_MUST_CHECK int gsp_body_read(struct gsp_sv text, struct gsp_body **out, struct gsp_err *err);
void gsp_body_free(struct gsp_body *body); /* NULL does nothing */

struct gsp_body_ints {
    int64_t *at;
    size_t count;
};

/* Whether there is such a member, of any type. */
bool gsp_body_has(const struct gsp_body *body, const char *name);

/* The getters leave *out as it is when there is no such member; 1: found, 0: not there.  They
 * fail with USAGE when it has another type. */
GSP_MUST_CHECK int gsp_body_text(const struct gsp_body *body, const char *name, struct gsp_sv *out,
                                 struct gsp_err *err);
GSP_MUST_CHECK int gsp_body_bool(const struct gsp_body *body, const char *name, bool *out,
                                 struct gsp_err *err);
GSP_MUST_CHECK int gsp_body_f64(const struct gsp_body *body, const char *name, double *out,
                                struct gsp_err *err);
/* A whole number; ones that 64 bits with a sign cannot hold have another type. */
GSP_MUST_CHECK int gsp_body_i64(const struct gsp_body *body, const char *name, int64_t *out,
                                struct gsp_err *err);
/* An array of whole numbers within [min, max]; out->at is the caller's to free. */
GSP_MUST_CHECK int gsp_body_ints(const struct gsp_body *body, const char *name, int64_t min,
                                 int64_t max, struct gsp_body_ints *out, struct gsp_err *err);
/* An object, as JSON text. */
GSP_MUST_CHECK int gsp_body_object(const struct gsp_body *body, const char *name,
                                   struct gsp_buf *out, struct gsp_err *err);

/* A member of any type, as JSON text. */
GSP_MUST_CHECK int gsp_body_json(const struct gsp_body *body, const char *name, struct gsp_buf *out,
                                 struct gsp_err *err);

enum gsp_scalar_kind {
    GSP_SCALAR_NULL,
    GSP_SCALAR_BOOL,
    GSP_SCALAR_I64,
    GSP_SCALAR_F64,
    GSP_SCALAR_TEXT,
};

struct gsp_body_scalar {
    struct gsp_sv name; /* of an object's member; {NULL, 0}: an array's */
    struct gsp_sv text; /* borrowed from the body, as name is */
    int64_t whole;
    double number;
    enum gsp_scalar_kind kind;
    bool truth;
};

/* Calls each for the values of an array, or of an object, in order, until one fails; what it fails
 * with is the result.  1: found, 0: not there; fails with USAGE when it is neither, or one of its
 * values is an array or an object or a whole number beyond 64 bits: the message says which. */
GSP_MUST_CHECK int gsp_body_scalars(const struct gsp_body *body, const char *name,
                                    int (*each)(void *ctx, const struct gsp_body_scalar *value),
                                    void *ctx, struct gsp_err *err);

/* Calls each for the objects of an array, in order, until one fails; what it fails with is the
 * result.  1: found, 0: not there; fails with USAGE when it is no array of objects. */
GSP_MUST_CHECK int gsp_body_each(const struct gsp_body *body, const char *name,
                                 int (*each)(void *ctx, const struct gsp_body *item), void *ctx,
                                 struct gsp_err *err);

/* The i-th member's name and its value: strings as they are, all else as JSON text, appended.
 * False past the last. */
bool gsp_body_member(const struct gsp_body *body, size_t i, struct gsp_sv *name,
                     struct gsp_buf *value);
