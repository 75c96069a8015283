/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA GPUs. Each is read on its own: a GPU that fails has a blank row and its own reason. A lost
 * GPU is tried again every few seconds, first alone, then by a restart of the library, less and
 * less often, because a restart disturbs the other GPUs.
 */
#include "collect/gpu_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX        64U
#define RETRY_NS        (5 * GSP_NS_PER_S)
#define RESTART_MAX_NS  (300 * GSP_NS_PER_S)
/* How often limits and modes, which users change, are read. */
#define DEVICE_NS       (5 * GSP_NS_PER_S)
/* Older drivers measure PCIe for 20 ms while the caller waits. This is the share of our time
 * that they may use, and a call that takes half an interval is not made. */
#define PCIE_SHARE      0.05
#define PCIE_WAIT_FIRST 0.02
#define PCIE_KEEP_NS    (10 * GSP_NS_PER_S)

enum field { PCIE_TX, PCIE_RX, NVLINK_TX, NVLINK_RX, FIELDS };

static const struct {
    unsigned id;
    unsigned scope;
    double bytes; /* of one unit */
} fields[FIELDS] = {
    [PCIE_TX] = {GSP_NVML_PCIE_TX_BYTES, 0, 1},
    [PCIE_RX] = {GSP_NVML_PCIE_RX_BYTES, 0, 1},
    [NVLINK_TX] = {GSP_NVML_NVLINK_TX_KIB, GSP_NVML_ALL_LINKS, 1024},
    [NVLINK_RX] = {GSP_NVML_NVLINK_RX_KIB, GSP_NVML_ALL_LINKS, 1024},
};

/* A PCIe rate that was measured while we waited. */
struct waited {
    double bytes_per_s;
    int64_t until_ns;
};

struct gpu {
    gsp_nvml_dev dev; /* NULL: not available */
    int64_t index;
    bool lost;
    int code; /* of the last failed call in this read */
    bool has_row;
    int64_t next_device_ns;
    char uuid[96];
    char name[96];
    char pci_bus[32];
    int64_t memory_total;
    uint64_t power_limit_mw; /* UNKNOWN: not reported */
    uint8_t mig;
    bool no_field[FIELDS];
    uint64_t last[FIELDS];
    uint64_t last_mj;
    struct waited pcie[2]; /* by GSP_NVML_PCIE_TX, _RX */
    struct gsp_gpu_samples samples;
};

struct gpu_nvml_collector {
    struct gsp_collect_env env;
    struct gsp_nvml nvml;
    char driver[96];
    struct gpu gpus[GPUS_MAX];
    size_t count;
    int64_t last_mono_ns;
    int64_t next_retry_ns;
    int64_t next_restart_ns;
    int64_t restart_ns;
    double pcie_budget_s;
    double pcie_wait_s;
    size_t pcie_turn;
    struct gsp_gpu_procs procs;
    struct gsp_collect_trouble trouble;
};

static void close_nvml(void *collector)
{
    struct gpu_nvml_collector *self = collector;
    if (!self)
        return;
    gsp_collect__nvml_close(&self->nvml);
    gsp_buf_free(&self->procs.text);
    free(self);
}

/* Returns true if the call returned a value. An unsupported value is not a failure. */
static bool has_value(struct gpu *gpu, int code)
{
    switch (code) {
    case GSP_NVML_OK:
        return true;
    case GSP_NVML_NOT_SUPPORTED:
    case GSP_NVML_NO_FUNCTION:
    case GSP_NVML_NO_DATA:
        return false;
    case GSP_NVML_LOST:
    case GSP_NVML_RESET_REQUIRED:
    case GSP_NVML_UNINITIALIZED:
        gpu->lost = true;
        break;
    default:
        break;
    }
    gpu->code = code;
    return false;
}

static void forget_counters(struct gpu *gpu)
{
    for (size_t i = 0; i < FIELDS; i++)
        gpu->last[i] = GSP_UNKNOWN;
    gpu->last_mj = GSP_UNKNOWN;
}

