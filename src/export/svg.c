/* SPDX-License-Identifier: Apache-2.0 */
#include "export/svg.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/map.h"
#include "export/formats.h"
#include "model/format.h"

/* Embedded by tools/embed.py from flamegraph.css and flamegraph.js. */
extern const char gsp_export__svg_css[];
extern const char gsp_export__svg_js[];

/* Boxes are placed in percent of the window. Widths in pixels assume a window of this width. */
#define WIDTH_PX     1200.0
#define LEAST_PX     0.1  /* narrower frames are omitted and counted */
#define TEXT_PX      24.0 /* narrower boxes have no text until the script zooms in */
#define ROW_PX       18U
#define HEAD_PX      116U
#define HELP_PX      118U
#define PYTHON_TONES 12U
#define NATIVE_TONES 6U

static const char *const HELP[] = {
    "How to read this",
    "Each box is a function. The box above it is its caller; the boxes below it are its callees.",
    "The width of a box is its share of all samples. Boxes are sorted by name, not by time.",
    "A wide box with nothing below it is where the time is spent.",
    "Click a box or press Enter to zoom. Click the path or press Escape to go back. Arrows move.",
    "Ctrl-F or / searches by regular expression and shows the share of all samples that match.",
    "Yellow, orange: Python, one tone per file. Blue italic: native. Violet underlined: kernel.",
};

static const char *const HELP_DIFF[] = {
    "How to read this",
    "Each box is a function. The box above it is its caller; the boxes below it are its callees.",
    "The width of a box is the sum of both recordings. Boxes are sorted by name.",
    "Red: more in the second recording. Blue: less. A deeper colour is a larger difference.",
    "Grey: no difference, or a negligible one. The sign after a name repeats the colour.",
    "Click a box or press Enter to zoom. Click the path or press Escape to go back. Arrows move.",
    "Ctrl-F or / searches by regular expression and shows the share of the total that matches.",
};

/* From much less (d0) to equal (d4) to much more (d8). */
static const char CSS_DIFF[] =
    ".d0 { fill: #6baed6; } .d1 { fill: #9ecae1; } .d2 { fill: #c6dbef; } .d3 { fill: #dfebf7; }\n"
    ".d4 { fill: #dedede; } .d5 { fill: #fee5d9; } .d6 { fill: #fcbba1; } .d7 { fill: #fc9272; }\n"
    ".d8 { fill: #fb7050; }\n";
#define DIFF_TONES     9
/* Smaller changes, as a share of all, are ignored. */
#define DIFF_SHARE_MIN 0.0005

struct drawing {
    const struct gsp_profile *profile;
    const struct gsp_svg_diff *diff; /* NULL: an ordinary flame graph */
    const struct gsp_tree *tree;
    int64_t (*values)[2]; /* of a diff, by node: the total in each recording */
    struct gsp_out *out;
    uint64_t *cursor; /* by node: where its next child begins, in units of measure() */
    uint64_t all;     /* the measure of the root, at least 1 */
    bool by_weight;
    enum gsp_unit unit;
    size_t shown;
    uint32_t depth; /* of the deepest frame shown */
};

/* The quantity that determines the width of a box. */
static uint64_t measure(const struct drawing *d, const struct gsp_node *node)
{
    if (!d->by_weight)
        return node->total_count;
    return node->total_weight > 0 ? (uint64_t)node->total_weight : 0;
}

static double pct(uint64_t part, uint64_t all)
{
    return all > 0 ? 100 * (double)part / (double)all : 0;
}

static bool is_shown(const struct drawing *d, uint32_t i)
{
    return pct(measure(d, gsp_model_tree_at(d->tree, i)), d->all) * WIDTH_PX / 100 >= LEAST_PX;
}

/* Returns the next node after i in preorder that is wide enough; 0 at the end. Descendants of a
 * frame that is too narrow are too narrow as well. */
static uint32_t next_shown(const struct drawing *d, uint32_t i)
{
    uint32_t next = gsp_model_tree_at(d->tree, i)->first_child;
    for (;;) {
        while (next == 0 && i != 0) {
            next = gsp_model_tree_at(d->tree, i)->next_sibling;
            i = gsp_model_tree_at(d->tree, i)->parent;
        }
        if (next == 0 || is_shown(d, next))
            return next;
        i = next;
        next = 0;
    }
}

