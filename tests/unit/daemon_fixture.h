/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon_fixture.h -- a state folder, and metric frames of a simulated machine whose values follow
 * from the tick.
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "daemon/sessions.h"
#include "frames/log.h"

#define MADE_PERIOD_NS (200 * GSP_NS_PER_MS)
#define MADE_START_NS  (1700000000LL * GSP_NS_PER_S)

struct made {
    uint64_t tick; /* of the machine; increases with each frame */
    int gpus;
    int processes;
    int64_t step_ns;  /* added to the monotonic clock, for gaps */
    int64_t wall_ns;  /* added to the wall clock */
    double cpu;       /* if not 0: the CPU utilization */
    bool gpu_unnamed; /* no gpu.device rows yet */
    bool cpu_only;    /* short frames */
};

/* Creates a folder, in memory if possible. */
static inline void made_folder(char out[64])
{
    snprintf(out, 64, "%s/gsprof-test-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(out))
        exit(1);
}

/* Removes the folder with its files and subfolders. */
static inline void made_remove(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(dir), e->d_name, 0) != 0) {
            char *path = NULL;
            if (asprintf(&path, "%s/%s", folder, e->d_name) >= 0) {
                made_remove(path);
                free(path);
            }
        }
    }
    closedir(dir);
    rmdir(folder);
}

static inline void made_cpu(const struct made *made, const struct gsp_collect_tick *tick,
                            struct gsp_collect_sink *sink)
{
    for (int64_t c = -1; c < 2; c++) {
        struct gsp_row_system_cpu row = {.ts_ns = tick->ts_ns,
                                         .mono_ns = tick->mono_ns,
                                         .cpu = c < 0 ? GSP_NULL_I64 : c,
                                         .user_percent = (double)(made->tick * 7 % 1000) / 17.0,
                                         .system_percent = 1.5,
                                         .iowait_percent = 0,
                                         .steal_percent = 0,
                                         .freq_mhz = gsp_null_f64(),
                                         .load_1m = c < 0 ? 0.75 : gsp_null_f64()};
        row.util_percent = made->cpu != 0 ? made->cpu : (double)(made->tick * 37 % 10001) / 100.0;
        sink->row(sink, GSP_TABLE_system_cpu, &row);
    }
}

static inline void made_devices(const struct made *made, const struct gsp_collect_tick *tick,
                                struct gsp_collect_sink *sink)
{
    static const char *const DISKS[] = {"vda", "nvme0n1"};
    static const char *const NETS[] = {"lo", "eth0"};
    static const char *const RESOURCES[] = {"cpu", "memory", "io"};
    struct gsp_row_system_memory memory = {
        .ts_ns = tick->ts_ns,
        .mono_ns = tick->mono_ns,
        .total_bytes = 1000000000,
        .used_bytes = (int64_t)(made->tick % 1000) * 1000000,
        .available_bytes = 1000000000 - (int64_t)(made->tick % 1000) * 1000000,
        .cached_bytes = 5000000,
        .swap_total_bytes = 0,
        .swap_used_bytes = 0,
        .major_faults_per_s = 0,
        .limit_source = sink->intern(sink, GSP_TABLE_system_memory, gsp_sv_of("machine"))};
    sink->row(sink, GSP_TABLE_system_memory, &memory);
    for (size_t i = 0; i < 2; i++) {
        struct gsp_row_system_disk disk = {
            .ts_ns = tick->ts_ns,
            .mono_ns = tick->mono_ns,
            .device = sink->intern(sink, GSP_TABLE_system_disk, gsp_sv_of(DISKS[i])),
            .read_bytes_per_s = 1000.0 * (double)(i + 1),
            .write_bytes_per_s = (double)(made->tick * 4096 % 1000003),
            .util_percent = (double)((made->tick + 50 * i) % 101)};
        struct gsp_row_system_network net = {
            .ts_ns = tick->ts_ns,
            .mono_ns = tick->mono_ns,
            .device = sink->intern(sink, GSP_TABLE_system_network, gsp_sv_of(NETS[i])),
            .rx_bytes_per_s = (double)(made->tick * 1500 % 9973),
            .tx_bytes_per_s = (double)(made->tick * 60 % 997)};
        sink->row(sink, GSP_TABLE_system_disk, &disk);
        sink->row(sink, GSP_TABLE_system_network, &net);
    }
    for (size_t i = 0; i < 3; i++) {
        struct gsp_row_system_pressure row = {
            .ts_ns = tick->ts_ns,
            .mono_ns = tick->mono_ns,
            .resource = sink->intern(sink, GSP_TABLE_system_pressure, gsp_sv_of(RESOURCES[i])),
            .some_percent = (double)(made->tick % 7),
            .full_percent = 0,
            .some_avg10_percent = 0.1,
            .full_avg10_percent = 0};
        sink->row(sink, GSP_TABLE_system_pressure, &row);
    }
    struct gsp_row_energy_metrics energy = {
        .ts_ns = tick->ts_ns,
        .mono_ns = tick->mono_ns,
        .domain = sink->intern(sink, GSP_TABLE_energy_metrics, gsp_sv_of("package")),
        .device = sink->intern(sink, GSP_TABLE_energy_metrics, gsp_sv_of("package-0")),
        .joules = 10,
        .watts = 50,
        .source = sink->intern(sink, GSP_TABLE_energy_metrics, gsp_sv_of("rapl")),
        .carbon_grams = 0.001};
    sink->row(sink, GSP_TABLE_energy_metrics, &energy);
}

