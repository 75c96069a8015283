/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql_text.h -- SQL as text: its words, what stands behind EXPLAIN, names of our schemas.
 *
 * The engine parses; this knows only where words, strings and comments begin and end.
 * Used by: store/ alone.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

enum gsp_sql_kind {
    GSP_SQL_END,
    GSP_SQL_WORD,   /* an identifier or keyword, also "quoted" */
    GSP_SQL_STRING, /* '...', e'...', $$...$$ */
    GSP_SQL_OTHER,  /* one character of anything else */
};

struct gsp_sql_token {
    enum gsp_sql_kind kind;
    size_t from; /* bytes of the text: [from, to) */
    size_t to;
};

/* The next token at or after pos; white space and comments are passed over. */
struct gsp_sql_token gsp_store__sql_token(struct gsp_sv sql, size_t pos);

/* Whether the token is this word (lower case), in any case of letters; quotes are no matter. */
bool gsp_store__sql_word_is(struct gsp_sv sql, struct gsp_sql_token token, const char *word);

/* The statements that an EXPLAIN may stand before: the text behind EXPLAIN [ANALYZE], and the
 * text behind its options in parentheses, if there are any.  False when it is no EXPLAIN. */
bool gsp_store__sql_explained(struct gsp_sv sql, struct gsp_sv *inner, struct gsp_sv *behind);

/* Writes sql to out with system.<table> of ours as <catalog>.system.<table>: the engine has a
 * catalog of that name, and takes the short form for ambiguous.  is_table tells our tables. */
void gsp_store__sql_qualify(struct gsp_sv sql, const char *catalog,
                            bool (*is_table)(const void *ctx, struct gsp_sv name), const void *ctx,
                            struct gsp_buf *out);

/* Where a byte of the qualified text was in the text before. */
size_t gsp_store__sql_origin(struct gsp_sv before, struct gsp_sv qualified, const char *catalog,
                             size_t pos);

/* Names and strings as SQL has them: "name", 'text'. */
void gsp_store__sql_name(struct gsp_buf *out, const char *name);
void gsp_store__sql_quote(struct gsp_buf *out, struct gsp_sv text);
