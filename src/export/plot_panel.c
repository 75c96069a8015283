/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "export/plot_scene.h"

#define LEFT         92.0F
#define RIGHT        26.0F
#define TITLE_HEIGHT 24.0F
#define PANEL_HEIGHT 140.0F
#define FOOT         42.0F /* time labels and a margin */
#define LEGEND_MARK  10.0F
#define LEGEND_GAP   16.0F
#define LABEL_MAX    40U
#define COLUMNS_MAX  1000U
#define HEAT_COLUMNS 540U
#define HEAT_HEIGHT  220.0F
#define HEAT_ROW_MIN 5.0F
#define HEAT_ROW_MAX 24.0F
#define GAP_PERIODS  3

/* The bins of a series, merged into columns of pixels. */
struct columns {
    struct gsp_session_bin at[COLUMNS_MAX];
    size_t count;
    double width_ns;
};

static void make_columns(const struct gsp_session_data *data,
                         const struct gsp_session_series *series, size_t most, struct columns *out)
{
    size_t bins = (size_t)((data->last_ns - data->first_ns) / data->bin_ns) + 1;
    bins = bins < GSP_SESSION_BINS ? bins : GSP_SESSION_BINS;
    memset(out, 0, sizeof(*out));
    out->count = bins < most ? bins : most;
    out->width_ns = (double)data->bin_ns * (double)bins / (double)out->count;
    for (size_t i = 0; i < bins; i++) {
        struct gsp_session_bin *into = &out->at[i * out->count / bins];
        const struct gsp_session_bin *bin = &series->bins[i];
        if (!bin->count)
            continue;
        into->min = !into->count || bin->min < into->min ? bin->min : into->min;
        into->max = !into->count || bin->max > into->max ? bin->max : into->max;
        into->sum += bin->sum;
        into->count += bin->count;
    }
}

/* A longer time without a value is a gap, and interrupts the line. */
static double gap_ns(const struct gsp_session_data *data, const struct columns *columns)
{
    double period = data->frequency_ms * (double)GSP_NS_PER_MS;
    if (!isfinite(period) || period <= 0 || period > 1e15)
        period = data->frames > 1
                     ? (double)(data->last_ns - data->first_ns) / (double)(data->frames - 1)
                     : 0;
    return period * GAP_PERIODS + 2 * columns->width_ns;
}

static float x_of(const struct plot_scene *scene, const struct plot_panel *panel, double since_ns)
{
    double share = since_ns / (double)(scene->to_ns - scene->from_ns);
    return panel->x + (float)share * panel->w;
}

static float y_of(const struct plot_panel *panel, double v)
{
    double share = (v - panel->low) / (panel->high - panel->low);
    return panel->y + panel->h - (float)share * panel->h;
}

/* Draws columns without a gap: the band of extremes, then the line of means. */
static void put_stretch(struct plot_scene *scene, const struct plot_panel *panel,
                        const struct plot_line *line, const struct plot_column *at, size_t count)
{
    struct plot_item band = {.kind = PLOT_BAND,
                             .color = line->color,
                             .first = PLOT_COUNT(scene->points, struct plot_point),
                             .count = count};
    bool has_width = false;
    for (size_t i = 0; i < count; i++)
        has_width = has_width || at[i].max > at[i].min;
    for (size_t i = 0; has_width && i < 2 * count; i++) {
        const struct plot_column *column = &at[i % count];
        struct plot_point p = {column->x,
                               y_of(panel, (double)(i < count ? column->max : column->min))};
        gsp_buf_put(&scene->points, &p, sizeof(p));
    }
    if (has_width)
        gsp_buf_put(&scene->items, &band, sizeof(band));
    struct plot_item path = {.kind = PLOT_PATH,
                             .color = line->color,
                             .text = line->label,
                             .first = PLOT_COUNT(scene->points, struct plot_point),
                             .count = count};
    for (size_t i = 0; i < count; i++) {
        struct plot_point p = {at[i].x, y_of(panel, (double)at[i].mean)};
        gsp_buf_put(&scene->points, &p, sizeof(p));
    }
    /* A single value is a dot. */
    if (count == 1) {
        struct plot_point p = {at[0].x + 1.5F, y_of(panel, (double)at[0].mean)};
        gsp_buf_put(&scene->points, &p, sizeof(p));
        path.count = 2;
    }
    gsp_buf_put(&scene->items, &path, sizeof(path));
}