static struct gpu *add_gpu(struct gpu_nvml_collector *self)
{
    if (self->count == GPUS_MAX)
        return NULL;
    struct gpu *gpu = &self->gpus[self->count];
    *gpu = (struct gpu){.index = (int64_t)self->count,
                        .lost = true,
                        .memory_total = GSP_NULL_I64,
                        .power_limit_mw = GSP_UNKNOWN,
                        .mig = GSP_NULL_BOOL};
    forget_counters(gpu);
    self->count++;
    return gpu;
}

/* The GPU with this uuid; otherwise the one at that index, if it has no uuid yet; otherwise a
 * new one. */
static struct gpu *gpu_of(struct gpu_nvml_collector *self, const char *uuid, unsigned index)
{
    for (size_t i = 0; uuid[0] && i < self->count; i++)
        if (strcmp(self->gpus[i].uuid, uuid) == 0)
            return &self->gpus[i];
    if (index < self->count && (!self->gpus[index].uuid[0] || !uuid[0]))
        return &self->gpus[index];
    return add_gpu(self);
}

static void describe(const struct gsp_nvml *nvml, struct gpu *gpu)
{
    struct gsp_nvml_pci pci = {0};
    struct gsp_nvml_memory memory = {0};
    if (!nvml->name || !has_value(gpu, nvml->name(gpu->dev, gpu->name, sizeof(gpu->name))))
        snprintf(gpu->name, sizeof(gpu->name), "NVIDIA GPU");
    if (nvml->pci && has_value(gpu, nvml->pci(gpu->dev, &pci)))
        snprintf(gpu->pci_bus, sizeof(gpu->pci_bus), "%.*s", (int)sizeof(pci.bus_id) - 1,
                 pci.bus_id);
    if (nvml->memory && has_value(gpu, nvml->memory(gpu->dev, &memory)))
        gpu->memory_total = gsp_collect__i64(memory.total);
    /* A driver that was replaced may support more. */
    memset(gpu->no_field, 0, sizeof(gpu->no_field));
    gpu->has_row = false;
    gpu->next_device_ns = 0;
}

/* Lists the GPUs again. Known GPUs keep their number. */
static int enumerate(struct gpu_nvml_collector *self)
{
    const struct gsp_nvml *nvml = &self->nvml;
    unsigned count = 0;
    const int code = nvml->count(&count);
    if (code != GSP_NVML_OK)
        return code;
    for (size_t i = 0; i < self->count; i++) {
        self->gpus[i].dev = NULL;
        self->gpus[i].lost = true;
    }
    for (unsigned i = 0; i < count && i < GPUS_MAX; i++) {
        char uuid[sizeof(self->gpus[0].uuid)] = "";
        gsp_nvml_dev dev = NULL;
        const int rc = nvml->handle(i, &dev);
        if (rc == GSP_NVML_OK && nvml->uuid && nvml->uuid(dev, uuid, sizeof(uuid)) != GSP_NVML_OK)
            uuid[0] = '\0';
        struct gpu *gpu = gpu_of(self, uuid, i);
        if (!gpu)
            break;
        gpu->code = rc;
        if (rc != GSP_NVML_OK)
            continue;
        if (uuid[0])
            memcpy(gpu->uuid, uuid, sizeof(uuid));
        gpu->dev = dev;
        gpu->lost = false;
        describe(nvml, gpu);
    }
    return GSP_NVML_OK;
}

static int open_nvml(const struct gsp_collect_env *env, void **out, struct gsp_err *err)
{
    *out = NULL;
    struct gpu_nvml_collector *self = calloc(1, sizeof(*self));
    if (!self)
        return gsp_err_nomem(err);
    self->env = *env;
    self->restart_ns = RETRY_NS;
    self->pcie_wait_s = PCIE_WAIT_FIRST;
    int rc = gsp_collect__nvml_open(&self->nvml, env->nvml_library, err);
    if (rc == 0) {
        const int code = enumerate(self);
        if (code != GSP_NVML_OK)
            rc = gsp_err_set(err, GSP_E_IO, 0, "NVML cannot count the GPUs: %s (%d)",
                             gsp_collect__nvml_text(&self->nvml, code), code);
        else if (self->count == 0)
            rc = gsp_err_set(err, GSP_E_IO, 0, "the NVIDIA driver reports no GPU");
    }
    if (rc != 0) {
        close_nvml(self);
        return rc;
    }
    if (!self->nvml.driver_version ||
        self->nvml.driver_version(self->driver, sizeof(self->driver)) != GSP_NVML_OK)
        snprintf(self->driver, sizeof(self->driver), "unknown");
    *out = self;
    return 0;
}

