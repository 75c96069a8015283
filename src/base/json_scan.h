/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan.h -- a JSON tokenizer for texts of any length, in constant memory.
 *
 * Reads:   untrusted bytes, through a callback.
 * Gives:   the tokens of a well-formed text. The message of an error has the byte offset.
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

#define GSP_JSON_SCAN_DEPTH_MAX 64U
#define GSP_JSON_SCAN_TOKEN_MAX ((size_t)4 << 20) /* bytes of a string */

enum gsp_json_scan_kind {
    GSP_JSON_SCAN_END, /* end of a complete text */
    GSP_JSON_SCAN_OBJ_BEGIN,
    GSP_JSON_SCAN_OBJ_END,
    GSP_JSON_SCAN_ARR_BEGIN,
    GSP_JSON_SCAN_ARR_END,
    GSP_JSON_SCAN_KEY,
    GSP_JSON_SCAN_STRING,
    GSP_JSON_SCAN_NUMBER,
    GSP_JSON_SCAN_BOOL,
    GSP_JSON_SCAN_NULL,
};

/* Reads at most n bytes. Returns their number, 0 at the end, or a negative GSP_E_* (err is
 * filled). */
typedef int64_t (*gsp_json_scan_reader)(void *ctx, char *out, size_t n, struct gsp_err *err);

struct gsp_json_scan {
    gsp_json_scan_reader read;
    void *ctx;
    char *bytes;   /* the buffered part of the text, followed by NUL */
    size_t cap;    /* of bytes, without the NUL */
    size_t at;     /* the next byte */
    size_t end;    /* one past the last */
    uint64_t base; /* offset of bytes[0] in the text */
    unsigned depth;
    int expected;                            /* which tokens may follow; private to json_scan.c */
    bool is_object[GSP_JSON_SCAN_DEPTH_MAX]; /* open objects and arrays, outermost first */
    bool at_end;                             /* the callback has returned 0 */
    bool truth;                              /* of a BOOL */
    enum gsp_json_scan_kind kind;            /* of the last token */
    double number;                           /* of a NUMBER */
    struct gsp_sv text; /* of a KEY or TEXT, a NUMBER's digits; borrowed until the next call */
    struct gsp_buf unescaped;
};

/* Callbacks that read from a descriptor (ctx is an int *) and from memory (ctx is a struct gsp_sv
 * *, which shrinks). */
int64_t gsp_json_scan_read_fd(void *ctx, char *out, size_t n, struct gsp_err *err);
int64_t gsp_json_scan_read_text(void *ctx, char *out, size_t n, struct gsp_err *err);

/* Close the struct also if this fails. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_json_scan_open(struct gsp_json_scan *scan, gsp_json_scan_reader read,
                                      void *ctx, struct gsp_err *err);
void gsp_json_scan_close(struct gsp_json_scan *scan); /* {0} does nothing */

/* Reads the next token into scan->kind and the members for its value. Fails with FORMAT, LIMIT or
 * NOMEM, or as the callback does. */
GSP_MUST_CHECK int gsp_json_scan_next(struct gsp_json_scan *scan, struct gsp_err *err);
/* Skips the rest of the value that the last token began. After a KEY, skips the member's value. */
GSP_MUST_CHECK int gsp_json_scan_skip(struct gsp_json_scan *scan, struct gsp_err *err);
/* Copies the value that the last token began to out. */
GSP_MUST_CHECK int gsp_json_scan_copy(struct gsp_json_scan *scan, struct gsp_json *out,
                                      struct gsp_err *err);