/* Has enough digits for a zoom into the narrowest frame. */
static void put_pct(struct gsp_buf *buf, double v)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%.7f", v);
    while (n > 1 && text[n - 1] == '0')
        n--;
    if (text[n - 1] == '.')
        n--;
    gsp_buf_put(buf, text, (size_t)n);
    gsp_buf_putc(buf, '%');
}

/* Returns the growth from the first to the second, as a share of the larger value: -1 to 1. */
static double growth_of(const struct drawing *d, uint32_t i)
{
    const double a = (double)d->values[i][0];
    const double b = (double)d->values[i][1];
    const double larger = a > b ? a : b;
    const double least = DIFF_SHARE_MIN * (double)d->all;
    return larger > 0 && (b - a > least || a - b > least) ? (b - a) / larger : 0;
}

static void put_amount(const struct drawing *d, int64_t value)
{
    struct gsp_buf *buf = &d->out->buf;
    if (d->diff->is_share)
        gsp_buf_printf(buf, "%.2f %%", (double)value / 1e4);
    else
        gsp_model_amount_put(d->diff->unit, value, buf);
}

/* "base 120 ms, new 150 ms, +25.0 %" */
static void put_diff_facts(const struct drawing *d, uint32_t i)
{
    struct gsp_buf *buf = &d->out->buf;
    const int64_t *values = d->values[i];
    for (int side = 0; side < 2; side++) {
        gsp_buf_xml(buf, d->diff->name[side]);
        gsp_buf_putc(buf, ' ');
        put_amount(d, values[side]);
        gsp_buf_puts(buf, ", ");
    }
    if (values[0] > 0)
        gsp_buf_printf(buf, "%+.1f %%", 100 * (double)(values[1] - values[0]) / (double)values[0]);
    else
        gsp_buf_puts(buf, "new");
}

/* The class that gives a frame its colour: by growth in a diff, otherwise by kind and file. */
static void put_class(const struct drawing *d, uint32_t i)
{
    struct gsp_buf *buf = &d->out->buf;
    if (d->diff) {
        const double middle = (DIFF_TONES - 1) / 2.0;
        const double growth = growth_of(d, i);
        const int tone = (int)(middle + growth * middle + (growth < 0 ? -0.499 : 0.499) + 0.5);
        gsp_buf_printf(buf, "d%d", tone < 0 ? 0 : tone >= DIFF_TONES ? DIFF_TONES - 1 : tone);
        return;
    }
    const struct gsp_frame *frame =
        gsp_model_profile_frame_at(d->profile, gsp_model_tree_at(d->tree, i)->frame);
    if (!frame) {
        gsp_buf_putc(buf, 'g');
        return;
    }
    struct gsp_sv file = gsp_model_profile_string_at(d->profile, frame->file);
    uint64_t hash = gsp_hash_bytes(file.p, file.len, 0);
    switch (frame->kind) {
    case GSP_FRAME_PYTHON:
        gsp_buf_printf(buf, "p%u", (unsigned)(hash % PYTHON_TONES));
        break;
    case GSP_FRAME_NATIVE:
    case GSP_FRAME_BRIDGED:
        gsp_buf_printf(buf, "n%u", (unsigned)(hash % NATIVE_TONES));
        break;
    case GSP_FRAME_KERNEL:
        gsp_buf_putc(buf, 'k');
        break;
    case GSP_FRAME_MARK:
        gsp_buf_putc(buf, 'm');
        break;
    }
}

