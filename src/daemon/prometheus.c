/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "daemon/routes_internal.h"

#define LABELS_MAX 3

/* One column as a Prometheus metric: its name by the conventions of Prometheus (base units, unit
 * last, _total for counters), and the factor between the units. */
struct metric {
    const char *name;
    const char *type; /* "gauge", "counter" */
    const char *help;
    const char *column;
    const char *labels[LABELS_MAX]; /* columns that distinguish the rows */
    double scale;
    enum gsp_table_id table;
};

#define GAUGE(table, column, name, scale, help, ...)                                               \
    {                                                                                              \
        "gsprof_" name, "gauge", help, column, {__VA_ARGS__}, scale, GSP_TABLE_##table             \
    }
#define COUNTER(table, column, name, scale, help, ...)                                             \
    {                                                                                              \
        "gsprof_" name "_total", "counter", help, column, {__VA_ARGS__}, scale, GSP_TABLE_##table  \
    }

static const struct metric METRICS[] = {
    GAUGE(system_cpu, "util_percent", "cpu_usage_ratio", 0.01, "Share of time that was not idle.",
          "cpu"),
    GAUGE(system_cpu, "user_percent", "cpu_user_ratio", 0.01, "Share of time in user mode.", "cpu"),
    GAUGE(system_cpu, "system_percent", "cpu_system_ratio", 0.01, "Share of time in the kernel.",
          "cpu"),
    GAUGE(system_cpu, "iowait_percent", "cpu_iowait_ratio", 0.01,
          "Share of time idle with I/O in progress.", "cpu"),
    GAUGE(system_cpu, "steal_percent", "cpu_steal_ratio", 0.01,
          "Share of time taken by the hypervisor.", "cpu"),
    GAUGE(system_cpu, "freq_mhz", "cpu_frequency_hertz", 1e6, "Current frequency.", "cpu"),
    GAUGE(system_cpu, "load_1m", "load1", 1, "Run queue, one-minute mean.", NULL),
    GAUGE(system_memory, "total_bytes", "memory_total_bytes", 1, "Usable memory.", NULL),
    GAUGE(system_memory, "used_bytes", "memory_used_bytes", 1, "Memory in use.", NULL),
    GAUGE(system_memory, "available_bytes", "memory_available_bytes", 1,
          "Memory available to a new program.", NULL),
    GAUGE(system_memory, "cached_bytes", "memory_cached_bytes", 1, "Page cache and buffers.", NULL),
    GAUGE(system_memory, "swap_total_bytes", "swap_total_bytes", 1, "Swap space.", NULL),
    GAUGE(system_memory, "swap_used_bytes", "swap_used_bytes", 1, "Swap space in use.", NULL),
    GAUGE(system_disk, "read_bytes_per_s", "disk_read_bytes_per_second", 1, "Bytes read.",
          "device"),
    GAUGE(system_disk, "write_bytes_per_s", "disk_written_bytes_per_second", 1, "Bytes written.",
          "device"),
    GAUGE(system_disk, "reads_per_s", "disk_reads_per_second", 1, "Read requests.", "device"),
    GAUGE(system_disk, "writes_per_s", "disk_writes_per_second", 1, "Write requests.", "device"),
    GAUGE(system_disk, "util_percent", "disk_busy_ratio", 0.01,
          "Share of time with a request in progress.", "device"),
    GAUGE(system_network, "rx_bytes_per_s", "network_receive_bytes_per_second", 1,
          "Bytes received.", "device"),
    GAUGE(system_network, "tx_bytes_per_s", "network_transmit_bytes_per_second", 1, "Bytes sent.",
          "device"),
    GAUGE(system_network, "errors_per_s", "network_errors_per_second", 1, "Errors and drops.",
          "device"),
    GAUGE(system_pressure, "some_percent", "pressure_some_ratio", 0.01,
          "Share of time in which at least one task waited.", "resource"),
    GAUGE(system_pressure, "full_percent", "pressure_full_ratio", 0.01,
          "Share of time in which all tasks waited.", "resource"),
    GAUGE(gpu_metrics, "util_percent", "gpu_usage_ratio", 0.01,
          "Share of time with a kernel running.", "gpu"),
    GAUGE(gpu_metrics, "memory_util_percent", "gpu_memory_busy_ratio", 0.01,
          "Share of time with memory being read or written.", "gpu"),
    GAUGE(gpu_metrics, "memory_used_bytes", "gpu_memory_used_bytes", 1, "Device memory in use.",
          "gpu"),
    GAUGE(gpu_metrics, "memory_total_bytes", "gpu_memory_total_bytes", 1, "Device memory.", "gpu"),
    GAUGE(gpu_metrics, "power_watts", "gpu_power_watts", 1, "Power drawn.", "gpu"),
    GAUGE(gpu_metrics, "temperature_c", "gpu_temperature_celsius", 1, "Temperature of the chip.",
          "gpu"),
    GAUGE(gpu_metrics, "sm_clock_mhz", "gpu_sm_clock_hertz", 1e6, "Clock of the multiprocessors.",
          "gpu"),
    GAUGE(gpu_metrics, "memory_clock_mhz", "gpu_memory_clock_hertz", 1e6, "Clock of the memory.",
          "gpu"),
    GAUGE(gpu_metrics, "pcie_rx_bytes_per_s", "gpu_pcie_receive_bytes_per_second", 1,
          "Received over PCIe.", "gpu"),
    GAUGE(gpu_metrics, "pcie_tx_bytes_per_s", "gpu_pcie_transmit_bytes_per_second", 1,
          "Sent over PCIe.", "gpu"),
    GAUGE(gpu_metrics, "nvlink_rx_bytes_per_s", "gpu_nvlink_receive_bytes_per_second", 1,
          "Received over NVLink.", "gpu"),
    GAUGE(gpu_metrics, "nvlink_tx_bytes_per_s", "gpu_nvlink_transmit_bytes_per_second", 1,
          "Sent over NVLink.", "gpu"),
    COUNTER(gpu_metrics, "energy_joules", "gpu_energy_joules", 1,
            "Energy since the driver was loaded.", "gpu"),
    GAUGE(gpu_process, "memory_used_bytes", "gpu_process_memory_bytes", 1,
          "Device memory of a process.", "gpu", "pid", "name"),
    GAUGE(energy_metrics, "watts", "energy_power_watts", 1, "Mean power.", "domain", "device",
          "source"),
    COUNTER(process_metrics, "user_s", "process_user_seconds", 1, "CPU time in user mode.", "pid",
            "name"),
    COUNTER(process_metrics, "system_s", "process_system_seconds", 1, "CPU time in the kernel.",
            "pid", "name"),
    GAUGE(process_metrics, "rss_bytes", "process_resident_bytes", 1, "Resident memory.", "pid",
          "name"),
    GAUGE(process_metrics, "vms_bytes", "process_virtual_bytes", 1, "Virtual memory.", "pid",
          "name"),
    GAUGE(process_metrics, "threads", "process_threads", 1, "Threads.", "pid", "name"),
    COUNTER(process_metrics, "read_bytes", "process_read_bytes", 1, "Read from storage.", "pid",
            "name"),
    COUNTER(process_metrics, "write_bytes", "process_written_bytes", 1, "Written to storage.",
            "pid", "name"),
};

