/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "cli/prompt.h"

/* The length of the quoted string, comment or single character at the start of the text. Returns
 * text.len + 1 if a quote or comment does not end. */
static size_t part_len(struct gsp_sv text)
{
    const char *end = NULL;
    size_t n = 0;
    if (text.p[0] == '\'' || text.p[0] == '"') {
        end = memchr(text.p + 1, text.p[0], text.len - 1);
        n = 1;
    } else if (gsp_sv_starts(text, "--")) {
        end = memchr(text.p, '\n', text.len);
        n = 1;
    } else if (gsp_sv_starts(text, "/*")) {
        end = text.len > 2 ? memmem(text.p + 2, text.len - 2, "*/", 2) : NULL;
        n = 2;
    } else if (gsp_sv_starts(text, "$$")) {
        end = text.len > 2 ? memmem(text.p + 2, text.len - 2, "$$", 2) : NULL;
        n = 2;
    } else {
        return 1;
    }
    return end ? (size_t)(end - text.p) + n : text.len + 1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool gsp_cli__prompt_is_complete(struct gsp_sv sql)
{
    bool ended = false;
    size_t i = 0;
    while (i < sql.len) {
        struct gsp_sv rest = {sql.p + i, sql.len - i};
        size_t n = part_len(rest);
        bool is_comment = gsp_sv_starts(rest, "--") || gsp_sv_starts(rest, "/*");
        /* A -- comment may end with the text; anything else must be closed. */
        if (n > rest.len && !gsp_sv_starts(rest, "--"))
            return false;
        if (!is_comment && !is_blank(rest.p[0]))
            ended = rest.p[0] == ';';
        i += n;
    }
    return ended;
}

/* The length of the common prefix, ignoring case. */
static size_t common_len(struct gsp_sv a, struct gsp_sv b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && strncasecmp(a.p + n, b.p + n, 1) == 0)
        n++;
    return n;
}

size_t gsp_cli__prompt_complete(const struct gsp_words *words, struct gsp_sv start,
                                struct gsp_buf *common, struct gsp_buf *list)
{
    struct gsp_sv rest = words->all;
    struct gsp_sv word;
    struct gsp_sv first = {0};
    size_t count = 0;
    while (gsp_sv_split(&rest, '\0', &word)) {
        if (word.len == 0 || word.len < start.len || common_len(word, start) < start.len)
            continue;
        if (count == 0)
            first = word;
        first.len = common_len(first, word);
        gsp_buf_putsv(list, word);
        gsp_buf_putc(list, '\0');
        count++;
    }
    if (count)
        gsp_buf_put(common, first.p + start.len, first.len - start.len);
    return count;
}
