/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMD GPUs, from the files of their driver in /sys/class/drm. pcie_bw is not read: the kernel takes
 * a second to answer it.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "collect/source.h"

#define GPUS_MAX   64U
#define VENDOR_AMD "0x1002"
/* Retry interval for a GPU that has disappeared. */
#define RESCAN_NS  (5 * GSP_NS_PER_S)

enum value { BUSY, MEM_BUSY, VRAM_USED, VRAM_TOTAL, POWER, TEMP, SCLK, MCLK, POWER_CAP, VALUES };

struct gpu {
    int64_t index;
    int fds[VALUES];
    uint64_t now[VALUES];
    bool has_row; /* its row of gpu.device was added */
    uint64_t row_cap;
    char card[32];
    char uuid[64];
    char name[96];
    char pci_bus[32];
};

struct gpu_amdgpu_collector {
    struct gsp_collect_env env;
    char driver[64];
    struct gpu gpus[GPUS_MAX];
    size_t count;
    int64_t last_mono_ns;
    int64_t next_scan_ns;
    struct gsp_collect_trouble trouble;
};

static void close_gpu(struct gpu *gpu)
{
    for (size_t i = 0; i < VALUES; i++) {
        gsp_fd_close(&gpu->fds[i]);
        gpu->fds[i] = -1;
    }
}

static void close_amdgpu(void *collector)
{
    struct gpu_amdgpu_collector *self = collector;
    if (!self)
        return;
    for (size_t i = 0; i < self->count; i++)
        close_gpu(&self->gpus[i]);
    free(self);
}

