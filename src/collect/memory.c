/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/file.h"
#include "collect/cgroup.h"
#include "collect/source.h"

struct memory_collector {
    struct gsp_collect_env env;
    struct gsp_row_system_memory blank;
    int meminfo_fd;
    int vmstat_fd;
    struct gsp_buf text;
    int64_t last_mono_ns;
    uint64_t last_faults;
    uint64_t last_major;
    struct gsp_cgroup group;
    struct gsp_collect_trouble trouble;
};

static void close_memory(void *collector)
{
    struct memory_collector *self = collector;
    if (!self)
        return;
    gsp_fd_close(&self->meminfo_fd);
    gsp_fd_close(&self->vmstat_fd);
    gsp_collect__cgroup_close(&self->group);
    gsp_buf_free(&self->text);
    free(self);
}

static int open_memory(const struct gsp_collect_env *env, void **out, struct gsp_err *err)
{
    *out = NULL;
    struct memory_collector *self = calloc(1, sizeof(*self));
    if (!self)
        return gsp_err_nomem(err);
    self->env = *env;
    self->last_faults = GSP_UNKNOWN;
    self->last_major = GSP_UNKNOWN;
    gsp_collect__cgroup_open(&self->group);
    gsp_collect__blank(GSP_TABLE_system_memory, &self->blank);
    self->vmstat_fd = gsp_collect__open("%s/vmstat", env->proc_root);
    self->meminfo_fd = gsp_collect__open("%s/meminfo", env->proc_root);
    if (self->meminfo_fd < 0) {
        close_memory(self);
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "%s/meminfo cannot be read", env->proc_root);
    }
    *out = self;
    return 0;
}

/* a - b, or unknown. */
static int64_t difference(uint64_t a, uint64_t b)
{
    return a == GSP_UNKNOWN || b == GSP_UNKNOWN || a < b ? GSP_NULL_I64 : gsp_collect__i64(a - b);
}

static uint64_t sum(const uint64_t *values, size_t count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++) {
        if (values[i] > INT64_MAX || all > INT64_MAX)
            return GSP_UNKNOWN;
        all += values[i];
    }
    return all;
}

static void fill_machine(struct memory_collector *self, struct gsp_row_system_memory *row)
{
    enum { TOTAL, FREE, AVAILABLE, BUFFERS, CACHED, SWAP_TOTAL, SWAP_FREE, COUNT };
    static const char *const keys[COUNT] = {"MemTotal", "MemFree",   "MemAvailable", "Buffers",
                                            "Cached",   "SwapTotal", "SwapFree"};
    uint64_t v[COUNT];
    if (gsp_collect__read(self->meminfo_fd, &self->text) != 0 ||
        gsp_collect__parse_keys(gsp_buf_sv(&self->text), keys, COUNT, v) == 0) {
        gsp_collect__trouble_add(&self->trouble, "%s/meminfo is empty", self->env.proc_root);
        return;
    }
    /* Before Linux 3.14 there was no MemAvailable. */
    if (v[AVAILABLE] == GSP_UNKNOWN)
        v[AVAILABLE] = sum((uint64_t[]){v[FREE], v[BUFFERS], v[CACHED]}, 3);
    row->total_bytes = gsp_collect__i64(v[TOTAL]);
    row->available_bytes = gsp_collect__i64(v[AVAILABLE]);
    row->used_bytes = difference(v[TOTAL], v[AVAILABLE]);
    row->cached_bytes = gsp_collect__i64(sum((uint64_t[]){v[BUFFERS], v[CACHED]}, 2));
    row->swap_total_bytes = gsp_collect__i64(v[SWAP_TOTAL]);
    row->swap_used_bytes = difference(v[SWAP_TOTAL], v[SWAP_FREE]);
}

static void fill_faults(struct memory_collector *self, const struct gsp_collect_tick *tick,
                        struct gsp_row_system_memory *row)
{
    static const char *const keys[] = {"pgfault", "pgmajfault"};
    const double seconds = gsp_collect__seconds(self->last_mono_ns, tick);
    uint64_t v[2] = {GSP_UNKNOWN, GSP_UNKNOWN};
    if (gsp_collect__read(self->vmstat_fd, &self->text) == 0)
        gsp_collect__parse_keys(gsp_buf_sv(&self->text), keys, 2, v);
    row->faults_per_s = gsp_collect__rate(v[0], self->last_faults, seconds);
    row->major_faults_per_s = gsp_collect__rate(v[1], self->last_major, seconds);
    self->last_faults = v[0];
    self->last_major = v[1];
}

/* Fills the values of the cgroup, if it allows difference than the machine has. */
static const char *fill_limit(struct memory_collector *self, const struct gsp_collect_tick *tick,
                              struct gsp_row_system_memory *row)
{
    struct gsp_cgroup_memory now;
    gsp_collect__cgroup_memory(&self->group, &self->env, tick->mono_ns, &now);
    if (now.limit_bytes > INT64_MAX ||
        (row->total_bytes != GSP_NULL_I64 && (int64_t)now.limit_bytes >= row->total_bytes))
        return "machine";
    if (now.used_bytes == GSP_UNKNOWN)
        gsp_collect__trouble_add(&self->trouble, "the cgroup does not report its memory");
    const uint64_t limit = now.limit_bytes;
    const uint64_t used = now.used_bytes;
    row->total_bytes = (int64_t)limit;
    row->used_bytes = gsp_collect__i64(used);
    row->available_bytes = used != GSP_UNKNOWN && used > limit ? 0 : difference(limit, used);
    row->cached_bytes = gsp_collect__i64(now.cached_bytes);
    if (now.swap_limit_bytes <= INT64_MAX) {
        if (row->swap_total_bytes == GSP_NULL_I64 ||
            (int64_t)now.swap_limit_bytes < row->swap_total_bytes)
            row->swap_total_bytes = (int64_t)now.swap_limit_bytes;
        row->swap_used_bytes = gsp_collect__i64(now.swap_used_bytes);
    }
    return "cgroup";
}

static void read_memory(void *collector, const struct gsp_collect_tick *tick,
                        struct gsp_collect_sink *sink)
{
    struct memory_collector *self = collector;
    struct gsp_row_system_memory row = self->blank;
    gsp_collect__trouble_begin(&self->trouble);
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    fill_machine(self, &row);
    fill_faults(self, tick, &row);
    const char *source = fill_limit(self, tick, &row);
    row.limit_source = sink->intern(sink, GSP_TABLE_system_memory, gsp_sv_of(source));
    sink->row(sink, GSP_TABLE_system_memory, &row);
    self->last_mono_ns = tick->mono_ns;
    gsp_collect__trouble_end(&self->trouble);
}

const struct gsp_collector_type gsp_collect__memory = {
    .name = "memory",
    .doc = "memory, swap and page faults, from /proc/meminfo, /proc/vmstat and the cgroup",
    .open = open_memory,
    .read = read_memory,
    .trouble = offsetof(struct memory_collector, trouble),
    .close = close_memory,
};
