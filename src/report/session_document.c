/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "export/format.h"
#include "export/plot.h"
#include "frames/session_read.h"
#include "report/document_internal.h"

/* Session metrics that correspond to a chart of a run; several may share a chart. */
static const struct {
    const char *metric;
    const char *chart;
    const char *prefix; /* before the name of the device; suffix: after it */
    const char *suffix;
} KNOWN[] = {
    {"processes.cpu_percent", "cpu", "process ", ""},
    {"processes.rss_bytes", "rss", "process ", ""},
    {"gpu_util", "gpu_util", "", ""},
    {"gpu.memory_used_bytes", "gpu_memory", "", ""},
    {"gpu.power_watts", "gpu_power", "", ""},
    {"gpu.temperature_c", "gpu_temperature", "", ""},
    {"cpu.util_percent", "machine_cpu", "", ""},
    {"memory.used_bytes", "machine_memory", "", ""},
    {"disk.read_bytes_per_s", "disk", "", " read"},
    {"disk.write_bytes_per_s", "disk", "", " written"},
    {"network.rx_bytes_per_s", "network", "", " received"},
    {"network.tx_bytes_per_s", "network", "", " sent"},
    {"energy.watts", "power", "", ""},
};

static bool select_all(void *ctx, const char *metric)
{
    (void)ctx;
    (void)metric;
    return true;
}

static struct gsp_report_chart *chart_of(struct gsp_report *report, const char *id)
{
    for (size_t i = 0; i < report->chart_count; i++)
        if (gsp_sv_eq(report->charts[i].id, gsp_sv_of(id)))
            return &report->charts[i];
    struct gsp_report_chart *chart =
        gsp_report__chart_add(report, gsp_report__text_keep(report, gsp_sv_of(id)));
    if (chart)
        gsp_report__chart_describe(chart);
    return chart;
}

/* A bin of one value gives one point; a bin of several gives the lowest and the highest. */
static void add_bins(struct gsp_report *report, struct gsp_report_series *line,
                     const struct gsp_session_data *data, const struct gsp_session_series *series)
{
    const double width_s = (double)data->bin_ns / (double)GSP_NS_PER_S;
    for (size_t i = 0; i < GSP_SESSION_BINS; i++) {
        const struct gsp_session_bin *bin = &series->bins[i];
        const double t = (double)i * width_s;
        if (bin->count == 0)
            continue;
        if (bin->count == 1) {
            gsp_report__series_add_point(report, line, t, bin->sum);
            continue;
        }
        line->is_binned = true;
        gsp_report__series_add_point(report, line, t, (double)bin->min);
        gsp_report__series_add_point(report, line, t + width_s / 2, (double)bin->max);
    }
}

/* known: the row of KNOWN; past the end if the metric has none. */
static void add_line(struct gsp_report *report, struct gsp_report_chart *chart,
                     const struct gsp_session_data *data, const struct gsp_session_series *series,
                     size_t known)
{
    gsp_auto_buf name = {0};
    if (known < GSP_COUNT(KNOWN))
        gsp_buf_puts(&name, KNOWN[known].prefix);
    gsp_buf_puts(&name, series->device[0] ? series->device
                        : data->host[0]   ? data->host
                                          : "machine");
    if (known < GSP_COUNT(KNOWN))
        gsp_buf_puts(&name, KNOWN[known].suffix);
    struct gsp_report_series *line =
        gsp_report__series_add(report, chart, gsp_report__text_keep_buf(report, &name));
    if (!line)
        return;
    add_bins(report, line, data, series);
    line->stats = (struct gsp_report_stats){.count = series->count,
                                            .mean = series->mean,
                                            .std = gsp_frames_series_std(series),
                                            .min = series->min,
                                            .max = series->max};
}

static void add_known(struct gsp_report *report, const struct gsp_session_data *data)
{
    for (size_t k = 0; k < GSP_COUNT(KNOWN); k++) {
        for (size_t i = 0; i < data->series_count; i++) {
            const struct gsp_session_series *series = &data->series[i];
            if (!series->bins || series->count == 0 || strcmp(series->metric, KNOWN[k].metric) != 0)
                continue;
            struct gsp_report_chart *chart = chart_of(report, KNOWN[k].chart);
            if (chart)
                add_line(report, chart, data, series, k);
        }
    }
}

static bool is_known(const char *metric)
{
    for (size_t k = 0; k < GSP_COUNT(KNOWN); k++)
        if (strcmp(metric, KNOWN[k].metric) == 0)
            return true;
    return false;
}

static void add_others(struct gsp_report *report, const struct gsp_session_data *data)
{
    for (size_t i = 0; i < data->series_count; i++) {
        const struct gsp_session_series *series = &data->series[i];
        if (!series->bins || series->count == 0 || is_known(series->metric))
            continue;
        struct gsp_report_chart *chart = chart_of(report, series->metric);
        if (!chart)
            return;
        if (chart->series_count == 0 && data->has_format)
            chart->unit = gsp_sv_of(gsp_export_plot_unit(series->metric));
        add_line(report, chart, data, series, GSP_COUNT(KNOWN));
    }
}

