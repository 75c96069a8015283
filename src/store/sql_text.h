/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql_text.h -- splits SQL into tokens, finds the statement of an EXPLAIN, qualifies schemas.
 *
 * The engine parses SQL; these functions find only words, strings and comments.
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
    GSP_SQL_OTHER,  /* digits, or any other single character */
};

struct gsp_sql_token {
    enum gsp_sql_kind kind;
    size_t from; /* bytes [from, to) of the text */
    size_t to;
};

/* Returns the next token at or after pos. Skips white space and comments. */
struct gsp_sql_token gsp_store__sql_token(struct gsp_sv sql, size_t pos);

/* Returns the text of a token without its quotes. */
struct gsp_sv gsp_store__sql_name(struct gsp_sv sql, struct gsp_sql_token token);

/* Whether the token is this word (given in lower case). Ignores case and quotes. */
bool gsp_store__sql_word_is(struct gsp_sv sql, struct gsp_sql_token token, const char *word);

/* Finds the statement of an EXPLAIN: *inner is the text after EXPLAIN [ANALYZE]; *after_options is
 * the text after a group in parentheses that follows it (options, or part of the statement), or
 * {NULL, 0}. Returns false if sql is not an EXPLAIN. */
bool gsp_store__sql_explained(struct gsp_sv sql, struct gsp_sv *inner,
                              struct gsp_sv *after_options);

/* Writes sql to out with <catalog>.system.<table> for system.<table>: the engine also has a catalog
 * named system and rejects the short form as ambiguous. is_table() recognizes the tables. */
void gsp_store__sql_qualify(struct gsp_sv sql, const char *catalog,
                            bool (*is_table)(const void *ctx, struct gsp_sv name), const void *ctx,
                            struct gsp_buf *out);

/* Returns the position in the original text of a byte of the qualified text. */
size_t gsp_store__sql_origin(struct gsp_sv before, struct gsp_sv qualified, const char *catalog,
                             size_t pos);

/* Append a quoted name ("name") or string ('text'). */
void gsp_store__sql_put_name(struct gsp_buf *out, const char *name);
void gsp_store__sql_put_string(struct gsp_buf *out, struct gsp_sv text);
