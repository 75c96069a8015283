/* SPDX-License-Identifier: Apache-2.0 */
#include "export/formats.h"

/* Bytes with a meaning in this format, and their escape sequences. */
struct escape {
    char byte;
    char code[4];
};
static const struct escape ESCAPES[] = {
    {';', "%3B"},
    {'\n', "%0A"},
    {'\r', "%0D"},
    {'%', "%25"},
};

static bool is_code(struct gsp_sv text)
{
    for (size_t i = 0; i < GSP_COUNT(ESCAPES); i++)
        if (gsp_sv_starts(text, ESCAPES[i].code))
            return true;
    return false;
}

/* Escapes a '%' only if it begins an escape sequence. */
static void put_label(struct gsp_buf *out, struct gsp_sv label)
{
    for (size_t i = 0; i < label.len; i++) {
        const char *code = NULL;
        for (size_t k = 0; k < GSP_COUNT(ESCAPES) && !code; k++)
            if (label.p[i] == ESCAPES[k].byte)
                code = ESCAPES[k].code;
        if (code && (label.p[i] != '%' || is_code((struct gsp_sv){label.p + i, label.len - i})))
            gsp_buf_puts(out, code);
        else
            gsp_buf_putc(out, label.p[i]);
    }
}

static void unescape_label(struct gsp_buf *out, struct gsp_sv label)
{
    gsp_buf_clear(out);
    while (label.len) {
        const struct escape *escape = NULL;
        for (size_t k = 0; k < GSP_COUNT(ESCAPES) && !escape; k++)
            if (gsp_sv_starts(label, ESCAPES[k].code))
                escape = &ESCAPES[k];
        size_t used = escape ? strlen(escape->code) : 1;
        gsp_buf_putc(out, escape ? escape->byte : *label.p);
        label.p += used;
        label.len -= used;
    }
}

static void put_line(struct gsp_out *out, const struct gsp_tree *tree, uint32_t node, uint64_t n)
{
    uint32_t path[GSP_STACK_DEPTH_MAX + 2];
    size_t depth = 0;
    while (node != 0 && depth < GSP_COUNT(path)) {
        path[depth++] = node;
        node = gsp_model_tree_at(tree, node)->parent;
    }
    while (depth) {
        put_label(&out->buf,
                  gsp_model_tree_label(tree, gsp_model_tree_at(tree, path[--depth])->label));
        if (depth)
            gsp_buf_putc(&out->buf, ';');
    }
    gsp_buf_putc(&out->buf, ' ');
    gsp_buf_putu64(&out->buf, n);
    gsp_buf_putc(&out->buf, '\n');
    gsp_out_spill(out);
}

static int write_folded(const struct gsp_profile *profile, const struct gsp_view_options *view,
                        struct gsp_out *out, struct gsp_err *err)
{
    static const struct gsp_view_options plain = {0};
    struct gsp_tree *tree = NULL;
    int rc = gsp_model_tree_new(profile, view ? view : &plain, &tree, err);
    if (rc)
        return rc;
    bool bytes = gsp_model_profile_meta_get(profile)->unit == GSP_UNIT_BYTES;
    for (uint32_t i = 1; i < gsp_model_tree_count(tree); i++) {
        const struct gsp_node *node = gsp_model_tree_at(tree, i);
        uint64_t weight = node->self_weight > 0 ? (uint64_t)node->self_weight : 0;
        uint64_t n = bytes ? weight : node->self_count;
        if (n)
            put_line(out, tree, i, n);
    }
    gsp_model_tree_free(tree);
    return GSP_OK;
}

struct reader {
    struct gsp_profile *profile;
    struct gsp_err *err;
    struct gsp_buf label; /* the current label, unescaped */
    size_t line;
    uint32_t thread;
};

static int malformed(struct reader *reader, const char *what)
{
    return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "line %zu: %s", reader->line, what);
}

