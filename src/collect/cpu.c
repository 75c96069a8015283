/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processors: one row per core, and one row for all usable cores. If the cgroup allows less than
 * the machine has (quota or cpuset), the percentages of that row are CPU time of the cgroup
 * relative to its limit; machine_percent is always that of the machine.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "collect/cgroup.h"
#include "collect/source.h"

#define CORES_MAX      8192U
/* Each needs a descriptor. */
#define FREQ_CORES_MAX 256U
/* The kernel may have to query each core. */
#define FREQ_NS        GSP_NS_PER_S

struct core {
    struct gsp_cpu_line last;
    bool has_last;
    int freq_fd;
    double freq_mhz; /* NULL: not known */
};

struct cpu_collector {
    struct gsp_collect_env env;
    struct gsp_row_system_cpu blank;
    struct core total;
    struct core *cores; /* by number */
    size_t core_count;
    struct gsp_cpu_line *lines;
    size_t line_cap;
    int stat_fd;
    int load_fd;
    struct gsp_buf text;
    int64_t last_mono_ns;
    int64_t next_freq_ns;
    uint64_t last_ctx;
    struct gsp_cgroup group;
    struct gsp_cgroup_cpu last_group;
    struct gsp_collect_trouble trouble;
};

static void close_cpu(void *collector)
{
    struct cpu_collector *self = collector;
    if (!self)
        return;
    for (size_t i = 0; i < self->core_count; i++)
        gsp_fd_close(&self->cores[i].freq_fd);
    gsp_fd_close(&self->stat_fd);
    gsp_fd_close(&self->load_fd);
    gsp_collect__cgroup_close(&self->group);
    gsp_buf_free(&self->text);
    free(self->cores);
    free(self->lines);
    free(self);
}

static int open_cpu(const struct gsp_collect_env *env, void **out, struct gsp_err *err)
{
    *out = NULL;
    struct cpu_collector *self = calloc(1, sizeof(*self));
    if (!self)
        return gsp_err_nomem(err);
    self->env = *env;
    self->total.freq_fd = -1;
    self->last_ctx = GSP_UNKNOWN;
    gsp_collect__cgroup_open(&self->group);
    gsp_collect__blank(GSP_TABLE_system_cpu, &self->blank);
    self->load_fd = gsp_collect__open("%s/loadavg", env->proc_root);
    self->stat_fd = gsp_collect__open("%s/stat", env->proc_root);
    if (self->stat_fd < 0) {
        close_cpu(self);
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "%s/stat cannot be read", env->proc_root);
    }
    *out = self;
    return 0;
}

/* The core with that number, added if it is new; NULL if memory runs out. */
static struct core *core_of(struct cpu_collector *self, int64_t number)
{
    const size_t i = (size_t)number;
    if (number < 0)
        return &self->total;
    if (i >= CORES_MAX)
        return NULL;
    for (size_t n = self->core_count; n <= i; n++) {
        if (!gsp_array_fit_next(&self->cores, n))
            return NULL;
        self->cores[n] = (struct core){.freq_fd = -1, .freq_mhz = gsp_null_f64()};
        if (n < FREQ_CORES_MAX)
            self->cores[n].freq_fd = gsp_collect__open(
                "%s/devices/system/cpu/cpu%zu/cpufreq/scaling_cur_freq", self->env.sys_root, n);
        self->core_count++;
    }
    return &self->cores[i];
}

static bool read_lines(struct cpu_collector *self, size_t *count, uint64_t *ctx)
{
    *count = 0;
    *ctx = GSP_UNKNOWN;
    if (gsp_collect__read(self->stat_fd, &self->text) != 0)
        return false;
    *count = gsp_collect__parse_stat(gsp_buf_sv(&self->text), self->lines, self->line_cap, ctx);
    if (*count > self->line_cap && *count <= CORES_MAX &&
        gsp_array_fit(&self->lines, &self->line_cap, *count))
        gsp_collect__parse_stat(gsp_buf_sv(&self->text), self->lines, self->line_cap, ctx);
    if (*count > self->line_cap)
        *count = self->line_cap;
    return *count > 0;
}

static void read_freqs(struct cpu_collector *self, int64_t now_ns)
{
    double sum = 0;
    size_t known = 0;
    if (now_ns < self->next_freq_ns)
        return;
    self->next_freq_ns = now_ns + FREQ_NS;
    for (size_t i = 0; i < self->core_count; i++) {
        const uint64_t khz = gsp_collect__read_number(self->cores[i].freq_fd);
        self->cores[i].freq_mhz = khz == GSP_UNKNOWN ? gsp_null_f64() : (double)khz / 1000;
        sum += khz == GSP_UNKNOWN ? 0 : (double)khz / 1000;
        known += khz != GSP_UNKNOWN;
    }
    self->total.freq_mhz = known > 0 ? sum / (double)known : gsp_null_f64();
}