static void restart(struct gpu_nvml_collector *self)
{
    self->nvml.shutdown();
    const int code = self->nvml.init();
    if (code == GSP_NVML_OK && enumerate(self) == GSP_NVML_OK)
        return;
    for (size_t i = 0; i < self->count; i++) {
        self->gpus[i].dev = NULL;
        self->gpus[i].lost = true;
    }
}

static void try_handle(const struct gsp_nvml *nvml, struct gpu *gpu)
{
    struct gsp_nvml_memory memory = {0};
    char uuid[sizeof(gpu->uuid)] = "";
    gsp_nvml_dev dev = NULL;
    int code = nvml->handle((unsigned)gpu->index, &dev);
    if (code == GSP_NVML_OK && nvml->memory)
        code = nvml->memory(dev, &memory);
    if (code == GSP_NVML_OK && nvml->uuid)
        code = nvml->uuid(dev, uuid, sizeof(uuid));
    /* If one is missing, the library may give its index to another. */
    if (code != GSP_NVML_OK || (gpu->uuid[0] && strcmp(uuid, gpu->uuid) != 0))
        return;
    memcpy(gpu->uuid, uuid, sizeof(uuid));
    gpu->dev = dev;
    gpu->lost = false;
    forget_counters(gpu);
    describe(nvml, gpu);
}

static bool any_lost(const struct gpu_nvml_collector *self)
{
    for (size_t i = 0; i < self->count; i++)
        if (self->gpus[i].lost)
            return true;
    return false;
}

static void find_lost(struct gpu_nvml_collector *self, int64_t now_ns)
{
    if (!any_lost(self) || now_ns < self->next_retry_ns)
        return;
    /* The first attempt after a loss is one interval later: a reset takes time. */
    const bool first = self->next_retry_ns == 0;
    self->next_retry_ns = now_ns + RETRY_NS;
    if (first)
        return;
    for (size_t i = 0; i < self->count; i++)
        if (self->gpus[i].lost)
            try_handle(&self->nvml, &self->gpus[i]);
    if (any_lost(self) && now_ns >= self->next_restart_ns) {
        restart(self);
        self->next_restart_ns = now_ns + self->restart_ns;
        if (self->restart_ns < RESTART_MAX_NS)
            self->restart_ns *= 2;
    }
    if (!any_lost(self)) {
        self->next_retry_ns = 0;
        self->next_restart_ns = 0;
        self->restart_ns = RETRY_NS;
    }
}

static void put_device(const struct gpu_nvml_collector *self, struct gpu *gpu,
                       const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    struct gsp_row_gpu_device row;
    gsp_collect__blank(GSP_TABLE_gpu_device, &row);
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    row.gpu = gpu->index;
    row.uuid = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of(gpu->uuid));
    row.name = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of(gpu->name));
    row.vendor = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of("nvidia"));
    row.driver = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of(self->driver));
    row.pci_bus = sink->intern(sink, GSP_TABLE_gpu_device, gsp_sv_of(gpu->pci_bus));
    row.memory_total_bytes = gpu->memory_total;
    if (gpu->power_limit_mw != GSP_UNKNOWN)
        row.power_limit_watts = (double)gpu->power_limit_mw / 1000;
    row.mig = gpu->mig;
    sink->row(sink, GSP_TABLE_gpu_device, &row);
    gpu->has_row = true;
}

