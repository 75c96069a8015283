/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marshal.h -- the part of Python's marshal format that profiles are made of.
 *
 * Writes version 2, which every Python 3 loads.  Reads versions 2 to 5 of: dict, tuple, list,
 * str in all its forms, bytes, int, float, None, bool, and references between them.
 *
 * Reads:   bytes that nobody vouches for: every length is checked, nesting is bounded.
 * Used by: export/pstats.c.
 * Threads: a document never changes once read.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Values of one document; more fails with LIMIT. */
#define GSP_MARSHAL_VALUES_MAX (1U << 24)
#define GSP_MARSHAL_DEPTH_MAX  16U

void gsp_marshal__tuple(struct gsp_buf *out, uint32_t count); /* count values follow */
void gsp_marshal__dict_begin(struct gsp_buf *out);            /* key, value, key, value... */
void gsp_marshal__dict_end(struct gsp_buf *out);
void gsp_marshal__int(struct gsp_buf *out, uint64_t v);
void gsp_marshal__float(struct gsp_buf *out, double v);
/* Bad UTF-8 and control characters become \xNN; scratch is used on the way. */
void gsp_marshal__str(struct gsp_buf *out, struct gsp_buf *scratch, struct gsp_sv text);

enum gsp_marshal_type {
    GSP_MARSHAL_OTHER, /* None, True, False, bytes */
    GSP_MARSHAL_INT,   /* one that fits 64 bits; larger ones are the nearest that does */
    GSP_MARSHAL_FLOAT,
    GSP_MARSHAL_STR,
    GSP_MARSHAL_TUPLE, /* or list */
    GSP_MARSHAL_DICT,  /* count is of keys and values together */
};

struct gsp_marshal_value {
    enum gsp_marshal_type type;
    uint32_t count; /* items of a tuple or dict */
    union {
        int64_t integer;
        double real;
        size_t first; /* where the items begin in the list of items */
    };
    struct gsp_sv text; /* borrowed from the bytes read */
};

struct gsp_marshal;

/* Keeps bytes borrowed until gsp_marshal__free().  Fails with FORMAT, LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_marshal__read(struct gsp_sv bytes, struct gsp_marshal **out,
                                     struct gsp_err *err);
void gsp_marshal__free(struct gsp_marshal *doc);

uint32_t gsp_marshal__root(const struct gsp_marshal *doc);
size_t gsp_marshal__count(const struct gsp_marshal *doc); /* of all values */
/* NULL for a value that does not exist. */
const struct gsp_marshal_value *gsp_marshal__at(const struct gsp_marshal *doc, uint32_t value);
/* The i-th item of a tuple or dict: a value's number, UINT32_MAX if there is none. */
uint32_t gsp_marshal__item(const struct gsp_marshal *doc, uint32_t value, uint32_t i);