/* "12 samples, 120 ms, 12.3 % of all, 45.6 % of parent" */
static void put_facts(const struct drawing *d, const struct gsp_node *node)
{
    struct gsp_buf *buf = &d->out->buf;
    gsp_model_count_put(node->total_count, buf);
    gsp_buf_puts(buf, node->total_count == 1 ? " sample, " : " samples, ");
    if (d->unit != GSP_UNIT_COUNT) {
        gsp_model_amount_put(d->unit, node->total_weight, buf);
        gsp_buf_puts(buf, ", ");
    }
    const struct gsp_node *parent = gsp_model_tree_at(d->tree, node->parent);
    gsp_auto_buf share = {0};
    gsp_model_percent_put(pct(measure(d, node), d->all), &share);
    gsp_buf_xml(buf, gsp_buf_sv(&share));
    gsp_buf_puts(buf, " % of all");
    if (node->depth > 0) {
        gsp_buf_clear(&share);
        gsp_model_percent_put(pct(measure(d, node), measure(d, parent)), &share);
        gsp_buf_puts(buf, ", ");
        gsp_buf_xml(buf, gsp_buf_sv(&share));
        gsp_buf_puts(buf, " % of parent");
    }
    buf->failed = buf->failed || share.failed;
}

/* Repeats the meaning of the colour, for users who cannot see it. */
static void put_sign(const struct drawing *d, uint32_t i)
{
    const double growth = d->diff ? growth_of(d, i) : 0;
    if (growth > 0 || growth < 0)
        gsp_buf_puts(&d->out->buf, growth > 0 ? " +" : " \xe2\x88\x92");
}

static void put_frame(const struct drawing *d, uint32_t i)
{
    struct gsp_buf *buf = &d->out->buf;
    const struct gsp_node *node = gsp_model_tree_at(d->tree, i);
    struct gsp_sv label = gsp_model_tree_label(d->tree, node->label);
    uint64_t size = measure(d, node);
    double width = i == 0 ? 100 : pct(size, d->all);
    double x = i == 0 ? 0 : pct(d->cursor[node->parent], d->all);
    d->cursor[i] = i == 0 ? 0 : d->cursor[node->parent];
    if (i != 0)
        d->cursor[node->parent] += size;
    gsp_buf_puts(buf, "<svg class=\"f ");
    put_class(d, i);
    gsp_buf_puts(buf, "\" x=\"");
    put_pct(buf, x);
    gsp_buf_printf(buf, "\" y=\"%u\" width=\"", HEAD_PX + node->depth * ROW_PX);
    put_pct(buf, width);
    gsp_buf_printf(buf, "\" height=\"%u\"><title>", ROW_PX - 1);
    gsp_buf_xml(buf, label);
    put_sign(d, i);
    gsp_buf_putc(buf, '\n');
    if (d->diff)
        put_diff_facts(d, i);
    else
        put_facts(d, node);
    gsp_buf_puts(buf, "</title><rect width=\"100%\" height=\"100%\"/>");
    if (width * WIDTH_PX / 100 >= TEXT_PX) {
        gsp_buf_puts(buf, "<text x=\"3\" y=\"12.5\">");
        gsp_buf_xml(buf, label);
        put_sign(d, i);
        gsp_buf_puts(buf, "</text>");
    }
    gsp_buf_puts(buf, "</svg>\n");
    gsp_out_spill(d->out);
}

static void put_button(struct gsp_buf *buf, const char *id, unsigned x, unsigned width,
                       const char *text)
{
    gsp_buf_printf(buf,
                   "<g class=\"button\" id=\"%s\" tabindex=\"0\" role=\"button\">"
                   "<rect x=\"%u\" y=\"46\" width=\"%u\" height=\"21\" rx=\"3\"/>"
                   "<text x=\"%u\" y=\"61\">%s</text></g>\n",
                   id, x, width, x + 8, text);
}

/* The title: the program, or the names of both recordings. */
static void put_name(const struct drawing *d, struct gsp_buf *out)
{
    if (!d->diff) {
        gsp_model_command_put(d->profile, out);
        return;
    }
    gsp_buf_putsv(out, d->diff->name[0]);
    gsp_buf_puts(out, " and ");
    gsp_buf_putsv(out, d->diff->name[1]);
}

static void put_extent(const struct drawing *d, struct gsp_buf *out)
{
    if (d->diff) {
        gsp_buf_puts(out, "red: more in the second, blue: less");
        gsp_buf_puts(out, d->diff->per[0] ? " \xc2\xb7 " : "");
        gsp_buf_puts(out, d->diff->per);
        return;
    }
    gsp_model_extent_put(d->profile, out);
    gsp_buf_puts(out, " \xc2\xb7 losses: ");
    gsp_model_losses_put(&gsp_model_profile_meta_get(d->profile)->losses, out);
}

