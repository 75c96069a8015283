/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/time.h"
#include "export/plot_colors.h"
#include "export/plot_scene.h"

/* Embedded by tools/embed.py from plot.css, plot_page.css and plot.js. */
extern const char gsp_export__plot_css[];
extern const char gsp_export__plot_page_css[];
extern const char gsp_export__plot_js[];

/* Colours that depend on the theme are classes. Those of lines and of the heat map do not. */
static void put_color(size_t color, const char *property, struct gsp_buf *out)
{
    static const char *const CLASSES[] = {"back", "panel", "grid", "text", "faint"};
    if (color < GSP_COUNT(CLASSES))
        gsp_buf_printf(out, " class=\"%s\"", CLASSES[color]);
    else
        gsp_buf_printf(out, " %s=\"#%06x\"", property, (unsigned)gsp_export__plot_rgb(color));
}

static void put_points(const struct plot_scene *scene, size_t first, size_t count, bool backwards,
                       struct gsp_buf *out)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = first + (backwards ? count - 1 - i : i);
        const struct plot_point *p = PLOT_AT(scene->points, struct plot_point, at);
        gsp_buf_printf(out, "%s%.1f %.1f", i ? "L" : "", (double)p->x, (double)p->y);
    }
}

static void put_path(const struct plot_scene *scene, const struct plot_item *item,
                     struct gsp_buf *out)
{
    gsp_buf_puts(out, "<path class=\"line\"");
    put_color(item->color, "stroke", out);
    gsp_buf_puts(out, " d=\"M");
    put_points(scene, item->first, item->count, false, out);
    gsp_buf_puts(out, "\"><title>");
    gsp_buf_xml(out, gsp_sv_of(gsp_export__plot_text_at(scene, item->text)));
    gsp_buf_puts(out, "</title></path>\n");
}

static void put_band(const struct plot_scene *scene, const struct plot_item *item,
                     struct gsp_buf *out)
{
    gsp_buf_puts(out, "<path class=\"band\"");
    put_color(item->color, "fill", out);
    gsp_buf_puts(out, " d=\"M");
    put_points(scene, item->first, item->count, false, out);
    gsp_buf_putc(out, 'L');
    put_points(scene, item->first + item->count, item->count, true, out);
    gsp_buf_puts(out, "Z\"/>\n");
}

static void put_words(const struct plot_scene *scene, const struct plot_item *item,
                      struct gsp_buf *out)
{
    static const char *const ANCHORS[] = {"start", "middle", "end"};
    gsp_buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"%s\"",
                   (double)item->x, (double)item->y, (double)item->h, ANCHORS[item->anchor + 1]);
    put_color(item->color, "fill", out);
    gsp_buf_putc(out, '>');
    gsp_buf_xml(out, gsp_sv_of(gsp_export__plot_text_at(scene, item->text)));
    gsp_buf_puts(out, "</text>\n");
}

static void put_rect(const struct plot_item *item, struct gsp_buf *out)
{
    gsp_buf_printf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"",
                   (double)item->x, (double)item->y, (double)item->w, (double)item->h);
    put_color(item->color, "fill", out);
    gsp_buf_puts(out, "/>\n");
}

void gsp_export__plot_svg_write(const struct plot_scene *scene, struct gsp_buf *out)
{
    gsp_buf_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" width=\"%g\" "
                   "height=\"%g\" viewBox=\"0 0 %g %g\" role=\"img\">\n<style>\n%s</style>\n",
                   (double)PLOT_WIDTH, (double)scene->height, (double)PLOT_WIDTH,
                   (double)scene->height, gsp_export__plot_css);
    gsp_buf_printf(out, "<rect class=\"back\" width=\"%g\" height=\"%g\"/>\n", (double)PLOT_WIDTH,
                   (double)scene->height);
    for (size_t i = 0; i < PLOT_COUNT(scene->items, struct plot_item); i++) {
        const struct plot_item *item = PLOT_AT(scene->items, struct plot_item, i);
        switch (item->kind) {
        case PLOT_RECT:
            put_rect(item, out);
            break;
        case PLOT_PATH:
            put_path(scene, item, out);
            break;
        case PLOT_BAND:
            put_band(scene, item, out);
            break;
        case PLOT_LABEL:
            put_words(scene, item, out);
            break;
        }
    }
    gsp_buf_puts(out, "</svg>\n");
}