static void put_line(struct plot_scene *scene, const struct gsp_session_data *data,
                     const struct plot_panel *panel, const struct gsp_session_series *series,
                     struct plot_line *line)
{
    struct columns *columns = malloc(sizeof(*columns));
    struct plot_column *stretch = calloc(COLUMNS_MAX, sizeof(*stretch));
    size_t count = 0;
    size_t last = 0;
    line->first = PLOT_COUNT(scene->columns, struct plot_column);
    if (!columns || !stretch) {
        scene->items.failed = true;
        free(columns);
        free(stretch);
        return;
    }
    make_columns(data, series, COLUMNS_MAX, columns);
    double gap = gap_ns(data, columns);
    for (size_t i = 0; i < columns->count; i++) {
        const struct gsp_session_bin *bin = &columns->at[i];
        if (!bin->count)
            continue;
        if (count && (double)(i - last) * columns->width_ns > gap) {
            put_stretch(scene, panel, line, stretch, count);
            count = 0;
        }
        last = i;
        stretch[count] = (struct plot_column){x_of(scene, panel, (double)i * columns->width_ns),
                                              bin->min, (float)(bin->sum / bin->count), bin->max};
        gsp_buf_put(&scene->columns, &stretch[count], sizeof(stretch[count]));
        count++;
    }
    if (count)
        put_stretch(scene, panel, line, stretch, count);
    line->count = PLOT_COUNT(scene->columns, struct plot_column) - line->first;
    free(columns);
    free(stretch);
}

static void make_label(const struct plot_pick *pick, char *out, size_t cap)
{
    const char *device = pick->series->device;
    size_t len = strlen(device);
    bool is_cut = len > LABEL_MAX;
    snprintf(out, cap, "%.*s%s%s%s", (int)LABEL_MAX, device, is_cut ? "..." : "",
             device[0] && pick->column[0] ? " " : "", pick->column);
}

/* Writes the names of the lines beside the title, in several rows if needed. Returns the height of
 * the additional rows. */
static float put_legend(struct plot_scene *scene, const struct plot_spec *spec, float x, float y)
{
    float at = x;
    float row = y;
    for (size_t i = 0; i < spec->count; i++) {
        char label[160];
        make_label(&spec->picks[i], label, sizeof(label));
        if (!label[0])
            continue;
        float width = LEGEND_MARK + 6 + gsp_export__plot_text_width(label, PLOT_TEXT_SIZE);
        if (at > x && at + width > PLOT_WIDTH - RIGHT) {
            at = x;
            row += 18;
        }
        gsp_export__plot_rect_draw(scene, PLOT_LINE + i % PLOT_COLORS, at, row - LEGEND_MARK + 1,
                                   LEGEND_MARK, LEGEND_MARK);
        gsp_export__plot_text_draw(scene, PLOT_TEXT, (struct plot_point){at + LEGEND_MARK + 5, row},
                                   -1, PLOT_TEXT_SIZE, label);
        at += width + LEGEND_GAP;
    }
    if (spec->left_out) {
        char text[48];
        snprintf(text, sizeof(text), "and %zu more", spec->left_out);
        gsp_export__plot_text_draw(scene, PLOT_FAINT, (struct plot_point){at, row}, -1,
                                   PLOT_TEXT_SIZE, text);
    }
    return row - y;
}

static void find_extremes(const struct plot_spec *spec, struct plot_panel *panel)
{
    panel->low = (double)INFINITY;
    panel->high = -(double)INFINITY;
    for (size_t i = 0; i < spec->count; i++) {
        panel->low = fmin(panel->low, spec->picks[i].series->min);
        panel->high = fmax(panel->high, spec->picks[i].series->max);
    }
}

void gsp_export__plot_panel_draw(struct plot_scene *scene, const struct gsp_session_data *data,
                                 const struct plot_spec *spec)
{
    struct plot_panel panel = {.x = LEFT,
                               .w = PLOT_WIDTH - LEFT - RIGHT,
                               .h = PANEL_HEIGHT,
                               .unit = gsp_export__plot_text_add(scene, spec->unit),
                               .first_line = PLOT_COUNT(scene->lines, struct plot_line),
                               .line_count = spec->count};
    float title_y = scene->height + 14;
    gsp_export__plot_text_draw(scene, PLOT_TEXT, (struct plot_point){LEFT, title_y}, -1,
                               PLOT_TITLE_SIZE, spec->title);
    float legend_x = LEFT + gsp_export__plot_text_width(spec->title, PLOT_TITLE_SIZE) + 24;
    panel.y = scene->height + TITLE_HEIGHT + put_legend(scene, spec, legend_x, title_y);
    gsp_export__plot_rect_draw(scene, PLOT_PANEL, panel.x, panel.y, panel.w, panel.h);
    find_extremes(spec, &panel);
    gsp_export__plot_value_axis_draw(scene, &panel, spec->unit);
    gsp_export__plot_time_axis_draw(scene, &panel);
    for (size_t i = 0; i < spec->count; i++) {
        char label[160];
        make_label(&spec->picks[i], label, sizeof(label));
        struct plot_line line = {
            .label = gsp_export__plot_text_add(scene, label[0] ? label : spec->title),
            .color = PLOT_LINE + i % PLOT_COLORS};
        put_line(scene, data, &panel, spec->picks[i].series, &line);
        gsp_buf_put(&scene->lines, &line, sizeof(line));
    }
    gsp_buf_put(&scene->panels, &panel, sizeof(panel));
    scene->height = panel.y + panel.h + FOOT;
}

