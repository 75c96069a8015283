/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sql_text.h"

#include <string.h>
#include <strings.h>

#include "store/store.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns the length of the space at pos, 0 if there is none. The engine also accepts the spaces of
 * Unicode and the byte order mark. */
static size_t space_at(struct gsp_sv sql, size_t pos)
{
    static const struct {
        unsigned char len;
        unsigned char first[3]; /* UTF-8 */
        unsigned char last;     /* greatest last byte */
    } RANGES[] = {
        {2, {0xc2, 0x85}, 0x85},       {2, {0xc2, 0xa0}, 0xa0},       {3, {0xe1, 0x9a, 0x80}, 0x80},
        {3, {0xe2, 0x80, 0x80}, 0x8f}, {3, {0xe2, 0x80, 0xa8}, 0xaf}, {3, {0xe2, 0x81, 0x9f}, 0xa0},
        {3, {0xe3, 0x80, 0x80}, 0x80}, {3, {0xef, 0xbb, 0xbf}, 0xbf},
    };
    if (pos >= sql.len)
        return 0;
    if (is_space(sql.p[pos]))
        return 1;
    for (size_t i = 0; i < GSP_COUNT(RANGES); i++) {
        const size_t len = RANGES[i].len;
        if (sql.len - pos < len || memcmp(sql.p + pos, RANGES[i].first, len - 1) != 0)
            continue;
        const unsigned char end = (unsigned char)sql.p[pos + len - 1];
        if (end >= RANGES[i].first[len - 1] && end <= RANGES[i].last)
            return len;
    }
    return 0;
}

static bool is_word_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

static bool is_word(char c)
{
    return is_word_start(c) || (c >= '0' && c <= '9') || c == '$';
}

static char at(struct gsp_sv sql, size_t pos)
{
    return pos < sql.len ? sql.p[pos] : '\0';
}

/* Returns the end of a block comment. Comments nest, as in PostgreSQL. */
static size_t skip_block_comment(struct gsp_sv sql, size_t pos)
{
    size_t depth = 0;
    while (pos < sql.len) {
        if (at(sql, pos) == '/' && at(sql, pos + 1) == '*') {
            depth++;
            pos += 2;
        } else if (at(sql, pos) == '*' && at(sql, pos + 1) == '/') {
            pos += 2;
            if (--depth == 0)
                break;
        } else {
            pos++;
        }
    }
    return pos < sql.len ? pos : sql.len;
}

static size_t skip_blank(struct gsp_sv sql, size_t pos)
{
    for (;;) {
        const size_t space = space_at(sql, pos);
        if (space > 0)
            pos += space;
        else if (at(sql, pos) == '-' && at(sql, pos + 1) == '-')
            while (pos < sql.len && sql.p[pos] != '\n' && sql.p[pos] != '\r')
                pos++;
        else if (at(sql, pos) == '/' && at(sql, pos + 1) == '*')
            pos = skip_block_comment(sql, pos);
        else
            return pos;
    }
}

/* Returns the position after the closing quote. A doubled quote does not close. */
static size_t skip_quoted(struct gsp_sv sql, size_t pos, bool escapes)
{
    const char quote = sql.p[pos++];
    while (pos < sql.len) {
        const bool pair =
            (escapes && sql.p[pos] == '\\') || (sql.p[pos] == quote && at(sql, pos + 1) == quote);
        if (!pair && sql.p[pos] == quote)
            return pos + 1;
        pos += pair ? 2 : 1;
    }
    return sql.len;
}

/* Returns the end of $tag$...$tag$, or pos if there is none. */
static size_t skip_dollar(struct gsp_sv sql, size_t pos)
{
    size_t end = pos + 1;
    while (end < sql.len && is_word(sql.p[end]) && sql.p[end] != '$')
        end++;
    if (at(sql, end) != '$' || (at(sql, pos + 1) >= '0' && at(sql, pos + 1) <= '9'))
        return pos;
    const size_t tag = end + 1 - pos;
    const char *close = memmem(sql.p + end + 1, sql.len - end - 1, sql.p + pos, tag);
    return close ? (size_t)(close - sql.p) + tag : sql.len;
}

static struct gsp_sql_token word_at(struct gsp_sv sql, size_t pos)
{
    const char c = sql.p[pos];
    if ((c == 'e' || c == 'E') && at(sql, pos + 1) == '\'')
        return (struct gsp_sql_token){GSP_SQL_STRING, pos, skip_quoted(sql, pos + 1, true)};
    size_t end = pos;
    while (end < sql.len && is_word(sql.p[end]) && space_at(sql, end) == 0)
        end++;
    return (struct gsp_sql_token){GSP_SQL_WORD, pos, end};
}

struct gsp_sql_token gsp_store__sql_token(struct gsp_sv sql, size_t pos)
{
    pos = skip_blank(sql, pos);
    if (pos >= sql.len)
        return (struct gsp_sql_token){GSP_SQL_END, sql.len, sql.len};
    const char c = sql.p[pos];
    if (c == '\'')
        return (struct gsp_sql_token){GSP_SQL_STRING, pos, skip_quoted(sql, pos, false)};
    if (c == '"')
        return (struct gsp_sql_token){GSP_SQL_WORD, pos, skip_quoted(sql, pos, false)};
    if (c == '$' && skip_dollar(sql, pos) > pos)
        return (struct gsp_sql_token){GSP_SQL_STRING, pos, skip_dollar(sql, pos)};
    if (is_word_start(c))
        return word_at(sql, pos);
    if (c >= '0' && c <= '9') {
        size_t end = pos;
        while (at(sql, end) >= '0' && at(sql, end) <= '9')
            end++;
        return (struct gsp_sql_token){GSP_SQL_OTHER, pos, end};
    }
    return (struct gsp_sql_token){GSP_SQL_OTHER, pos, pos + 1};
}