/* The title, the extent of the recording, its losses, and the controls (shown by the script). */
static void put_head(const struct drawing *d)
{
    struct gsp_buf *buf = &d->out->buf;
    gsp_auto_buf command = {0};
    gsp_auto_buf facts = {0};
    put_name(d, &command);
    put_extent(d, &facts);
    size_t left_out = gsp_model_tree_count(d->tree) - d->shown;
    if (left_out > 0) {
        gsp_buf_puts(&facts, " \xc2\xb7 ");
        gsp_model_count_put(left_out, &facts);
        gsp_buf_puts(&facts,
                     left_out == 1 ? " frame too narrow to draw" : " frames too narrow to draw");
    }
    gsp_buf_printf(buf, "<g id=\"head\">\n<rect class=\"back\" width=\"100%%\" height=\"%u\"/>\n",
                   HEAD_PX - 3);
    gsp_buf_puts(buf, "<text id=\"name\" x=\"10\" y=\"21\">");
    gsp_buf_xml(buf, gsp_buf_sv(&command));
    gsp_buf_puts(buf, "</text>\n<text id=\"facts\" class=\"dim\" x=\"10\" y=\"38\">");
    gsp_buf_xml(buf, gsp_buf_sv(&facts));
    gsp_buf_puts(buf, "</text>\n<g id=\"controls\">\n");
    put_button(buf, "how", 10, 120, "How to read this");
    put_button(buf, "find", 138, 60, "Search");
    put_button(buf, "reset", 206, 72, "Zoom out");
    gsp_buf_puts(buf, "<text id=\"matched\" x=\"514\" y=\"61\"></text>\n</g>\n"
                      "<text id=\"crumbs\" x=\"10\" y=\"86\"></text>\n"
                      "<text id=\"details\" x=\"10\" y=\"105\"></text>\n</g>\n");
    buf->failed = buf->failed || command.failed || facts.failed;
}

static void put_help(const struct drawing *d, unsigned y)
{
    struct gsp_buf *buf = &d->out->buf;
    const char *const *lines = d->diff ? HELP_DIFF : HELP;
    _Static_assert(GSP_COUNT(HELP) == GSP_COUNT(HELP_DIFF), "both have the same height");
    gsp_buf_printf(buf,
                   "<g id=\"help\" transform=\"translate(0,%u)\" data-y=\"%u\">\n"
                   "<rect x=\"4\" y=\"0\" width=\"760\" height=\"%u\" rx=\"4\"/>\n",
                   y, y, HELP_PX);
    for (unsigned i = 0; i < GSP_COUNT(HELP); i++)
        gsp_buf_printf(buf, "<text%s x=\"12\" y=\"%u\">%s</text>\n", i > 0 ? " class=\"dim\"" : "",
                       16 + 16 * i, lines[i]);
    gsp_buf_puts(buf, "</g>\n");
}

static void put_document(struct drawing *d)
{
    struct gsp_buf *buf = &d->out->buf;
    unsigned help_y = HEAD_PX + (d->depth + 1) * ROW_PX + 8;
    gsp_auto_buf command = {0};
    put_name(d, &command);
    gsp_buf_printf(buf,
                   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%%\" height=\"%u\">\n"
                   "<title>",
                   help_y + HELP_PX + 4);
    gsp_buf_xml(buf, gsp_buf_sv(&command));
    gsp_buf_puts(buf, " \xc2\xb7 flame graph</title>\n<style><![CDATA[\n");
    gsp_buf_puts(buf, gsp_export__svg_css);
    gsp_buf_puts(buf, d->diff ? CSS_DIFF : "");
    gsp_buf_puts(buf, "]]></style>\n<g id=\"frames\" aria-label=\"call tree\">\n");
    uint32_t i = 0;
    do {
        put_frame(d, i);
        i = next_shown(d, i);
    } while (i != 0);
    gsp_buf_puts(buf, "</g>\n");
    put_head(d);
    put_help(d, help_y);
    gsp_buf_puts(buf, "<script><![CDATA[\n");
    gsp_buf_puts(buf, gsp_export__svg_js);
    gsp_buf_puts(buf, "]]></script>\n</svg>\n");
    buf->failed = buf->failed || command.failed;
    gsp_out_spill(d->out);
}

