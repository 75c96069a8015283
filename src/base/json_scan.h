/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan.h -- JSON token by token, of any length, in memory that does not grow with it.
 *
 * Reads:   bytes of any content, by a function that hands out the next ones.
 * Gives:   tokens of a well-formed text; the first that cannot be is an error that says where.
 * Used by: export/session_read.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#define GSP_SCAN_DEPTH_MAX 64U
#define GSP_SCAN_TOKEN_MAX ((size_t)4 << 20) /* bytes of a string */

enum gsp_scan_kind {
    GSP_SCAN_END, /* the text is whole */
    GSP_SCAN_OBJ_BEGIN,
    GSP_SCAN_OBJ_END,
    GSP_SCAN_ARR_BEGIN,
    GSP_SCAN_ARR_END,
    GSP_SCAN_KEY,
    GSP_SCAN_TEXT,
    GSP_SCAN_NUMBER,
    GSP_SCAN_BOOL,
    GSP_SCAN_NULL,
};

/* Hands out at most n bytes: how many, 0 at the end, negative when it failed (err is filled). */
typedef int64_t (*gsp_scan_read)(void *ctx, char *out, size_t n, struct gsp_err *err);

struct gsp_scan {
    gsp_scan_read read;
    void *ctx;
    char *bytes;   /* a stretch of the text, NUL behind it */
    size_t cap;    /* of bytes, without the NUL */
    size_t at;     /* the next byte */
    size_t end;    /* one past the last */
    uint64_t base; /* where bytes[0] is in the text */
    unsigned depth;
    int want;                           /* what may come next; of the scanner alone */
    bool is_object[GSP_SCAN_DEPTH_MAX]; /* what is open, outermost first */
    bool at_end;                        /* there are no more bytes to read */
    bool truth;                         /* of a BOOL */
    enum gsp_scan_kind kind;            /* of the last token */
    double number;                      /* of a NUMBER */
    struct gsp_sv text; /* of a KEY or TEXT, a NUMBER's digits; borrowed until the next call */
    struct gsp_buf unescaped;
};

/* From a descriptor (ctx is an int *), and from memory (a struct gsp_sv *, which shrinks). */
int64_t gsp_scan_read_fd(void *ctx, char *out, size_t n, struct gsp_err *err);
int64_t gsp_scan_read_text(void *ctx, char *out, size_t n, struct gsp_err *err);

/* The struct must be closed in any case.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_scan_open(struct gsp_scan *scan, gsp_scan_read read, void *ctx,
                                 struct gsp_err *err);
void gsp_scan_close(struct gsp_scan *scan); /* {0} does nothing */

/* The next token, in scan->kind.  Fails with FORMAT (what and where), LIMIT, NOMEM, and what read
 * fails with. */
GSP_MUST_CHECK int gsp_scan_next(struct gsp_scan *scan, struct gsp_err *err);
/* Passes over the rest of what the last token began: a value, if it was a KEY. */
GSP_MUST_CHECK int gsp_scan_skip(struct gsp_scan *scan, struct gsp_err *err);
/* Copies the value that the last token began. */
GSP_MUST_CHECK int gsp_scan_copy(struct gsp_scan *scan, struct gsp_json *out, struct gsp_err *err);