static void put_f32(struct gsp_json *json, float v)
{
    char text[32];
    snprintf(text, sizeof(text), "%.5g", (double)v);
    if (isfinite(v))
        gsp_json_raw(json, gsp_sv_of(text));
    else
        gsp_json_null(json);
}

static void put_line_data(const struct plot_scene *scene, const struct plot_line *line,
                          struct gsp_json *json)
{
    char color[16];
    snprintf(color, sizeof(color), "#%06x", (unsigned)gsp_export__plot_rgb(line->color));
    gsp_json_obj_begin(json);
    gsp_json_put_str(json, "label", gsp_export__plot_text_at(scene, line->label));
    gsp_json_put_str(json, "color", color);
    gsp_json_put_arr_begin(json, "columns");
    for (size_t i = 0; i < line->count; i++) {
        const struct plot_column *column =
            PLOT_AT(scene->columns, struct plot_column, line->first + i);
        gsp_json_arr_begin(json);
        put_f32(json, column->x);
        put_f32(json, column->min);
        put_f32(json, column->mean);
        put_f32(json, column->max);
        gsp_json_arr_end(json);
    }
    gsp_json_arr_end(json);
    gsp_json_obj_end(json);
}

static void put_panel_data(const struct plot_scene *scene, const struct plot_panel *panel,
                           struct gsp_json *json)
{
    const struct {
        const char *name;
        float v;
    } fields[] = {{"x", panel->x}, {"y", panel->y}, {"w", panel->w}, {"h", panel->h}};
    gsp_json_obj_begin(json);
    for (size_t i = 0; i < GSP_COUNT(fields); i++) {
        gsp_json_key(json, fields[i].name);
        put_f32(json, fields[i].v);
    }
    gsp_json_put_str(json, "unit", gsp_export__plot_text_at(scene, panel->unit));
    gsp_json_put_arr_begin(json, "lines");
    for (size_t i = 0; i < panel->line_count; i++)
        put_line_data(scene, PLOT_AT(scene->lines, struct plot_line, panel->first_line + i), json);
    gsp_json_arr_end(json);
    gsp_json_obj_end(json);
}

/* JSON inside a script element. '<' is escaped, so that no text ends the element. */
static void put_data(const struct plot_scene *scene, struct gsp_buf *out)
{
    gsp_auto_buf text = {0};
    struct gsp_json json;
    gsp_json_init(&json, &text);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "from", scene->from_ns / GSP_NS_PER_MS);
    gsp_json_put_i64(&json, "to", scene->to_ns / GSP_NS_PER_MS);
    gsp_json_put_i64(&json, "zone", scene->zone_s);
    gsp_json_put_arr_begin(&json, "panels");
    for (size_t i = 0; i < PLOT_COUNT(scene->panels, struct plot_panel); i++)
        put_panel_data(scene, PLOT_AT(scene->panels, struct plot_panel, i), &json);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
    for (size_t i = 0; i < text.len; i++)
        if (text.p[i] == '<')
            gsp_buf_puts(out, "\\u003c");
        else
            gsp_buf_putc(out, text.p[i]);
    out->failed = out->failed || text.failed;
}

void gsp_export__plot_html_write(const struct plot_scene *scene, const char *title,
                                 struct gsp_buf *out)
{
    gsp_buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>");
    gsp_buf_xml(out, gsp_sv_of(title));
    gsp_buf_printf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n",
                   gsp_export__plot_page_css);
    gsp_export__plot_svg_write(scene, out);
    gsp_buf_puts(out, "<button id=\"theme\" type=\"button\">dark / light</button>\n"
                      "<div id=\"tip\"></div>\n</main>\n"
                      "<script id=\"data\" type=\"application/json\">");
    put_data(scene, out);
    gsp_buf_printf(out, "</script>\n<script>\n%s</script>\n</body>\n</html>\n",
                   gsp_export__plot_js);
}
