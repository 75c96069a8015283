/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/file.h"
#include "collect/gpu_nvml.h"

#define NAME_NS         GSP_NS_PER_S
#define SAMPLES_US      1000000U
#define SAMPLES_KEEP_NS (2 * GSP_NS_PER_S)

typedef int (*list_fn)(gsp_nvml_dev dev, unsigned *count, struct gsp_nvml_process *out);

/* Appends to procs->list. */
static int add_processes(struct gsp_gpu_procs *procs, const struct gsp_gpu_context *context,
                         list_fn list, unsigned *total)
{
    unsigned count = GSP_GPU_PROCESSES_MAX - *total;
    if (!list || count == 0)
        return GSP_NVML_NOT_SUPPORTED;
    const int code = list(context->dev, &count, &procs->list[*total]);
    /* More processes than fit: the library then returns none of them. */
    if (code == GSP_NVML_OK && count <= GSP_GPU_PROCESSES_MAX - *total)
        *total += count;
    return code;
}

/* The newest sample of a process; NULL value if it has none. */
static double util_of(const struct gsp_gpu_procs *procs, unsigned count, unsigned pid)
{
    unsigned long long newest = 0;
    double util = gsp_null_f64();
    for (unsigned i = 0; i < count; i++) {
        const struct gsp_nvml_sample *sample = &procs->samples[i];
        if (sample->pid == pid && sample->time_us >= newest && sample->sm_util <= 100) {
            newest = sample->time_us;
            util = (double)sample->sm_util;
        }
    }
    return util;
}

/* The driver may sample less often than gsprof reads, and has no samples of idle processes.
 * Samples of the last second count, until none has arrived for a while. */
static unsigned read_samples(struct gsp_gpu_procs *procs, const struct gsp_gpu_context *context,
                             struct gsp_gpu_samples *known)
{
    const unsigned long long since =
        known->newest_us > SAMPLES_US ? known->newest_us - SAMPLES_US : 0;
    unsigned count = GSP_GPU_PROCESSES_MAX;
    if (!context->nvml->process_util ||
        context->nvml->process_util(context->dev, procs->samples, &count, since) != GSP_NVML_OK ||
        count > GSP_GPU_PROCESSES_MAX)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        if (procs->samples[i].time_us > known->newest_us) {
            known->newest_us = procs->samples[i].time_us;
            known->seen_ns = context->tick->mono_ns;
        }
    }
    return context->tick->mono_ns - known->seen_ns <= SAMPLES_KEEP_NS ? count : 0;
}

/* The driver reports host pids. If gsprof sees the processes of the host, the last number of
 * NSpid is the pid in the container. */
static void read_name(struct gsp_gpu_procs *procs, const struct gsp_collect_env *env,
                      struct gsp_gpu_name *entry)
{
    struct gsp_pid_stat stat;
    uint64_t inner = 0;
    bool nested = false;
    const long long pid = entry->pid;
    gsp_auto_fd stat_fd = gsp_collect__open("%s/%lld/stat", env->proc_root, pid);
    gsp_auto_fd status_fd = gsp_collect__open("%s/%lld/status", env->proc_root, pid);
    entry->container_pid = GSP_NULL_I64;
    entry->name[0] = '\0';
    if (gsp_collect__read(stat_fd, &procs->text) == 0 &&
        gsp_collect__parse_pid_stat(gsp_buf_sv(&procs->text), &stat)) {
        const size_t len =
            stat.comm.len < sizeof(entry->name) ? stat.comm.len : sizeof(entry->name) - 1;
        memcpy(entry->name, stat.comm.p, len);
        entry->name[len] = '\0';
    }
    if (gsp_collect__read(status_fd, &procs->text) == 0 &&
        gsp_collect__parse_nspid(gsp_buf_sv(&procs->text), &inner, &nested) && nested)
        entry->container_pid = gsp_collect__i64(inner);
}

/* Indexed by the lowest bits of the pid. Two pids that collide are looked up each time. */
static const struct gsp_gpu_name *name_of(struct gsp_gpu_procs *procs,
                                          const struct gsp_gpu_context *context, unsigned pid)
{
    struct gsp_gpu_name *entry = &procs->names[pid % GSP_GPU_PROCESSES_MAX];
    if (entry->pid != (int64_t)pid || context->tick->mono_ns >= entry->until_ns) {
        entry->pid = pid;
        entry->until_ns = context->tick->mono_ns + NAME_NS;
        read_name(procs, context->env, entry);
    }
    return entry;
}

static bool is_duplicate(const struct gsp_gpu_procs *procs, unsigned i)
{
    for (unsigned j = 0; j < i; j++)
        if (procs->list[j].pid == procs->list[i].pid &&
            procs->list[j].gpu_instance == procs->list[i].gpu_instance)
            return true;
    return false;
}

int gsp_collect__gpu_processes(struct gsp_gpu_procs *procs, const struct gsp_gpu_context *context,
                               struct gsp_gpu_samples *samples, struct gsp_collect_sink *sink)
{
    unsigned count = 0;
    const int code = add_processes(procs, context, context->nvml->compute_processes, &count);
    add_processes(procs, context, context->nvml->graphics_processes, &count);
    const unsigned sampled = count ? read_samples(procs, context, samples) : 0;
    for (unsigned i = 0; i < count; i++) {
        const struct gsp_nvml_process *process = &procs->list[i];
        struct gsp_row_gpu_process row;
        if (is_duplicate(procs, i)) /* listed for both compute and graphics */
            continue;
        const struct gsp_gpu_name *name = name_of(procs, context, process->pid);
        gsp_collect__blank(GSP_TABLE_gpu_process, &row);
        row.ts_ns = context->tick->ts_ns;
        row.mono_ns = context->tick->mono_ns;
        row.pid = process->pid;
        row.gpu = context->gpu;
        if (name->name[0])
            row.name = sink->intern(sink, GSP_TABLE_gpu_process, gsp_sv_of(name->name));
        row.container_pid = name->container_pid;
        if (process->memory != GSP_NVML_MEMORY_UNKNOWN)
            row.memory_used_bytes = gsp_collect__i64(process->memory);
        if (process->gpu_instance != GSP_NVML_NO_INSTANCE)
            row.gpu_instance = process->gpu_instance;
        row.util_percent = util_of(procs, sampled, process->pid);
        sink->row(sink, GSP_TABLE_gpu_process, &row);
    }
    return code;
}