static inline void made_gpus(const struct made *made, const struct gsp_collect_tick *tick,
                             struct gsp_collect_sink *sink)
{
    for (int g = 0; g < made->gpus; g++) {
        struct gsp_row_gpu_device device = {
            .gpu = g,
            .name = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of("STAND-IN \"X\""))};
        if (made->tick == 0 && !made->gpu_unnamed)
            sink->row(sink, GSP_TABLE_gpu_device, &device);
        struct gsp_row_gpu_metrics row = {.ts_ns = tick->ts_ns,
                                          .mono_ns = tick->mono_ns,
                                          .gpu = g,
                                          .util_percent =
                                              (double)((made->tick + (uint64_t)g) % 101),
                                          .memory_util_percent = gsp_null_f64(),
                                          .memory_used_bytes = 250,
                                          .memory_total_bytes = 1000,
                                          .power_watts = 100,
                                          .temperature_c = 55,
                                          .sm_clock_mhz = 1400,
                                          .memory_clock_mhz = gsp_null_f64(),
                                          .pcie_rx_bytes_per_s = 2e9,
                                          .pcie_tx_bytes_per_s = 1e9,
                                          .nvlink_rx_bytes_per_s = gsp_null_f64(),
                                          .nvlink_tx_bytes_per_s = gsp_null_f64(),
                                          .energy_joules = gsp_null_f64()};
        sink->row(sink, GSP_TABLE_gpu_metrics, &row);
    }
    for (int p = 0; p < made->processes; p++) {
        struct gsp_row_process_metrics row = {
            .ts_ns = tick->ts_ns,
            .mono_ns = tick->mono_ns,
            .pid = 1000 + p,
            .rank = GSP_NULL_I64,
            .name = sink->intern(sink, GSP_TABLE_process_metrics, gsp_sv_of("py\"thon\x01")),
            .cpu_percent = 99.5,
            .rss_bytes = 123456789,
            .pss_bytes = GSP_NULL_I64};
        sink->row(sink, GSP_TABLE_process_metrics, &row);
    }
}

/* Adds a frame. Returns the result of gsp_frames_log_end(). */
static inline int made_frame(struct gsp_frame_log *frames, struct made *made, struct gsp_err *err)
{
    int64_t at = (int64_t)made->tick * MADE_PERIOD_NS;
    struct gsp_collect_tick tick = {.ts_ns = MADE_START_NS + at + made->step_ns + made->wall_ns,
                                    .mono_ns = GSP_NS_PER_S + at + made->step_ns};
    gsp_frames_log_begin(frames, &tick);
    struct gsp_collect_sink *sink = gsp_frames_log_sink(frames);
    made_cpu(made, &tick, sink);
    if (!made->cpu_only)
        made_devices(made, &tick, sink);
    made_gpus(made, &tick, sink);
    made->tick++;
    return gsp_frames_log_end(frames, err);
}
