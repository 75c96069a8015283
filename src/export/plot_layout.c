/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "export/plot_scene.h"

#define METRICS_MAX 3U  /* per panel */
#define LINES_MAX   12U /* per panel; more cannot be distinguished */
#define ROWS_MAX    256U
#define PANELS_MAX  24U
#define HEAD        66.0F
#define HEAD_LEFT   24.0F

/* The panels that are drawn by default, in this order. */
static const struct default_panel {
    const char *title;
    const char *unit;
    struct {
        const char *metric;
        const char *column; /* label of the metric if the panel has several; otherwise "" */
    } of[METRICS_MAX];
} DEFAULT_PANELS[] = {
    {"GPU utilisation", "%", {{"gpu_util", ""}}},
    {"GPU memory", "%", {{"gpu_memory", ""}}},
    {"GPU power", "W", {{"gpu.power_watts", ""}}},
    {"GPU temperature", "C", {{"gpu.temperature_c", ""}}},
    {"PCIe", "bytes/s", {{"gpu.pcie_rx_bytes_per_s", "rx"}, {"gpu.pcie_tx_bytes_per_s", "tx"}}},
    {"NVLink",
     "bytes/s",
     {{"gpu.nvlink_rx_bytes_per_s", "rx"}, {"gpu.nvlink_tx_bytes_per_s", "tx"}}},
    {"CPU",
     "%",
     {{"cpu.util_percent", "all"},
      {"cpu.system_percent", "kernel"},
      {"cpu.iowait_percent", "I/O wait"}}},
    {"Memory", "%", {{"memory.used_percent", ""}}},
    {"Disks",
     "bytes/s",
     {{"disk.read_bytes_per_s", "read"}, {"disk.write_bytes_per_s", "written"}}},
    {"Network", "bytes/s", {{"network.rx_bytes_per_s", "rx"}, {"network.tx_bytes_per_s", "tx"}}},
    {"Pressure: some task waited", "%", {{"pressure.some_percent", ""}}},
    {"Power", "W", {{"energy.watts", ""}}},
    {"CPU of processes (100 % is one core)", "%", {{"processes.cpu_percent", ""}}},
    {"Memory of processes", "bytes", {{"processes.rss_bytes", ""}}},
};

#define HEAT_GPUS  "gpu_util"
#define HEAT_CORES "cpu.cores"

bool gsp_export_plot_needs_metric(void *ctx, const char *metric)
{
    const struct gsp_plot *plot = ctx;
    if (plot->metrics)
        return gsp_export_plot_matches(plot->metrics, metric);
    for (size_t i = 0; i < GSP_COUNT(DEFAULT_PANELS); i++) {
        for (size_t k = 0; k < METRICS_MAX && DEFAULT_PANELS[i].of[k].metric; k++)
            if (strcmp(DEFAULT_PANELS[i].of[k].metric, metric) == 0)
                return true;
    }
    return strcmp(metric, HEAT_CORES) == 0;
}

/* Descending by mean. */
static int compare(const void *a, const void *b)
{
    const struct plot_pick *x = a;
    const struct plot_pick *y = b;
    if (x->series->mean != y->series->mean)
        return x->series->mean > y->series->mean ? -1 : 1;
    /* Series are in one array, in file order. */
    return x->series < y->series ? -1 : x->series > y->series;
}

struct picks {
    struct plot_pick at[ROWS_MAX];
    size_t count;
    size_t left_out;
};

static void pick(const struct gsp_session_data *data, const char *metric, const char *column,
                 struct picks *picks)
{
    for (size_t i = 0; i < data->series_count; i++) {
        const struct gsp_session_series *series = &data->series[i];
        if (!series->bins || !series->count || strcmp(series->metric, metric) != 0)
            continue;
        if (picks->count < ROWS_MAX)
            picks->at[picks->count++] = (struct plot_pick){series, column};
        else
            picks->left_out++;
    }
}

/* Draws all lines in file order, or the ones with the largest mean if they are too many. */
static void draw_lines(struct plot_scene *scene, const struct gsp_session_data *data,
                       struct plot_spec *spec, struct picks *picks)
{
    if (!picks->count)
        return;
    if (picks->count > LINES_MAX) {
        qsort(picks->at, picks->count, sizeof(picks->at[0]), compare);
        picks->left_out += picks->count - LINES_MAX;
        picks->count = LINES_MAX;
    }
    spec->picks = picks->at;
    spec->count = picks->count;
    spec->left_out = picks->left_out;
    gsp_export__plot_panel_draw(scene, data, spec);
}

static void draw_default_panels(struct plot_scene *scene, const struct gsp_session_data *data,
                                struct picks *picks)
{
    for (size_t i = 0; i < GSP_COUNT(DEFAULT_PANELS); i++) {
        struct plot_spec spec = {.title = DEFAULT_PANELS[i].title, .unit = DEFAULT_PANELS[i].unit};
        picks->count = 0;
        picks->left_out = 0;
        for (size_t k = 0; k < METRICS_MAX && DEFAULT_PANELS[i].of[k].metric; k++)
            pick(data, DEFAULT_PANELS[i].of[k].metric, DEFAULT_PANELS[i].of[k].column, picks);
        /* Files of other tools may use fractions from 0 to 1. */
        if (!data->has_format && strcmp(spec.unit, "%") == 0)
            spec.unit = "";
        draw_lines(scene, data, &spec, picks);
    }
}

