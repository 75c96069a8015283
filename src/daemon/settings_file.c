/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "daemon/settings.h"

#define KEY_BYTES_MAX 128U

struct parser {
    gsp_settings_pair *pair;
    void *ctx;
    struct gsp_err *err;
    unsigned line;
    char section[KEY_BYTES_MAX];
    struct gsp_buf value; /* a string has its escapes replaced */
};

static int fail(const struct parser *parser, const char *what)
{
    return gsp_err_set(parser->err, GSP_E_FORMAT, 0, "line %u: %s", parser->line, what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct gsp_sv trim(struct gsp_sv text)
{
    while (text.len && is_blank(text.p[0])) {
        text.p++;
        text.len--;
    }
    while (text.len && is_blank(text.p[text.len - 1]))
        text.len--;
    return text;
}

static bool is_key(struct gsp_sv text)
{
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.p[i];
        const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
        if (!ok)
            return false;
    }
    return text.len > 0 && text.p[0] != '.' && text.p[text.len - 1] != '.';
}

/* Whether only a comment or nothing follows a value. */
static bool is_rest(struct gsp_sv text)
{
    text = trim(text);
    return text.len == 0 || text.p[0] == '#';
}

static bool put_escape(struct gsp_buf *out, char c)
{
    static const char from[] = "btnfr\"\\";
    static const char to[] = "\b\t\n\f\r\"\\";
    const char *at = c ? strchr(from, c) : NULL;
    if (at)
        gsp_buf_putc(out, to[at - from]);
    return at != NULL;
}

/* Reads a string in single or double quotes to parser->value. */
static int read_string(struct parser *parser, struct gsp_sv text)
{
    const char quote = text.p[0];
    size_t i = 1;
    gsp_buf_clear(&parser->value);
    for (; i < text.len && text.p[i] != quote; i++) {
        if (quote != '"' || text.p[i] != '\\') {
            gsp_buf_putc(&parser->value, text.p[i]);
            continue;
        }
        if (++i >= text.len || !put_escape(&parser->value, text.p[i]))
            return fail(parser, "unknown escape sequence");
    }
    if (i >= text.len)
        return fail(parser, "the string has no end");
    if (!is_rest((struct gsp_sv){text.p + i + 1, text.len - i - 1}))
        return fail(parser, "unexpected text after the value");
    return GSP_OK;
}

/* Reads a number or a boolean up to a comment, without underscores. */
static int read_plain(struct parser *parser, struct gsp_sv text)
{
    const char *comment = memchr(text.p, '#', text.len);
    if (comment)
        text.len = (size_t)(comment - text.p);
    text = trim(text);
    gsp_buf_clear(&parser->value);
    if (text.len == 0)
        return fail(parser, "the key has no value");
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.p[i];
        if (is_blank(c) || strchr("\"'[]{}=,", c))
            return fail(parser, "the value is not a string, number or boolean");
        if (c != '_')
            gsp_buf_putc(&parser->value, c);
    }
    return GSP_OK;
}

static int read_section(struct parser *parser, struct gsp_sv line)
{
    const char *end = memchr(line.p, ']', line.len);
    if (!end || line.p[1] == '[')
        return fail(parser, "a section must have the form [name]");
    struct gsp_sv name = trim((struct gsp_sv){line.p + 1, (size_t)(end - line.p) - 1});
    struct gsp_sv rest = {end + 1, line.len - (size_t)(end + 1 - line.p)};
    if (!is_key(name) || name.len >= sizeof(parser->section) - 1 || !is_rest(rest))
        return fail(parser, "a section must have the form [name]");
    memcpy(parser->section, name.p, name.len);
    parser->section[name.len] = '.';
    parser->section[name.len + 1] = '\0';
    return GSP_OK;
}

static int read_pair(struct parser *parser, struct gsp_sv line)
{
    char key[2 * KEY_BYTES_MAX];
    const char *equals = memchr(line.p, '=', line.len);
    if (!equals)
        return fail(parser, "the line must be key = value or [section]");
    struct gsp_sv name = trim((struct gsp_sv){line.p, (size_t)(equals - line.p)});
    struct gsp_sv value =
        trim((struct gsp_sv){equals + 1, line.len - (size_t)(equals + 1 - line.p)});
    if (!is_key(name) || name.len >= KEY_BYTES_MAX)
        return fail(parser, "a key may contain letters, digits, _, - and .");
    const bool quoted = value.len && (value.p[0] == '"' || value.p[0] == '\'');
    int rc = quoted ? read_string(parser, value) : read_plain(parser, value);
    if (rc < 0)
        return rc;
    if (parser->value.failed)
        return gsp_err_nomem(parser->err);
    const size_t section_len = strlen(parser->section);
    memcpy(key, parser->section, section_len);
    memcpy(key + section_len, name.p, name.len);
    return parser->pair(parser->ctx, (struct gsp_sv){key, section_len + name.len},
                        gsp_buf_sv(&parser->value), parser->line, parser->err);
}

int gsp_daemon__settings_parse(struct gsp_sv text, gsp_settings_pair *pair, void *ctx,
                               struct gsp_err *err)
{
    struct parser parser = {.pair = pair, .ctx = ctx, .err = err};
    struct gsp_sv line;
    int rc = GSP_OK;
    while (rc == GSP_OK && gsp_sv_split(&text, '\n', &line)) {
        parser.line++;
        line = trim(line);
        if (line.len == 0 || line.p[0] == '#')
            continue;
        rc = line.p[0] == '[' ? read_section(&parser, line) : read_pair(&parser, line);
    }
    gsp_buf_free(&parser.value);
    return rc;
}
