/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot_scene.h -- a picture as a list of shapes, and the data of its panels. The layout creates
 * it; a writer for each format draws it.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "export/plot.h"

#define PLOT_WIDTH      1200.0F
#define PLOT_COLORS     10U /* of lines */
#define PLOT_HEATS      16U /* colours of the heat map */
#define PLOT_TITLE_SIZE 15.0F
#define PLOT_TEXT_SIZE  12.0F

/* The purpose of a colour; the writers choose its value. */
enum plot_color {
    PLOT_BACK,
    PLOT_PANEL,
    PLOT_GRID,
    PLOT_TEXT,
    PLOT_FAINT,
    PLOT_LINE,                           /* plus the number of the line */
    PLOT_HEAT = PLOT_LINE + PLOT_COLORS, /* plus the level */
    PLOT_COLOR_COUNT = PLOT_HEAT + PLOT_HEATS,
};

enum plot_kind { PLOT_RECT, PLOT_PATH, PLOT_BAND, PLOT_LABEL };

struct plot_point {
    float x;
    float y;
};

/* RECT: x, y, w, h. PATH: points [first, first + count). BAND: the upper edge, then the lower edge,
 * each of count points from left to right. WORDS: text of size h with its baseline at y; it begins
 * at x (anchor -1), is centred there (0) or ends there (1). */
struct plot_item {
    enum plot_kind kind;
    int anchor;
    float x, y, w, h;
    size_t first;
    size_t count;
    size_t text;  /* offset into texts; for a PATH, its name */
    size_t color; /* enum plot_color, plus a number */
};

/* One column of a line: the values shown under the pointer. */
struct plot_column {
    float x;
    float min, mean, max;
};

struct plot_line {
    size_t label; /* offset into texts */
    size_t first; /* of its columns */
    size_t count;
    size_t color;
};

struct plot_panel {
    float x, y, w, h;
    double low, high; /* of the axis */
    size_t unit;      /* offset into texts */
    size_t first_line;
    size_t line_count;
};

struct plot_scene {
    float height;
    int64_t from_ns; /* at the left edge of panels */
    int64_t to_ns;
    int32_t zone_s;
    struct gsp_buf items;   /* struct plot_item */
    struct gsp_buf points;  /* struct plot_point */
    struct gsp_buf columns; /* struct plot_column */
    struct gsp_buf lines;   /* struct plot_line */
    struct gsp_buf panels;  /* struct plot_panel */
    struct gsp_buf texts;   /* NUL after each; offset 0 is "" */
};

void gsp_export__plot_scene_free(struct plot_scene *scene);
bool gsp_export__plot_scene_failed(const struct plot_scene *scene);
size_t gsp_export__plot_text_add(struct plot_scene *scene, const char *text);
const char *gsp_export__plot_text_at(const struct plot_scene *scene, size_t at);
void gsp_export__plot_rect_draw(struct plot_scene *scene, size_t color, float x, float y, float w,
                                float h);
void gsp_export__plot_text_draw(struct plot_scene *scene, size_t color, struct plot_point at,
                                int anchor, float size, const char *text);

/* Number of elements, and the i-th one, of a buffer of structs. */
#define PLOT_COUNT(buf, type) ((buf).len / sizeof(type))
#define PLOT_AT(buf, type, i) (&((const type *)(const void *)(buf).p)[i])

/* Fills an empty scene. Fails with EMPTY or NOMEM. */
GSP_MUST_CHECK int gsp_export__plot_layout(const struct gsp_plot *plot,
                                           const struct gsp_session_data *data,
                                           struct plot_scene *scene, struct gsp_err *err);
/* Append a panel of lines, or a heat map, below the last panel. */
struct plot_pick {
    const struct gsp_session_series *series;
    const char *column; /* label of the metric if the panel has several; otherwise "" */
};
struct plot_spec {
    const char *title;
    const char *unit; /* "%", "bytes", "bytes/s", "W", "" */
    const struct plot_pick *picks;
    size_t count;
    size_t left_out; /* number of lines that are not drawn */
};
void gsp_export__plot_panel_draw(struct plot_scene *scene, const struct gsp_session_data *data,
                                 const struct plot_spec *spec);
void gsp_export__plot_heat_map_draw(struct plot_scene *scene, const struct gsp_session_data *data,
                                    const struct plot_spec *spec);
/* Draws the time labels below a panel and their grid lines. */
void gsp_export__plot_time_axis_draw(struct plot_scene *scene, const struct plot_panel *panel);
/* Chooses the panel's range of values and draws its labels and grid lines. */
void gsp_export__plot_value_axis_draw(struct plot_scene *scene, struct plot_panel *panel,
                                      const char *unit);
/* Formats a value: "1.5 GB/s". out has at least 32 bytes. */
void gsp_export__plot_value_format(double v, const char *unit, char *out, size_t cap);

/* Writers. */
void gsp_export__plot_svg_write(const struct plot_scene *scene, struct gsp_buf *out);
void gsp_export__plot_html_write(const struct plot_scene *scene, const char *title,
                                 struct gsp_buf *out);
GSP_MUST_CHECK int gsp_export__plot_png_write(const struct plot_scene *scene, struct gsp_buf *out,
                                              struct gsp_err *err);

/* Returns the strokes of a character, separated by spaces. A stroke is a list of points, each a
 * digit for x (0 to 6) and one for y (0: top of capitals, 9: baseline, c: lowest). *advance is the
 * distance to the next character in the same units. */
const char *gsp_export__plot_glyph(char c, float *advance);
/* Returns the approximate width of a text. */
float gsp_export__plot_text_width(const char *text, float size);
#define PLOT_GLYPH_UNITS 13.0F /* units of a glyph per text size */
