/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marshal.h -- the subset of Python's marshal format that pstats files use.
 *
 * Writes version 2, which every Python 3 loads. Reads versions 2 to 5 of dict, tuple, list, str
 * in all its forms, bytes, int, float, None, bool, and references between them.
 *
 * Reads:   untrusted bytes: every length is checked and nesting is bounded.
 * Threads: a document never changes once read.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Values per document; reading more fails with LIMIT. */
#define GSP_MARSHAL_VALUES_MAX (1U << 24)
#define GSP_MARSHAL_DEPTH_MAX  16U

void gsp_export__marshal_tuple(struct gsp_buf *out, uint32_t count); /* count values follow */
void gsp_export__marshal_dict_begin(struct gsp_buf *out);            /* key, value, key, value... */
void gsp_export__marshal_dict_end(struct gsp_buf *out);
void gsp_export__marshal_int(struct gsp_buf *out, uint64_t v);
void gsp_export__marshal_float(struct gsp_buf *out, double v);
/* Invalid UTF-8 and control characters become \xNN. Overwrites scratch. */
void gsp_export__marshal_str(struct gsp_buf *out, struct gsp_buf *scratch, struct gsp_sv text);

enum gsp_marshal_type {
    GSP_MARSHAL_OTHER, /* None, True, False, bytes */
    GSP_MARSHAL_INT,   /* clamped to 64 bits */
    GSP_MARSHAL_FLOAT,
    GSP_MARSHAL_STR,
    GSP_MARSHAL_TUPLE, /* or list */
    GSP_MARSHAL_DICT,  /* keys and values alternate; count includes both */
};

struct gsp_marshal_value {
    enum gsp_marshal_type type;
    uint32_t count; /* items of a tuple or dict */
    union {
        int64_t integer;
        double real;
        size_t first; /* index of the first item in the list of items */
    };
    struct gsp_sv text; /* borrowed from the bytes read */
};

struct gsp_marshal;

/* Borrows bytes until gsp_export__marshal_free(). Fails with FORMAT, LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_export__marshal_read(struct gsp_sv bytes, struct gsp_marshal **out,
                                            struct gsp_err *err);
void gsp_export__marshal_free(struct gsp_marshal *doc);

uint32_t gsp_export__marshal_root(const struct gsp_marshal *doc);
size_t gsp_export__marshal_count(const struct gsp_marshal *doc); /* of all values */
/* NULL for a value that does not exist. */
const struct gsp_marshal_value *gsp_export__marshal_at(const struct gsp_marshal *doc,
                                                       uint32_t value);
/* Returns the number of the value that is the i-th item of a tuple or dict, or UINT32_MAX. */
uint32_t gsp_export__marshal_item(const struct gsp_marshal *doc, uint32_t value, uint32_t i);