/* hwmon/hwmonN, with any number. */
static bool find_hwmon(const char *device, char *out, size_t cap)
{
    char path[PATH_MAX];
    bool found = false;
    int n = snprintf(path, sizeof(path), "%s/hwmon", device);
    DIR *dir = n > 0 && (size_t)n < sizeof(path) ? opendir(path) : NULL;
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e && !found; e = readdir(dir)) {
        if (strncmp(e->d_name, "hwmon", 5) == 0) {
            n = snprintf(out, cap, "%s/%s", path, e->d_name);
            found = n > 0 && (size_t)n < cap;
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

static void open_files(struct gpu *gpu, const char *device)
{
    char hwmon[PATH_MAX];
    gpu->fds[BUSY] = gsp_collect__open("%s/gpu_busy_percent", device);
    gpu->fds[MEM_BUSY] = gsp_collect__open("%s/mem_busy_percent", device);
    gpu->fds[VRAM_USED] = gsp_collect__open("%s/mem_info_vram_used", device);
    gpu->fds[VRAM_TOTAL] = gsp_collect__open("%s/mem_info_vram_total", device);
    if (!find_hwmon(device, hwmon, sizeof(hwmon)))
        return;
    gpu->fds[POWER] = gsp_collect__open("%s/power1_average", hwmon);
    if (gpu->fds[POWER] < 0)
        gpu->fds[POWER] = gsp_collect__open("%s/power1_input", hwmon);
    gpu->fds[POWER_CAP] = gsp_collect__open("%s/power1_cap", hwmon);
    gpu->fds[TEMP] = gsp_collect__open("%s/temp1_input", hwmon);
    gpu->fds[SCLK] = gsp_collect__open("%s/freq1_input", hwmon);
    gpu->fds[MCLK] = gsp_collect__open("%s/freq2_input", hwmon);
}

/* Reads the bus address from uevent. */
static void read_bus(const char *device, char *out, size_t cap)
{
    static const char key[] = "PCI_SLOT_NAME=";
    gsp_auto_buf text = {0};
    gsp_auto_fd fd = gsp_collect__open("%s/uevent", device);
    out[0] = '\0';
    if (gsp_collect__read(fd, &text) != 0)
        return;
    struct gsp_text_scan rest = gsp_collect__scan_of(gsp_buf_sv(&text));
    struct gsp_text_scan line;
    while (gsp_collect__scan_line(&rest, &line))
        if (gsp_collect__scan_text(&line, key))
            snprintf(out, cap, "%.*s", (int)(line.end - line.p), line.p);
}

static void describe(struct gpu *gpu, const char *device)
{
    char id[32];
    read_bus(device, gpu->pci_bus, sizeof(gpu->pci_bus));
    if (!gsp_collect__read_line(gpu->uuid, sizeof(gpu->uuid), "%s/unique_id", device))
        memcpy(gpu->uuid, gpu->pci_bus, sizeof(gpu->pci_bus));
    if (!gsp_collect__read_line(gpu->name, sizeof(gpu->name), "%s/product_name", device)) {
        gsp_collect__read_line(id, sizeof(id), "%s/device", device);
        snprintf(gpu->name, sizeof(gpu->name), "AMD GPU %s", id);
    }
}

static bool device_of(const struct gpu_amdgpu_collector *self, const char *card, char out[PATH_MAX])
{
    const int n = snprintf(out, PATH_MAX, "%s/class/drm/%s/device", self->env.sys_root, card);
    return n > 0 && n < PATH_MAX;
}

static void add_card(struct gpu_amdgpu_collector *self, const char *card)
{
    char device[PATH_MAX];
    char vendor[16];
    if (strlen(card) >= sizeof(self->gpus[0].card) || !device_of(self, card, device) ||
        !gsp_collect__read_line(vendor, sizeof(vendor), "%s/vendor", device) ||
        strcmp(vendor, VENDOR_AMD) != 0)
        return;
    struct gpu *gpu = &self->gpus[self->count++];
    *gpu = (struct gpu){0};
    for (size_t i = 0; i < VALUES; i++) {
        gpu->fds[i] = -1;
        gpu->now[i] = GSP_UNKNOWN;
    }
    snprintf(gpu->card, sizeof(gpu->card), "%s", card);
    open_files(gpu, device);
    describe(gpu, device);
}

/* card0, card12; not card0-HDMI-A-1, which is a connector. */
static bool is_card(const char *name)
{
    return strncmp(name, "card", 4) == 0 && name[4] != '\0' &&
           name[4 + strspn(name + 4, "0123456789")] == '\0';
}

static int by_card(const void *a, const void *b)
{
    const struct gpu *x = a;
    const struct gpu *y = b;
    const size_t m = strlen(x->card);
    const size_t n = strlen(y->card);
    if (m != n)
        return m < n ? -1 : 1;
    return strcmp(x->card, y->card);
}

/* NVIDIA GPUs are numbered first. */
static int64_t count_nvidia(const struct gpu_amdgpu_collector *self)
{
    char path[PATH_MAX];
    int64_t count = 0;
    snprintf(path, sizeof(path), "%s/bus/pci/drivers/nvidia", self->env.sys_root);
    DIR *dir = opendir(path);
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        count += strchr(e->d_name, ':') != NULL;
    if (dir)
        closedir(dir);
    return count;
}

static void scan_cards(struct gpu_amdgpu_collector *self)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/class/drm", self->env.sys_root);
    DIR *dir = opendir(path);
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e && self->count < GPUS_MAX;
         e = readdir(dir))
        if (is_card(e->d_name))
            add_card(self, e->d_name);
    if (dir)
        closedir(dir);
    qsort(self->gpus, self->count, sizeof(self->gpus[0]), by_card);
    const int64_t first = count_nvidia(self);
    for (size_t i = 0; i < self->count; i++)
        self->gpus[i].index = first + (int64_t)i;
}

static int open_amdgpu(const struct gsp_collect_env *env, void **out, struct gsp_err *err)
{
    *out = NULL;
    struct gpu_amdgpu_collector *self = calloc(1, sizeof(*self));
    if (!self)
        return gsp_err_nomem(err);
    self->env = *env;
    scan_cards(self);
    if (self->count == 0) {
        close_amdgpu(self);
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "no AMD GPU");
    }
    if (!gsp_collect__read_line(self->driver, sizeof(self->driver), "%s/module/amdgpu/version",
                                env->sys_root))
        snprintf(self->driver, sizeof(self->driver), "amdgpu");
    *out = self;
    return 0;
}

static double scaled(uint64_t value, double per_unit)
{
    return value == GSP_UNKNOWN ? gsp_null_f64() : (double)value / per_unit;
}