/* Fills the percentages of one line, and stores the line for the next tick. */
static void fill_shares(struct core *core, const struct gsp_cpu_line *line,
                        struct gsp_row_system_cpu *row)
{
    double pct[GSP_CPU_TIMES];
    if (core->has_last && gsp_collect__cpu_shares(line, &core->last, pct)) {
        row->user_percent = pct[GSP_CPU_USER];
        row->system_percent = pct[GSP_CPU_SYSTEM];
        row->iowait_percent = pct[GSP_CPU_IOWAIT];
        row->steal_percent = pct[GSP_CPU_STEAL];
        row->util_percent = pct[GSP_CPU_USER] + pct[GSP_CPU_SYSTEM] + pct[GSP_CPU_STEAL];
    }
    row->freq_mhz = core->freq_mhz;
    core->last = *line;
    core->has_last = true;
}

/* CPU time between two readings, as a percentage of cores. */
static double group_percent(uint64_t now, uint64_t last, double seconds, double cores)
{
    const double rate = gsp_collect__rate(now, last, seconds);
    return gsp_is_null_f64(rate) ? rate : rate / (double)GSP_NS_PER_S / cores * 100;
}

/* Fills percentages of the cgroup limit, if it is below that of the machine. */
static void fill_limit(struct cpu_collector *self, size_t online, double seconds,
                       const struct gsp_collect_tick *tick, struct gsp_row_system_cpu *row)
{
    struct gsp_cgroup_cpu now;
    gsp_collect__cgroup_cpu(&self->group, &self->env, tick->mono_ns, online, &now);
    const struct gsp_cgroup_cpu last = self->last_group;
    const bool limited = now.limit_cores > 0;
    row->machine_percent = row->util_percent;
    row->limit_cores = limited ? now.limit_cores : (double)online;
    if (limited) {
        const double cores = now.limit_cores;
        row->util_percent = group_percent(now.usage_ns, last.usage_ns, seconds, cores);
        row->user_percent = group_percent(now.user_ns, last.user_ns, seconds, cores);
        row->system_percent = group_percent(now.system_ns, last.system_ns, seconds, cores);
        row->throttled_percent = group_percent(now.throttled_ns, last.throttled_ns, seconds, 1);
        if (now.usage_ns == GSP_UNKNOWN)
            gsp_collect__trouble_add(&self->trouble, "the cgroup does not report its CPU time");
    }
    self->last_group = now;
}

static void put_total(struct cpu_collector *self, const struct gsp_collect_tick *tick,
                      size_t online, uint64_t ctx, struct gsp_collect_sink *sink,
                      struct gsp_row_system_cpu *row)
{
    const double seconds = gsp_collect__seconds(self->last_mono_ns, tick);
    struct gsp_loadavg load;
    fill_limit(self, online, seconds, tick, row);
    row->limit_source =
        sink->intern(sink, GSP_TABLE_system_cpu,
                     gsp_sv_of(row->limit_cores < (double)online ? "cgroup" : "machine"));
    row->ctx_switches_per_s = gsp_collect__rate(ctx, self->last_ctx, seconds);
    if (gsp_collect__read(self->load_fd, &self->text) == 0 &&
        gsp_collect__parse_loadavg(gsp_buf_sv(&self->text), &load)) {
        row->load_1m = load.load_1m;
        row->threads = gsp_collect__i64(load.threads);
        row->runnable = gsp_collect__i64(load.runnable);
    }
    self->last_ctx = ctx;
    sink->row(sink, GSP_TABLE_system_cpu, row);
}

static void read_cpu(void *collector, const struct gsp_collect_tick *tick,
                     struct gsp_collect_sink *sink)
{
    struct cpu_collector *self = collector;
    size_t count = 0;
    uint64_t ctx = 0;
    gsp_collect__trouble_begin(&self->trouble);
    if (!read_lines(self, &count, &ctx))
        gsp_collect__trouble_add(&self->trouble, "%s/stat lists no processors",
                                 self->env.proc_root);
    for (size_t i = 0; i < count; i++)
        gsp_ignore(!core_of(
            self, self->lines[i].cpu)); /* adds all cores before their frequencies are read */
    read_freqs(self, tick->mono_ns);
    for (size_t i = 0; i < count; i++) {
        const struct gsp_cpu_line *line = &self->lines[i];
        struct core *core = core_of(self, line->cpu);
        if (!core)
            continue;
        struct gsp_row_system_cpu row = self->blank;
        row.ts_ns = tick->ts_ns;
        row.mono_ns = tick->mono_ns;
        fill_shares(core, line, &row);
        if (line->cpu < 0) {
            put_total(self, tick, count > 1 ? count - 1 : 1, ctx, sink, &row);
        } else {
            row.cpu = line->cpu;
            sink->row(sink, GSP_TABLE_system_cpu, &row);
        }
    }
    self->last_mono_ns = tick->mono_ns;
    gsp_collect__trouble_end(&self->trouble);
}

const struct gsp_collector_type gsp_collect__cpu = {
    .name = "cpu",
    .doc = "processors, from /proc/stat and the cgroup's quota",
    .open = open_cpu,
    .read = read_cpu,
    .trouble = offsetof(struct cpu_collector, trouble),
    .close = close_cpu,
};