/* Adds the members of an object that are positive numbers: {"frames_lost": 3}. */
static void add_losses(struct gsp_report *report, struct gsp_sv json)
{
    struct gsp_json_scan scan = {0};
    gsp_auto_buf name = {0};
    int rc = gsp_json_scan_open(&scan, gsp_json_scan_read_text, &json, NULL);
    while (rc == GSP_OK && gsp_json_scan_next(&scan, NULL) == GSP_OK &&
           scan.kind != GSP_JSON_SCAN_END) {
        if (scan.kind == GSP_JSON_SCAN_KEY) {
            gsp_buf_clear(&name);
            gsp_buf_putsv(&name, scan.text);
        } else if (scan.kind == GSP_JSON_SCAN_NUMBER && scan.number >= 1 && scan.number < 1e18) {
            for (size_t i = 0; i < name.len; i++)
                name.p[i] = name.p[i] == '_' ? ' ' : name.p[i];
            gsp_report__loss_add(report, gsp_report__text_keep_buf(report, &name), gsp_sv_of(""),
                                 (uint64_t)scan.number);
        }
    }
    gsp_json_scan_close(&scan);
}

/* Finds the first stack file in the metadata of the session: {"stacks": [{"file": "a.gsp"}]}. */
static bool find_stacks(struct gsp_sv json, struct gsp_buf *file)
{
    struct gsp_json_scan scan = {0};
    bool in_stacks = false;
    bool is_file = false;
    bool found = false;
    int rc = gsp_json_scan_open(&scan, gsp_json_scan_read_text, &json, NULL);
    while (rc == GSP_OK && !found && gsp_json_scan_next(&scan, NULL) == GSP_OK &&
           scan.kind != GSP_JSON_SCAN_END) {
        if (scan.kind == GSP_JSON_SCAN_KEY && scan.depth == 1)
            in_stacks = gsp_sv_eq(scan.text, gsp_sv_of("stacks"));
        found = in_stacks && is_file && scan.kind == GSP_JSON_SCAN_STRING && scan.text.len > 0 &&
                !memchr(scan.text.p, '/', scan.text.len) && !memchr(scan.text.p, 0, scan.text.len);
        if (found)
            gsp_buf_putsv(file, scan.text);
        is_file = scan.kind == GSP_JSON_SCAN_KEY && gsp_sv_eq(scan.text, gsp_sv_of("file"));
    }
    gsp_json_scan_close(&scan);
    return found;
}

/* Loads the stacks that were recorded with the session, from the same folder. Unreadable stacks are
 * a loss, not a failure. */
static void load_stacks(struct gsp_report *report, const char *path, struct gsp_sv metadata)
{
    gsp_auto_buf file = {0};
    gsp_auto_buf full = {0};
    struct gsp_err err = {0};
    if (!find_stacks(metadata, &file))
        return;
    const struct gsp_sv whole = gsp_sv_of(path);
    const struct gsp_sv base = gsp_sv_basename(whole);
    gsp_buf_put(&full, path, whole.len - base.len);
    gsp_buf_putsv(&full, gsp_buf_sv(&file));
    const char *name = gsp_buf_cstr(&full);
    if (!name) {
        report->no_memory = true;
        return;
    }
    if (gsp_export_format_load_member(name, true, &report->profile, &err) < 0)
        gsp_report__loss_add(report, gsp_sv_of("stacks"),
                             gsp_report__text_keep(report, gsp_sv_of(err.msg)), 1);
}

static void add_facts(struct gsp_report *report, const struct gsp_session_data *data)
{
    gsp_report__fact_add(report, gsp_sv_of("Frames"),
                         gsp_report__text_printf(report, "%llu", (unsigned long long)data->frames));
    if (!isnan(data->frequency_ms))
        gsp_report__fact_add(report, gsp_sv_of("Period"),
                             gsp_report__text_printf(report, "%.6g ms", data->frequency_ms));
    if (data->timeless)
        gsp_report__loss_add(report, gsp_sv_of("frames"), gsp_sv_of("unreadable time"),
                             data->timeless);
    gsp_report__loss_add(report, gsp_sv_of("values"), gsp_sv_of("too many metrics"),
                         data->series_lost);
}

static int open_file(const char *path, struct gsp_err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    const int code = errno == ENOENT ? GSP_E_NOFILE : GSP_E_IO;
    return gsp_err_set(err, code, errno, "cannot open %.180s: %s", path, strerror(errno));
}

int gsp_report__session_fill(struct gsp_report *report, const char *path, struct gsp_err *err)
{
    const struct gsp_session_read_options options = {.values = true, .bins = select_all};
    struct gsp_session_data *data = NULL;
    const int opened = open_file(path, err);
    if (opened < 0)
        return opened;
    gsp_auto_fd fd = opened;
    int rc = gsp_frames_session_read(gsp_json_scan_read_fd, &fd, &options, &data, err);
    if (rc < 0)
        return rc;
    if (data->name[0])
        report->name = gsp_report__text_keep(report, gsp_sv_of(data->name));
    report->host = gsp_report__text_keep(report, gsp_sv_of(data->host));
    report->start_ns = data->first_ns;
    report->duration_s = data->duration_s;
    if (isnan(report->duration_s) && data->last_ns > data->first_ns)
        report->duration_s = (double)(data->last_ns - data->first_ns) / (double)GSP_NS_PER_S;
    add_known(report, data);
    add_others(report, data);
    add_facts(report, data);
    report->has_losses = data->losses.len > 0;
    add_losses(report, gsp_buf_sv(&data->losses));
    load_stacks(report, path, gsp_buf_sv(&data->metadata));
    gsp_frames_session_data_free(data);
    return GSP_OK;
}