/* Draws one row of the heat map. Neighbours of the same colour share a rectangle. */
static void put_heat_row(struct plot_scene *scene, const struct plot_panel *row,
                         const struct columns *columns, double top, double gap)
{
    size_t start = 0;
    int step = -1;
    int64_t seen = -1; /* the last column with a value */
    for (size_t i = 0; i <= columns->count; i++) {
        int now = -1;
        if (i < columns->count && columns->at[i].count) {
            double mean = columns->at[i].sum / columns->at[i].count;
            double share = top > 0 ? mean / top : 0;
            now = (int)(fmin(fmax(share, 0), 1) * (double)(PLOT_HEATS - 1) + 0.5);
            seen = (int64_t)i;
        } else if (i < columns->count && seen >= 0 &&
                   (double)((int64_t)i - seen) * columns->width_ns <= gap) {
            now = step; /* between two metric frames, not a gap */
        }
        if (now == step && i < columns->count)
            continue;
        float x = x_of(scene, row, (double)start * columns->width_ns);
        float end = fminf(x_of(scene, row, (double)i * columns->width_ns), row->x + row->w);
        if (step >= 0 && end > x)
            gsp_export__plot_rect_draw(scene, PLOT_HEAT + (size_t)step, x, row->y, end - x, row->h);
        start = i;
        step = now;
    }
}

void gsp_export__plot_heat_map_draw(struct plot_scene *scene, const struct gsp_session_data *data,
                                    const struct plot_spec *spec)
{
    struct columns *columns = malloc(sizeof(*columns));
    if (!columns) {
        scene->items.failed = true;
        return;
    }
    float row_height = fminf(fmaxf(HEAT_HEIGHT / (float)spec->count, HEAT_ROW_MIN), HEAT_ROW_MAX);
    struct plot_panel panel = {.x = LEFT,
                               .y = scene->height + TITLE_HEIGHT,
                               .w = PLOT_WIDTH - LEFT - RIGHT,
                               .h = row_height * (float)spec->count};
    gsp_export__plot_text_draw(scene, PLOT_TEXT, (struct plot_point){LEFT, scene->height + 14}, -1,
                               PLOT_TITLE_SIZE, spec->title);
    gsp_export__plot_rect_draw(scene, PLOT_PANEL, panel.x, panel.y, panel.w, panel.h);
    find_extremes(spec, &panel);
    double top = panel.high <= 100.5 && strcmp(spec->unit, "%") == 0 ? 100 : panel.high;
    gsp_export__plot_time_axis_draw(scene, &panel);
    size_t every = (size_t)ceilf(PLOT_TEXT_SIZE / row_height);
    for (size_t i = 0; i < spec->count; i++) {
        struct plot_panel row = panel;
        row.y = panel.y + (float)i * row_height;
        row.h = row_height - (row_height > 8 ? 1 : 0);
        make_columns(data, spec->picks[i].series, HEAT_COLUMNS, columns);
        put_heat_row(scene, &row, columns, top, gap_ns(data, columns));
        char label[16];
        snprintf(label, sizeof(label), "%.12s", spec->picks[i].series->device);
        if (i % every == 0)
            gsp_export__plot_text_draw(scene, PLOT_FAINT,
                                       (struct plot_point){panel.x - 8, row.y + row_height / 2 + 4},
                                       1, PLOT_TEXT_SIZE, label);
    }
    /* The colour scale. */
    char text[48];
    float x = PLOT_WIDTH - RIGHT - 60 - (float)PLOT_HEATS * 8;
    float y = scene->height + 6;
    gsp_export__plot_text_draw(scene, PLOT_FAINT, (struct plot_point){x - 6, y + 8}, 1,
                               PLOT_TEXT_SIZE, "0");
    for (size_t i = 0; i < PLOT_HEATS; i++)
        gsp_export__plot_rect_draw(scene, PLOT_HEAT + i, x + (float)i * 8, y, 8, 10);
    gsp_export__plot_value_format(top, spec->unit, text, sizeof(text));
    gsp_export__plot_text_draw(scene, PLOT_FAINT,
                               (struct plot_point){x + (float)PLOT_HEATS * 8 + 6, y + 8}, -1,
                               PLOT_TEXT_SIZE, text);
    scene->height = panel.y + panel.h + FOOT;
    free(columns);
}