static const struct gsp_column *find_column(const struct gsp_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return &table->columns[i];
    return NULL;
}

/* Reads a numeric column. Returns false if the value is NULL or the column is not numeric. */
static bool number_of(const struct gsp_column *column, const char *row, double *out)
{
    int64_t whole = 0;
    if (column->type == GSP_F64) {
        memcpy(out, row + column->row_offset, sizeof(*out));
        return !gsp_is_null_f64(*out);
    }
    if (column->type != GSP_I64)
        return false;
    memcpy(&whole, row + column->row_offset, sizeof(whole));
    *out = (double)whole;
    return whole != GSP_NULL_I64;
}

static void put_escaped(struct gsp_buf *out, struct gsp_sv text)
{
    for (size_t i = 0; i < text.len;) {
        const size_t n = gsp_utf8_len((struct gsp_sv){text.p + i, text.len - i});
        const char c = text.p[i];
        if (c == '\\' || c == '"')
            gsp_buf_printf(out, "\\%c", c);
        else if (c == '\n')
            gsp_buf_puts(out, "\\n");
        else if (n == 0)
            gsp_buf_puts(out, "\xef\xbf\xbd"); /* U+FFFD, because the text must be UTF-8 */
        else
            gsp_buf_put(out, text.p + i, n);
        i += n ? n : 1;
    }
}

