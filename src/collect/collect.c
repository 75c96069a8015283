/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/source.h"

/* Retry interval of a source that may become available, such as a driver that is loaded later. */
#define RETRY_NS (30 * GSP_NS_PER_S)

static const struct gsp_collector_type *const types[] = {
    &gsp_collect__cpu,      &gsp_collect__memory,     &gsp_collect__disk,
    &gsp_collect__network,  &gsp_collect__pressure,   &gsp_collect__process,
    &gsp_collect__gpu_nvml, &gsp_collect__gpu_amdgpu, &gsp_collect__energy,
};
#define TYPES GSP_COUNT(types)

struct slot {
    void *collector;     /* NULL: not open */
    struct gsp_err err;  /* why */
    int64_t next_try_ns; /* 0: at the first read */
};

struct gsp_collect {
    struct gsp_collect_env env; /* owns its strings */
    struct slot slots[TYPES];
    int32_t *pids;
    size_t pid_count;
};

const struct gsp_collector_type *gsp_collect__collector_type_at(size_t i)
{
    return i < TYPES ? types[i] : NULL;
}

void gsp_collect_close(struct gsp_collect *collect)
{
    if (!collect)
        return;
    for (size_t i = 0; i < TYPES; i++)
        types[i]->close(collect->slots[i].collector);
    free((void *)(uintptr_t)collect->env.proc_root);
    free((void *)(uintptr_t)collect->env.sys_root);
    free((void *)(uintptr_t)collect->env.nvml_library);
    free(collect->pids);
    free(collect);
}

static void try_open(struct gsp_collect *collect, size_t i)
{
    struct slot *slot = &collect->slots[i];
    slot->err = (struct gsp_err){0};
    if (types[i]->open(&collect->env, &slot->collector, &slot->err) != 0)
        return;
    if (types[i]->watch && collect->pid_count > 0)
        types[i]->watch(slot->collector, collect->pids, collect->pid_count);
}

int gsp_collect_open(const struct gsp_collect_env *env, struct gsp_collect **out,
                     struct gsp_err *err)
{
    *out = NULL;
    struct gsp_collect *collect = calloc(1, sizeof(*collect));
    if (!collect)
        return gsp_err_nomem(err);
    collect->env = *env;
    collect->env.proc_root = strdup(env->proc_root ? env->proc_root : "/proc");
    collect->env.sys_root = strdup(env->sys_root ? env->sys_root : "/sys");
    collect->env.nvml_library = strdup(env->nvml_library ? env->nvml_library : "");
    if (!collect->env.proc_root || !collect->env.sys_root || !collect->env.nvml_library) {
        gsp_collect_close(collect);
        return gsp_err_nomem(err);
    }
    for (size_t i = 0; i < TYPES; i++)
        try_open(collect, i);
    *out = collect;
    return 0;
}

static void retry(struct gsp_collect *collect, size_t i, int64_t now_ns)
{
    struct slot *slot = &collect->slots[i];
    if (slot->err.code == GSP_E_NOTSUP)
        return;
    if (slot->next_try_ns != 0 && now_ns >= slot->next_try_ns)
        try_open(collect, i);
    if (slot->next_try_ns == 0 || now_ns >= slot->next_try_ns)
        slot->next_try_ns = now_ns + RETRY_NS;
}

void gsp_collect_read(struct gsp_collect *collect, const struct gsp_collect_tick *tick,
                      struct gsp_collect_sink *sink)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (!collect->slots[i].collector)
            retry(collect, i, tick->mono_ns);
        if (collect->slots[i].collector)
            types[i]->read(collect->slots[i].collector, tick, sink);
    }
}

void gsp_collect_watch(struct gsp_collect *collect, const int32_t *pids, size_t count)
{
    int32_t *copy = calloc(count ? count : 1, sizeof(*copy));
    if (!copy)
        return;
    if (count > 0)
        memcpy(copy, pids, count * sizeof(*copy));
    free(collect->pids);
    collect->pids = copy;
    collect->pid_count = count;
    for (size_t i = 0; i < TYPES; i++)
        if (collect->slots[i].collector && types[i]->watch)
            types[i]->watch(collect->slots[i].collector, copy, count);
}

bool gsp_collect_state(const struct gsp_collect *collect, size_t i, struct gsp_collect_state *out)
{
    if (i >= TYPES)
        return false;
    const struct slot *slot = &collect->slots[i];
    *out = (struct gsp_collect_state){
        .name = types[i]->name,
        .doc = types[i]->doc,
        .open = slot->collector != NULL,
        .trouble = slot->collector
                       ? gsp_collect__trouble_get(
                             (const void *)((const char *)slot->collector + types[i]->trouble))
                       : slot->err.msg};
    return true;
}