static bool is_semicolon(struct gsp_sv sql, struct gsp_sql_token token)
{
    return token.kind == GSP_SQL_OTHER && sql.p[token.from] == ';';
}

bool gsp_store_sql_next(struct gsp_sv text, size_t *pos, struct gsp_sv *out)
{
    struct gsp_sql_token token = gsp_store__sql_token(text, *pos);
    while (is_semicolon(text, token))
        token = gsp_store__sql_token(text, token.to);
    const size_t from = token.from;
    size_t to = from;
    while (token.kind != GSP_SQL_END && !is_semicolon(text, token)) {
        to = token.to;
        token = gsp_store__sql_token(text, to);
    }
    *pos = token.to;
    *out = (struct gsp_sv){text.p + from, to - from};
    return to > from;
}

struct gsp_sv gsp_store__sql_name(struct gsp_sv sql, struct gsp_sql_token token)
{
    struct gsp_sv name = {sql.p + token.from, token.to - token.from};
    if (name.len >= 2 && name.p[0] == '"' && name.p[name.len - 1] == '"') {
        name.p++;
        name.len -= 2;
    }
    return name;
}

bool gsp_store__sql_word_is(struct gsp_sv sql, struct gsp_sql_token token, const char *word)
{
    if (token.kind != GSP_SQL_WORD)
        return false;
    const struct gsp_sv name = gsp_store__sql_name(sql, token);
    return name.len == strlen(word) && strncasecmp(name.p, word, name.len) == 0;
}

static struct gsp_sv from(struct gsp_sv sql, size_t pos)
{
    return (struct gsp_sv){sql.p + pos, sql.len - pos};
}

bool gsp_store__sql_explained(struct gsp_sv sql, struct gsp_sv *inner, struct gsp_sv *after_options)
{
    *inner = (struct gsp_sv){NULL, 0};
    *after_options = (struct gsp_sv){NULL, 0};
    struct gsp_sql_token token = gsp_store__sql_token(sql, 0);
    if (!gsp_store__sql_word_is(sql, token, "explain"))
        return false;
    size_t pos = token.to;
    token = gsp_store__sql_token(sql, pos);
    if (gsp_store__sql_word_is(sql, token, "analyze")) {
        pos = token.to;
        token = gsp_store__sql_token(sql, pos);
    }
    *inner = from(sql, pos);
    if (token.kind != GSP_SQL_OTHER || sql.p[token.from] != '(')
        return true;
    size_t depth = 0;
    for (; token.kind != GSP_SQL_END; token = gsp_store__sql_token(sql, token.to)) {
        const char c = sql.p[token.from];
        if (token.kind == GSP_SQL_OTHER && c == '(') {
            depth++;
        } else if (token.kind == GSP_SQL_OTHER && c == ')' && --depth == 0) {
            *after_options = from(sql, token.to);
            break;
        }
    }
    return true;
}

/* Whether the token starts system.<table> with a table of the store. */
static bool is_ours(struct gsp_sv sql, struct gsp_sql_token token,
                    bool (*is_table)(const void *ctx, struct gsp_sv name), const void *ctx)
{
    if (!gsp_store__sql_word_is(sql, token, "system"))
        return false;
    const struct gsp_sql_token dot = gsp_store__sql_token(sql, token.to);
    if (dot.kind != GSP_SQL_OTHER || sql.p[dot.from] != '.')
        return false;
    const struct gsp_sql_token name = gsp_store__sql_token(sql, dot.to);
    return name.kind == GSP_SQL_WORD && is_table(ctx, gsp_store__sql_name(sql, name));
}

void gsp_store__sql_qualify(struct gsp_sv sql, const char *catalog,
                            bool (*is_table)(const void *ctx, struct gsp_sv name), const void *ctx,
                            struct gsp_buf *out)
{
    size_t done = 0;
    bool after_dot = false;
    for (struct gsp_sql_token token = gsp_store__sql_token(sql, 0); token.kind != GSP_SQL_END;
         token = gsp_store__sql_token(sql, token.to)) {
        if (!after_dot && is_ours(sql, token, is_table, ctx)) {
            gsp_buf_put(out, sql.p + done, token.from - done);
            gsp_buf_puts(out, catalog);
            gsp_buf_putc(out, '.');
            done = token.from;
        }
        after_dot = token.kind == GSP_SQL_OTHER && sql.p[token.from] == '.';
    }
    gsp_buf_put(out, sql.p + done, sql.len - done);
}

size_t gsp_store__sql_origin(struct gsp_sv before, struct gsp_sv qualified, const char *catalog,
                             size_t pos)
{
    const size_t added = strlen(catalog) + 1;
    size_t here = 0; /* in the text before */
    size_t there = 0;
    while (there < pos && there < qualified.len && here < before.len) {
        if (before.p[here] != qualified.p[there]) {
            /* The inserted text starts here, or earlier if its first letters are equal. Skipping
             * its length is right in both cases. */
            there += added;
            continue;
        }
        here++;
        there++;
    }
    return here < before.len ? here : before.len;
}

void gsp_store__sql_put_name(struct gsp_buf *out, const char *name)
{
    gsp_buf_putc(out, '"');
    for (; *name; name++) {
        if (*name == '"')
            gsp_buf_putc(out, '"');
        gsp_buf_putc(out, *name);
    }
    gsp_buf_putc(out, '"');
}

void gsp_store__sql_put_string(struct gsp_buf *out, struct gsp_sv text)
{
    gsp_buf_putc(out, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '\'')
            gsp_buf_putc(out, '\'');
        gsp_buf_putc(out, text.p[i]);
    }
    gsp_buf_putc(out, '\'');
}