/* Adds a row of gpu.device if it is the first or differs from the last. */
static void update_device(const struct gpu_nvml_collector *self, struct gpu *gpu,
                          const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    const struct gsp_nvml *nvml = &self->nvml;
    unsigned mw = 0;
    unsigned current = 0;
    unsigned pending = 0;
    uint64_t limit = GSP_UNKNOWN;
    uint8_t mig = GSP_NULL_BOOL;
    if (gpu->has_row && tick->mono_ns < gpu->next_device_ns)
        return;
    gpu->next_device_ns = tick->mono_ns + DEVICE_NS;
    if (nvml->power_limit_mw && has_value(gpu, nvml->power_limit_mw(gpu->dev, &mw)))
        limit = mw;
    if (nvml->mig && has_value(gpu, nvml->mig(gpu->dev, &current, &pending)))
        mig = current == 1;
    if (gpu->lost)
        return;
    if (gpu->has_row && limit == gpu->power_limit_mw && mig == gpu->mig)
        return;
    gpu->power_limit_mw = limit;
    gpu->mig = mig;
    put_device(self, gpu, tick, sink);
}

static void fill_state(const struct gsp_nvml *nvml, struct gpu *gpu,
                       struct gsp_row_gpu_metrics *row)
{
    struct gsp_nvml_util util = {0};
    struct gsp_nvml_memory memory = {0};
    unsigned value = 0;
    if (nvml->memory && has_value(gpu, nvml->memory(gpu->dev, &memory))) {
        row->memory_used_bytes = gsp_collect__i64(memory.used);
        row->memory_total_bytes = gsp_collect__i64(memory.total);
    }
    if (!gpu->lost && nvml->util && has_value(gpu, nvml->util(gpu->dev, &util))) {
        row->util_percent = (double)util.gpu;
        row->memory_util_percent = (double)util.memory;
    }
    if (!gpu->lost && nvml->power_mw && has_value(gpu, nvml->power_mw(gpu->dev, &value)))
        row->power_watts = (double)value / 1000;
    if (!gpu->lost && nvml->temperature &&
        has_value(gpu, nvml->temperature(gpu->dev, GSP_NVML_TEMP_GPU, &value)))
        row->temperature_c = (double)value;
    if (!gpu->lost && nvml->clock_mhz &&
        has_value(gpu, nvml->clock_mhz(gpu->dev, GSP_NVML_CLOCK_SM, &value)))
        row->sm_clock_mhz = (double)value;
    if (!gpu->lost && nvml->clock_mhz &&
        has_value(gpu, nvml->clock_mhz(gpu->dev, GSP_NVML_CLOCK_MEMORY, &value)))
        row->memory_clock_mhz = (double)value;
}

static void fill_throttle(const struct gsp_nvml *nvml, struct gpu *gpu,
                          struct gsp_collect_sink *sink, struct gsp_row_gpu_metrics *row)
{
    /* By bit number. Bit 0 means that the GPU is idle, which is not throttling. */
    static const char *const names[] = {NULL,          "app_clocks",     "sw_power_cap",
                                        "hw_slowdown", "sync_boost",     "sw_thermal",
                                        "hw_thermal",  "hw_power_brake", "display_clocks"};
    unsigned long long bits = 0;
    char text[160] = "";
    size_t len = 0;
    if (gpu->lost || !nvml->throttle || !has_value(gpu, nvml->throttle(gpu->dev, &bits)))
        return;
    for (size_t i = 1; i < GSP_COUNT(names); i++) {
        if ((bits >> i & 1) != 0 && len < sizeof(text)) {
            const int n =
                snprintf(text + len, sizeof(text) - len, "%s%s", len ? "," : "", names[i]);
            len += n > 0 ? (size_t)n : 0;
        }
    }
    row->throttle = sink->intern(sink, GSP_TABLE_gpu_metrics, gsp_sv_of(text[0] ? text : "none"));
}

static uint64_t field_value(const struct gsp_nvml_field *field)
{
    switch (field->type) {
    case GSP_NVML_U32:
        return field->value.u32;
    case GSP_NVML_ULONG:
        return field->value.ulong_value;
    case GSP_NVML_U64:
        return field->value.u64;
    default:
        return GSP_UNKNOWN;
    }
}