static void put_device(struct gpu_amdgpu_collector *self, struct gpu *gpu,
                       const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    struct gsp_row_gpu_device row;
    if (gpu->has_row && gpu->row_cap == gpu->now[POWER_CAP])
        return;
    gsp_collect__blank(GSP_TABLE_gpu_device, &row);
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    row.gpu = gpu->index;
    row.uuid = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of(gpu->uuid));
    row.name = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of(gpu->name));
    row.vendor = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of("amd"));
    row.driver = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of(self->driver));
    row.pci_bus = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of(gpu->pci_bus));
    row.memory_total_bytes = gsp_collect__i64(gpu->now[VRAM_TOTAL]);
    row.power_limit_watts = scaled(gpu->now[POWER_CAP], 1e6);
    sink->row(sink, GSP_TABLE_gpu_device, &row);
    gpu->has_row = true;
    gpu->row_cap = gpu->now[POWER_CAP];
}

static void put_metrics(const struct gpu *gpu, const struct gsp_collect_tick *tick,
                        struct gsp_collect_sink *sink)
{
    struct gsp_row_gpu_metrics row;
    gsp_collect__blank(GSP_TABLE_gpu_metrics, &row);
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    row.gpu = gpu->index;
    row.util_percent = scaled(gpu->now[BUSY], 1);
    row.memory_util_percent = scaled(gpu->now[MEM_BUSY], 1);
    row.memory_used_bytes = gsp_collect__i64(gpu->now[VRAM_USED]);
    row.memory_total_bytes = gsp_collect__i64(gpu->now[VRAM_TOTAL]);
    row.power_watts = scaled(gpu->now[POWER], 1e6);
    row.temperature_c = scaled(gpu->now[TEMP], 1e3);
    row.sm_clock_mhz = scaled(gpu->now[SCLK], 1e6);
    row.memory_clock_mhz = scaled(gpu->now[MCLK], 1e6);
    sink->row(sink, GSP_TABLE_gpu_metrics, &row);
}

static void put_energy(const struct gpu_amdgpu_collector *self, const struct gpu *gpu,
                       const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    char device[32];
    const double seconds = gsp_collect__seconds(self->last_mono_ns, tick);
    const double watts = scaled(gpu->now[POWER], 1e6);
    snprintf(device, sizeof(device), "gpu %lld", (long long)gpu->index);
    const struct gsp_energy energy = {
        .domain = "gpu",
        .device = device,
        .source = "power",
        .joules = gsp_is_null_f64(watts) || seconds <= 0 ? gsp_null_f64() : watts * seconds,
        .seconds = seconds};
    gsp_collect__put_energy(&self->env, tick, &energy, sink);
}

/* After a reset the files of the GPU are new. */
static void reopen_gpu(struct gpu_amdgpu_collector *self, struct gpu *gpu)
{
    char device[PATH_MAX];
    close_gpu(gpu);
    if (device_of(self, gpu->card, device))
        open_files(gpu, device);
    gpu->has_row = false;
}

static void read_amdgpu(void *collector, const struct gsp_collect_tick *tick,
                        struct gsp_collect_sink *sink)
{
    struct gpu_amdgpu_collector *self = collector;
    const bool due = tick->mono_ns >= self->next_scan_ns;
    gsp_collect__trouble_begin(&self->trouble);
    for (size_t i = 0; i < self->count; i++) {
        struct gpu *gpu = &self->gpus[i];
        bool any = false;
        for (size_t v = 0; v < VALUES; v++) {
            gpu->now[v] = gsp_collect__read_number(gpu->fds[v]);
            any = any || gpu->now[v] != GSP_UNKNOWN;
        }
        if (!any)
            gsp_collect__trouble_add(&self->trouble, "GPU %lld (%s) reports no values",
                                     (long long)gpu->index, gpu->card);
        if (!any && due)
            reopen_gpu(self, gpu);
        if (any)
            put_device(self, gpu, tick, sink);
        put_metrics(gpu, tick, sink);
        put_energy(self, gpu, tick, sink);
    }
    if (due)
        self->next_scan_ns = tick->mono_ns + RESCAN_NS;
    self->last_mono_ns = tick->mono_ns;
    gsp_collect__trouble_end(&self->trouble);
}

const struct gsp_collector_type gsp_collect__gpu_amdgpu = {
    .name = "gpu_amdgpu",
    .doc = "AMD GPUs, from /sys/class/drm",
    .open = open_amdgpu,
    .read = read_amdgpu,
    .trouble = offsetof(struct gpu_amdgpu_collector, trouble),
    .close = close_amdgpu,
};