/* {cpu="0"}; NULL is the whole machine, with the label "all". */
static void put_labels(const struct gsp_daemon_rows *rows, const struct metric *metric,
                       const struct gsp_table *table, const char *row, struct gsp_buf *out)
    GSP_REQUIRES(&rows->lock)
{
    const char *before = "{";
    for (size_t i = 0; i < LABELS_MAX && metric->labels[i]; i++) {
        const struct gsp_column *column = find_column(table, metric->labels[i]);
        double number = 0;
        uint32_t id = 0;
        if (!column)
            continue;
        gsp_buf_printf(out, "%s%s=\"", before, metric->labels[i]);
        if (column->type == GSP_STR) {
            memcpy(&id, row + column->row_offset, sizeof(id));
            put_escaped(out, gsp_daemon__rows_text(rows, id));
        } else if (number_of(column, row, &number)) {
            gsp_buf_printf(out, "%.0f", number);
        } else {
            gsp_buf_puts(out, "all");
        }
        gsp_buf_putc(out, '"');
        before = ",";
    }
    if (before[0] == ',')
        gsp_buf_putc(out, '}');
}

static void put_head(struct gsp_buf *out, const char *name, const char *type, const char *help)
{
    gsp_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_metric(const struct gsp_daemon_rows *rows, const struct metric *metric,
                       struct gsp_buf *out) GSP_REQUIRES(&rows->lock)
{
    const struct gsp_table *table = gsp_wire_table_at(metric->table);
    const struct gsp_column *column = table ? find_column(table, metric->column) : NULL;
    enum gsp_table_id id;
    size_t at = 0;
    bool has_head = false;
    if (!column)
        return;
    for (const char *row = gsp_daemon__rows_next(rows, &at, &id); row;
         row = gsp_daemon__rows_next(rows, &at, &id)) {
        double value = 0;
        if (id != metric->table || !number_of(column, row, &value))
            continue;
        if (!has_head)
            put_head(out, metric->name, metric->type, metric->help);
        has_head = true;
        gsp_buf_puts(out, metric->name);
        put_labels(rows, metric, table, row, out);
        gsp_buf_printf(out, " %.15g\n", value * metric->scale);
    }
}

static void put_own(struct gsp_buf *out, const char *name, const char *type, const char *help,
                    double value)
{
    put_head(out, name, type, help);
    gsp_buf_printf(out, "%s %.15g\n", name, value);
}

/* Metrics of the daemon itself. */
static void put_self(struct gsp_daemon *daemon, struct gsp_buf *out)
{
    struct gsp_frame_log_status log;
    gsp_frames_log_status(daemon->frames, &log);
    put_head(out, "gsprof_build_info", "gauge", "Version of the daemon.");
    gsp_buf_puts(out, "gsprof_build_info{version=\"" GSP_VERSION "\"} 1\n");
    put_own(out, "gsprof_ticks_total", "counter", "Metric frames collected.",
            (double)atomic_load(&daemon->ticks));
    put_own(out, "gsprof_late_ticks_total", "counter",
            "Metric frames skipped because the daemon was late.",
            (double)atomic_load(&daemon->late_ticks));
    put_own(out, "gsprof_lost_frames_total", "counter", "Metric frames that could not be written.",
            (double)log.frames_lost);
    put_own(out, "gsprof_collect_seconds_total", "counter", "CPU time spent collecting.",
            (double)atomic_load(&daemon->collect_ns) / 1e9);
    put_own(out, "gsprof_log_bytes", "gauge", "Size of the frame log.", (double)log.bytes);
    put_own(out, "gsprof_active_sessions", "gauge", "Active sessions.",
            (double)gsp_daemon__sessions_active_count(daemon->sessions));
    put_own(out, "process_cpu_seconds_total", "counter", "CPU time of the daemon.",
            (double)gsp_cputime_ns() / 1e9);
    put_own(out, "process_start_time_seconds", "gauge", "Start time of the daemon.",
            (double)daemon->start_ns / 1e9);
}

void gsp_daemon__route_prometheus(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_daemon *daemon = call->daemon;
    gsp_daemon__rows_lock(&daemon->rows);
    for (size_t i = 0; i < GSP_COUNT(METRICS); i++)
        put_metric(&daemon->rows, &METRICS[i], &answer->body);
    gsp_daemon__rows_unlock(&daemon->rows);
    put_self(daemon, &answer->body);
}
