/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot_scene.h -- a picture as a list of shapes, and panels with their numbers: what the layout
 * makes and each writer draws.
 *
 * Used by: the files of export/plot alone.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "export/plot.h"

#define PLOT_WIDTH   1200.0F
#define PLOT_COLORS  10U /* of lines */
#define PLOT_HEATS   16U /* steps of the map */
#define PLOT_TITLE   15.0F
#define PLOT_LETTERS 12.0F

/* What a colour is for; writers know how it looks. */
enum plot_color {
    PLOT_BACK,
    PLOT_PANEL,
    PLOT_GRID,
    PLOT_TEXT,
    PLOT_FAINT,
    PLOT_LINE,                           /* + the number of the line */
    PLOT_HEAT = PLOT_LINE + PLOT_COLORS, /* + the step */
    PLOT_COLOR_COUNT = PLOT_HEAT + PLOT_HEATS,
};

enum plot_kind { PLOT_RECT, PLOT_PATH, PLOT_BAND, PLOT_WORDS };

struct plot_point {
    float x;
    float y;
};

/* RECT: x, y, w, h.  PATH: points [first, first + count).  BAND: the same, upper then lower edge,
 * both from left to right, count points each.  WORDS: text at x, y (baseline); anchor -1: begins
 * there, 0: middle, 1: ends there; h: size. */
struct plot_item {
    enum plot_kind kind;
    int anchor;
    float x, y, w, h;
    size_t first;
    size_t count;
    size_t text;  /* offset into texts; also what a PATH is called */
    size_t color; /* enum plot_color and more */
};

/* One column of a line: what the pointer is told. */
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

void gsp_plot__scene_free(struct plot_scene *scene);
bool gsp_plot__scene_failed(const struct plot_scene *scene);
size_t gsp_plot__text(struct plot_scene *scene, const char *text);
const char *gsp_plot__text_at(const struct plot_scene *scene, size_t at);
void gsp_plot__rect(struct plot_scene *scene, size_t color, float x, float y, float w, float h);
void gsp_plot__words(struct plot_scene *scene, size_t color, struct plot_point at, int anchor,
                     float size, const char *text);

/* Number of elements, and the i-th one, of a buffer of structs. */
#define PLOT_COUNT(buf, type) ((buf).len / sizeof(type))
#define PLOT_AT(buf, type, i) (&((const type *)(const void *)(buf).p)[i])

/* The layout: plot_layout.c.  Fails with EMPTY, NOMEM. */
GSP_MUST_CHECK int gsp_plot__layout(const struct gsp_plot *plot,
                                    const struct gsp_session_data *data, struct plot_scene *scene,
                                    struct gsp_err *err);
/* One panel of lines, or of a map, at the scene's present foot: plot_panel.c. */
struct plot_pick {
    const struct gsp_series *series;
    const char *column; /* which of the panel's metrics, when it has several; or "" */
};
struct plot_spec {
    const char *title;
    const char *unit; /* "%", "bytes", "bytes/s", "W", "" */
    const struct plot_pick *picks;
    size_t count;
    size_t left_out; /* lines that there was no room for */
};
void gsp_plot__panel(struct plot_scene *scene, const struct gsp_session_data *data,
                     const struct plot_spec *spec);
void gsp_plot__heat(struct plot_scene *scene, const struct gsp_session_data *data,
                    const struct plot_spec *spec);
/* Ticks of time below a panel, and their lines in it: plot_axis.c. */
void gsp_plot__time_axis(struct plot_scene *scene, const struct plot_panel *panel);
/* Picks a top for the axis and draws its lines and numbers. */
void gsp_plot__value_axis(struct plot_scene *scene, struct plot_panel *panel, const char *unit);
/* "1.5 GB/s"; out has at least 32 bytes. */
void gsp_plot__value(double v, const char *unit, char *out, size_t cap);

/* Writers. */
void gsp_plot__svg(const struct plot_scene *scene, struct gsp_buf *out);
void gsp_plot__html(const struct plot_scene *scene, const char *title, struct gsp_buf *out);
GSP_MUST_CHECK int gsp_plot__png(const struct plot_scene *scene, struct gsp_buf *out,
                                 struct gsp_err *err);

/* The strokes of a character, as pairs of x (0 to 6) and y (0: top of capitals, 9: baseline, up
 * to c) between blanks; and how far the next one is, in the same units. */
const char *gsp_plot__glyph(char c, float *advance);
/* Width of a text of this size, about. */
float gsp_plot__text_width(const char *text, float size);
#define PLOT_GLYPH_UNITS 13.0F /* of a size of 1 */