const char *gsp_export_plot_unit(const char *metric)
{
    static const struct {
        const char *end;
        const char *unit;
    } UNITS[] = {{"_percent", "%"},     {"_bytes_per_s", "bytes/s"},
                 {"_bytes", "bytes"},   {"_per_s", "1/s"},
                 {"watts", "W"},        {"_mhz", "MHz"},
                 {"_c", "C"},           {"joules", "J"},
                 {"_s", "s"},           {"gpu_util", "%"},
                 {"gpu_memory", "%"},   {"dram_util", "%"},
                 {"disk_util", "%"},    {"cpu.cores", "%"},
                 {"bandwidth", "GB/s"}, {"_grams", "g"}};
    for (size_t i = 0; i < GSP_COUNT(UNITS); i++)
        if (gsp_sv_ends(gsp_sv_of(metric), UNITS[i].end))
            return UNITS[i].unit;
    return "";
}

/* One panel per metric that the user selected. */
static void draw_selected_panels(struct plot_scene *scene, const struct gsp_session_data *data,
                                 const char *words, struct picks *picks)
{
    size_t panels = 0;
    for (size_t i = 0; i < data->series_count && panels < PANELS_MAX; i++) {
        const char *metric = data->series[i].metric;
        size_t first = 0;
        while (strcmp(data->series[first].metric, metric) != 0)
            first++;
        if (first != i || !data->series[i].bins || !gsp_export_plot_matches(words, metric))
            continue;
        struct plot_spec spec = {.title = metric,
                                 .unit = data->has_format ? gsp_export_plot_unit(metric) : ""};
        picks->count = 0;
        picks->left_out = 0;
        pick(data, metric, "", picks);
        panels += picks->count > 0;
        draw_lines(scene, data, &spec, picks);
    }
}

static void draw_heat(struct plot_scene *scene, const struct gsp_session_data *data,
                      struct picks *picks)
{
    const char *title = "GPU utilisation, each GPU over time";
    picks->count = 0;
    pick(data, HEAT_GPUS, "", picks);
    if (!picks->count) {
        title = "CPU utilisation, each core over time";
        pick(data, HEAT_CORES, "", picks);
    }
    if (!picks->count)
        return;
    const struct plot_spec spec = {.title = title,
                                   .unit = data->has_format ? "%" : "",
                                   .picks = picks->at,
                                   .count = picks->count};
    gsp_export__plot_heat_map_draw(scene, data, &spec);
}

static void put_time(int64_t ns, int32_t zone_s, char *out, size_t cap)
{
    time_t s = (time_t)(ns / GSP_NS_PER_S + zone_s);
    struct tm tm = {0};
    out[0] = '\0';
    if (gmtime_r(&s, &tm))
        strftime(out, cap, "%Y-%m-%d %H:%M:%S", &tm);
}

static void draw_head(struct plot_scene *scene, const struct gsp_session_data *data)
{
    char from[32];
    char to[32];
    char zone[16] = "";
    char length[32];
    gsp_auto_buf text = {0};
    put_time(data->first_ns, data->zone_s, from, sizeof(from));
    put_time(data->last_ns, data->zone_s, to, sizeof(to));
    int minutes = abs((int)data->zone_s) / 60;
    if (data->has_zone)
        snprintf(zone, sizeof(zone), " UTC%c%02d:%02d", data->zone_s < 0 ? '-' : '+', minutes / 60,
                 minutes % 60);
    gsp_export__plot_text_draw(scene, PLOT_TEXT, (struct plot_point){HEAD_LEFT, 30}, -1, 20,
                               data->name[0] ? data->name : "session");
    if (data->host[0])
        gsp_buf_printf(&text, "%.80s, ", data->host);
    gsp_buf_printf(&text, "%s to %s%s, %s, %llu frames", from, to, zone,
                   gsp_fmt_duration(data->last_ns - data->first_ns, length, sizeof(length)),
                   (unsigned long long)data->frames);
    const char *line = gsp_buf_cstr(&text);
    gsp_export__plot_text_draw(scene, PLOT_FAINT, (struct plot_point){HEAD_LEFT, 50}, -1,
                               PLOT_TEXT_SIZE, line ? line : "");
    scene->height = HEAD;
}

int gsp_export__plot_layout(const struct gsp_plot *plot, const struct gsp_session_data *data,
                            struct plot_scene *scene, struct gsp_err *err)
{
    if (!data->bin_ns)
        return gsp_err_set(err, GSP_E_EMPTY, 0, "nothing to draw: no frame has a time");
    struct picks *picks = calloc(1, sizeof(*picks));
    if (!picks)
        return gsp_err_nomem(err);
    scene->from_ns = data->first_ns;
    scene->to_ns = data->last_ns > data->first_ns ? data->last_ns : data->first_ns + GSP_NS_PER_MS;
    scene->zone_s = data->zone_s;
    gsp_export__plot_text_add(scene, "");
    draw_head(scene, data);
    float empty = scene->height;
    if (plot->metrics)
        draw_selected_panels(scene, data, plot->metrics, picks);
    else
        draw_default_panels(scene, data, picks);
    draw_heat(scene, data, picks);
    free(picks);
    if (gsp_export__plot_scene_failed(scene))
        return gsp_err_nomem(err);
    if (scene->height == empty)
        return gsp_err_set(err, GSP_E_EMPTY, 0,
                           plot->metrics ? "nothing to draw: no metric matches"
                                         : "nothing to draw: no known metric has values");
    return GSP_OK;
}