/* The rate of a counter; a 32-bit counter wraps. */
static double field_rate(const struct gsp_nvml_field *field, uint64_t now, uint64_t last,
                         double seconds)
{
    if (field->type == GSP_NVML_U32 && last <= UINT32_MAX && now < last)
        now += UINT64_C(1) << 32;
    return gsp_collect__rate(now, last, seconds);
}

static void fill_rates(const struct gpu_nvml_collector *self, struct gpu *gpu, double seconds,
                       struct gsp_row_gpu_metrics *row)
{
    struct gsp_nvml_field queried[FIELDS] = {{0}};
    size_t which[FIELDS];
    int count = 0;
    double *const out[FIELDS] = {[PCIE_TX] = &row->pcie_tx_bytes_per_s,
                                 [PCIE_RX] = &row->pcie_rx_bytes_per_s,
                                 [NVLINK_TX] = &row->nvlink_tx_bytes_per_s,
                                 [NVLINK_RX] = &row->nvlink_rx_bytes_per_s};
    for (size_t i = 0; i < FIELDS; i++) {
        if (gpu->no_field[i])
            continue;
        which[count] = i;
        queried[count++] = (struct gsp_nvml_field){.id = fields[i].id, .scope = fields[i].scope};
    }
    if (gpu->lost || count == 0)
        return;
    const bool all =
        self->nvml.fields && has_value(gpu, self->nvml.fields(gpu->dev, count, queried));
    for (int k = 0; k < count; k++) {
        const size_t i = which[k];
        const uint64_t now =
            all && has_value(gpu, queried[k].code) ? field_value(&queried[k]) : GSP_UNKNOWN;
        gpu->no_field[i] = now == GSP_UNKNOWN && gpu->code == GSP_NVML_OK; /* it is not supported */
        const double rate = field_rate(&queried[k], now, gpu->last[i], seconds);
        *out[i] = gsp_is_null_f64(rate) ? rate : rate * fields[i].bytes;
        gpu->last[i] = now;
    }
}

static double waited_rate(const struct gpu *gpu, unsigned direction, int64_t now_ns)
{
    const struct waited *waited = &gpu->pcie[direction];
    return now_ns < waited->until_ns ? waited->bytes_per_s : gsp_null_f64();
}

/* Measures PCIe rates with older drivers: at most one call per read, in turns. */
static void wait_for_pcie(struct gpu_nvml_collector *self, double seconds, int64_t now_ns)
{
    self->pcie_budget_s += PCIE_SHARE * seconds;
    if (self->pcie_budget_s > 1)
        self->pcie_budget_s = 1;
    if (!self->nvml.pcie_kb_per_s || self->count == 0)
        return;
    const size_t turn = self->pcie_turn % (self->count * 2);
    struct gpu *gpu = &self->gpus[turn / 2];
    const unsigned direction = turn % 2 ? GSP_NVML_PCIE_RX : GSP_NVML_PCIE_TX;
    if (gpu->lost || !gpu->no_field[direction == GSP_NVML_PCIE_TX ? PCIE_TX : PCIE_RX]) {
        self->pcie_turn++;
        return;
    }
    if (self->pcie_budget_s < self->pcie_wait_s || self->pcie_wait_s > seconds / 2)
        return;
    unsigned kb = 0;
    const int64_t begin = gsp_now_ns();
    self->pcie_turn++;
    if (has_value(gpu, self->nvml.pcie_kb_per_s(gpu->dev, direction, &kb)))
        gpu->pcie[direction] = (struct waited){(double)kb * 1024, now_ns + PCIE_KEEP_NS};
    self->pcie_wait_s = (double)(gsp_now_ns() - begin) / (double)GSP_NS_PER_S;
    self->pcie_budget_s -= self->pcie_wait_s;
}