/* Removes the number at the end of text. Returns false if none exists or it is too large. */
static bool cut_number(struct gsp_sv *text, uint64_t max, uint64_t *out)
{
    size_t at = text->len;
    while (at > 0 && text->p[at - 1] >= '0' && text->p[at - 1] <= '9')
        at--;
    if (at == text->len)
        return false;
    uint64_t v = 0;
    for (size_t i = at; i < text->len; i++) {
        uint64_t digit = (uint64_t)(text->p[i] - '0');
        if (v > (max - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    text->len = at;
    *out = v;
    return true;
}

/* Whether text in parentheses is a path. */
static bool is_file(struct gsp_sv text)
{
    return memchr(text.p, '.', text.len) != NULL || memchr(text.p, '/', text.len) != NULL ||
           gsp_sv_starts(text, "<");
}

/* Splits "name (file:12)" and "name (file)". Any other label is a name. */
static int find_frame(struct reader *reader, struct gsp_sv label, uint32_t *out)
{
    struct gsp_frame frame = {0};
    struct gsp_sv file = {"", 0};
    const char *open = label.len ? memrchr(label.p, '(', label.len) : NULL;
    if (open && open > label.p + 1 && open[-1] == ' ' && gsp_sv_ends(label, ")")) {
        uint64_t line = 0;
        struct gsp_sv inside = {open + 1, (size_t)(label.p + label.len - open) - 2};
        struct gsp_sv cut = inside;
        bool has_line = cut_number(&cut, UINT32_MAX, &line) && gsp_sv_ends(cut, ":");
        if (has_line)
            inside = (struct gsp_sv){cut.p, cut.len - 1};
        if (inside.len && (has_line || is_file(inside))) {
            file = inside;
            frame.line = has_line ? (uint32_t)line : 0;
            label.len = (size_t)(open - label.p) - 1;
        }
    }
    int rc = gsp_model_profile_string(reader->profile, label, &frame.name, reader->err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_string(reader->profile, file, &frame.file, reader->err);
    return rc ? rc : gsp_model_profile_frame(reader->profile, &frame, out, reader->err);
}

static int read_line(struct reader *reader, struct gsp_sv line)
{
    while (line.len && (line.p[line.len - 1] == '\r' || line.p[line.len - 1] == ' '))
        line.len--;
    if (line.len == 0 || *line.p == '#')
        return GSP_OK;
    struct gsp_total total = {.thread = reader->thread};
    if (!cut_number(&line, INT64_MAX, &total.count))
        return malformed(reader, "the number of samples at the end is missing or too large");
    if (!gsp_sv_ends(line, " ") || line.len < 2)
        return malformed(reader, "no stack before the number of samples");
    line.len--;
    total.weight = (int64_t)total.count;
    struct gsp_sv label = {0};
    while (gsp_sv_split(&line, ';', &label)) {
        uint32_t frame = GSP_NONE;
        unescape_label(&reader->label, label);
        if (reader->label.failed)
            return gsp_err_nomem(reader->err);
        int rc = find_frame(reader, gsp_buf_sv(&reader->label), &frame);
        if (rc == GSP_OK)
            rc = gsp_model_profile_stack(reader->profile, total.stack, frame, &total.stack,
                                         reader->err);
        if (rc)
            return rc;
    }
    return gsp_model_profile_add_total(reader->profile, &total, reader->err);
}

static int read_lines(struct reader *reader, struct gsp_sv bytes)
{
    struct gsp_process process = {.ppid = -1};
    struct gsp_thread thread = {0};
    gsp_model_profile_meta(reader->profile)->unit = GSP_UNIT_COUNT;
    int rc = gsp_model_profile_process(reader->profile, &process, &thread.process, reader->err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_thread(reader->profile, &thread, &reader->thread, reader->err);
    struct gsp_sv line = {0};
    while (rc == GSP_OK && gsp_sv_split(&bytes, '\n', &line)) {
        reader->line++;
        rc = read_line(reader, line);
    }
    return rc;
}

static int read_folded(struct gsp_sv bytes, struct gsp_profile *profile, struct gsp_err *err)
{
    struct reader reader = {.profile = profile, .err = err};
    int rc = read_lines(&reader, bytes);
    gsp_buf_free(&reader.label);
    return rc;
}

const struct gsp_format gsp_format_folded = {
    .name = "folded",
    .aliases = {"raw", "collapsed"},
    .extensions = {".folded", ".txt", ".collapsed"},
    .summary = "one line per stack, for flame graph tools",
    .write = write_folded,
    .read = read_folded,
};