static int draw(struct drawing *d, struct gsp_err *err)
{
    const struct gsp_node *root = gsp_model_tree_at(d->tree, 0);
    d->unit = gsp_model_profile_meta_get(d->profile)->unit;
    d->by_weight = root->total_weight > 0;
    d->all = measure(d, root) > 0 ? measure(d, root) : 1;
    d->cursor = calloc(gsp_model_tree_count(d->tree), sizeof(*d->cursor));
    if (d->cursor) {
        uint32_t i = 0;
        do {
            const struct gsp_node *node = gsp_model_tree_at(d->tree, i);
            d->depth = node->depth > d->depth ? node->depth : d->depth;
            d->shown++;
            i = next_shown(d, i);
        } while (i != 0);
        put_document(d);
    }
    bool ok = d->cursor && !d->out->buf.failed;
    free(d->cursor);
    if (!ok)
        return gsp_err_nomem(err);
    return GSP_OK;
}

static int write_svg(const struct gsp_profile *profile, const struct gsp_view_options *view,
                     struct gsp_out *out, struct gsp_err *err)
{
    struct gsp_tree *tree = NULL;
    int rc = gsp_model_tree_new(profile, view, &tree, err);
    if (rc < 0)
        return rc;
    struct drawing d = {.profile = profile, .tree = tree, .out = out};
    rc = draw(&d, err);
    gsp_model_tree_free(tree);
    return rc;
}

/* Sets d->values[...][side] from the tree of that recording, a part of d->tree. `match` is scratch
 * memory for one element per node: 1 + the node of `part` with the same path; 0: none. A parent
 * precedes its children in a tree, and children are sorted by label. */
static void set_values(struct drawing *d, const struct gsp_tree *part, int side, uint32_t *match)
{
    size_t count = gsp_model_tree_count(d->tree);
    match[0] = 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct gsp_node *twin = match[i] ? gsp_model_tree_at(part, match[i] - 1) : NULL;
        uint32_t other = twin ? twin->first_child : 0;
        d->values[i][side] = twin ? twin->total_weight : 0;
        for (uint32_t child = gsp_model_tree_at(d->tree, i)->first_child; child != 0;
             child = gsp_model_tree_at(d->tree, child)->next_sibling) {
            gsp_assert(child > i);
            match[child] = 0;
            if (other != 0 &&
                gsp_sv_eq(gsp_model_tree_label(d->tree, gsp_model_tree_at(d->tree, child)->label),
                          gsp_model_tree_label(part, gsp_model_tree_at(part, other)->label))) {
                match[child] = other + 1;
                other = gsp_model_tree_at(part, other)->next_sibling;
            }
        }
        gsp_assert(other == 0);
    }
}

int gsp_export_svg_write_diff(const struct gsp_svg_diff *diff, struct gsp_out *out,
                              struct gsp_err *err)
{
    const struct gsp_view_options view = {.by_function = true};
    struct gsp_tree *tree = NULL;
    int rc = gsp_model_tree_new(diff->sum, &view, &tree, err);
    if (rc < 0)
        return rc;
    struct drawing d = {.profile = diff->sum, .diff = diff, .tree = tree, .out = out};
    uint32_t *match = calloc(gsp_model_tree_count(tree), sizeof(*match));
    d.values = calloc(gsp_model_tree_count(tree), sizeof(*d.values));
    if (!match || !d.values)
        rc = gsp_err_nomem(err);
    for (int side = 0; rc == GSP_OK && side < 2; side++) {
        struct gsp_tree *part = NULL;
        rc = gsp_model_tree_new(diff->profile[side], &view, &part, err);
        if (rc == GSP_OK)
            set_values(&d, part, side, match);
        gsp_model_tree_free(part);
    }
    if (rc == GSP_OK)
        rc = draw(&d, err);
    free(match);
    free(d.values);
    gsp_model_tree_free(tree);
    return rc;
}

const struct gsp_format gsp_format_svg = {
    .name = "svg",
    .aliases = {"flamegraph"},
    .extensions = {".svg"},
    .summary = "interactive flame graph, for any browser",
    .write = write_svg,
};