static void put_energy(const struct gpu_nvml_collector *self, struct gpu *gpu, double seconds,
                       const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink,
                       struct gsp_row_gpu_metrics *row)
{
    char device[32];
    unsigned long long mj = 0;
    struct gsp_energy energy = {.domain = "gpu",
                                .device = device,
                                .source = "nvml",
                                .joules = gsp_null_f64(),
                                .seconds = seconds};
    snprintf(device, sizeof(device), "gpu %lld", (long long)gpu->index);
    if (!gpu->lost && self->nvml.energy_mj && has_value(gpu, self->nvml.energy_mj(gpu->dev, &mj))) {
        row->energy_joules = (double)mj / 1000;
        if (gpu->last_mj != GSP_UNKNOWN && mj >= gpu->last_mj)
            energy.joules = (double)(mj - gpu->last_mj) / 1000;
        gpu->last_mj = mj;
    } else {
        /* GPUs before Volta have no counter. */
        gpu->last_mj = GSP_UNKNOWN;
        if (!gsp_is_null_f64(row->power_watts) && seconds > 0)
            energy.joules = row->power_watts * seconds;
        energy.source = "power";
    }
    gsp_collect__put_energy(&self->env, tick, &energy, sink);
}

static void report_trouble(struct gpu_nvml_collector *self, const struct gpu *gpu)
{
    if (gpu->lost || gpu->code != GSP_NVML_OK)
        gsp_collect__trouble_add(&self->trouble, "GPU %lld: %s (%d)", (long long)gpu->index,
                                 gsp_collect__nvml_text(&self->nvml, gpu->code), gpu->code);
    else if (gpu->mig == 1)
        gsp_collect__trouble_add(&self->trouble,
                                 "GPU %lld is partitioned (MIG): utilisation not available",
                                 (long long)gpu->index);
}

static void read_gpu(struct gpu_nvml_collector *self, struct gpu *gpu, double seconds,
                     const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    struct gsp_row_gpu_metrics row;
    gsp_collect__blank(GSP_TABLE_gpu_metrics, &row);
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    row.gpu = gpu->index;
    if (!gpu->lost) {
        gpu->code = GSP_NVML_OK;
        update_device(self, gpu, tick, sink);
    }
    if (!gpu->lost) {
        fill_state(&self->nvml, gpu, &row);
        fill_throttle(&self->nvml, gpu, sink, &row);
        fill_rates(self, gpu, seconds, &row);
        if (gpu->no_field[PCIE_TX])
            row.pcie_tx_bytes_per_s = waited_rate(gpu, GSP_NVML_PCIE_TX, tick->mono_ns);
        if (gpu->no_field[PCIE_RX])
            row.pcie_rx_bytes_per_s = waited_rate(gpu, GSP_NVML_PCIE_RX, tick->mono_ns);
    }
    put_energy(self, gpu, seconds, tick, sink, &row);
    sink->row(sink, GSP_TABLE_gpu_metrics, &row);
    if (!gpu->lost) {
        const struct gsp_gpu_context context = {.nvml = &self->nvml,
                                                .env = &self->env,
                                                .tick = tick,
                                                .dev = gpu->dev,
                                                .gpu = gpu->index};
        has_value(gpu, gsp_collect__gpu_processes(&self->procs, &context, &gpu->samples, sink));
    }
    report_trouble(self, gpu);
}

static void read_nvml(void *collector, const struct gsp_collect_tick *tick,
                      struct gsp_collect_sink *sink)
{
    struct gpu_nvml_collector *self = collector;
    const double seconds = gsp_collect__seconds(self->last_mono_ns, tick);
    gsp_collect__trouble_begin(&self->trouble);
    find_lost(self, tick->mono_ns);
    for (size_t i = 0; i < self->count; i++)
        read_gpu(self, &self->gpus[i], seconds, tick, sink);
    wait_for_pcie(self, seconds, tick->mono_ns);
    self->last_mono_ns = tick->mono_ns;
    gsp_collect__trouble_end(&self->trouble);
}

const struct gsp_collector_type gsp_collect__gpu_nvml = {
    .name = "gpu_nvml",
    .doc = "NVIDIA GPUs and their processes, from the driver's library (NVML)",
    .open = open_nvml,
    .read = read_nvml,
    .trouble = offsetof(struct gpu_nvml_collector, trouble),
    .close = close_nvml,
};
