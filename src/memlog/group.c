/* SPDX-License-Identifier: Apache-2.0 */
#include "memlog/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "model/tree.h"

#define NO_STACK "(unknown stack)"

const char *gsp_memlog_group_by_name(size_t i)
{
    static const char *const names[GSP_MEMBYS] = {
        [GSP_MEMBY_LINE] = "line",       [GSP_MEMBY_FUNCTION] = "function",
        [GSP_MEMBY_MODULE] = "module",   [GSP_MEMBY_THREAD] = "thread",
        [GSP_MEMBY_PROCESS] = "process", [GSP_MEMBY_ALLOCATOR] = "allocator",
    };
    return i < GSP_MEMBYS ? names[i] : NULL;
}

uint32_t gsp_memlog_group_frame(const struct gsp_profile *profile, uint32_t stack)
{
    const uint32_t innermost = gsp_model_profile_stack_frame(profile, stack);
    for (; stack != GSP_NONE; stack = gsp_model_profile_stack_caller(profile, stack)) {
        const uint32_t id = gsp_model_profile_stack_frame(profile, stack);
        const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, id);
        if (frame && frame->kind == GSP_FRAME_PYTHON)
            return id;
    }
    return innermost;
}

/* Whether it is code of the standard library or of an installed package. */
static bool is_library(struct gsp_sv file)
{
    static const char *const marks[] = {"/site-packages/", "/dist-packages/", "/lib/python"};
    for (size_t i = 0; i < GSP_COUNT(marks); i++)
        if (file.len && memmem(file.p, file.len, marks[i], strlen(marks[i])))
            return true;
    return file.len == 0 || file.p[0] == '<';
}

uint32_t gsp_memlog_group_caller(const struct gsp_profile *profile, uint32_t stack)
{
    const uint32_t own = gsp_memlog_group_frame(profile, stack);
    for (; stack != GSP_NONE; stack = gsp_model_profile_stack_caller(profile, stack)) {
        const uint32_t id = gsp_model_profile_stack_frame(profile, stack);
        const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, id);
        if (!frame || frame->kind != GSP_FRAME_PYTHON ||
            is_library(gsp_model_profile_string_at(profile, frame->file)))
            continue;
        return id == own ? GSP_NONE : id;
    }
    return GSP_NONE;
}

/* Returns the key that all sites of a group share. *id identifies the group for its name. */
static void key_of(const struct gsp_memlog *log, enum gsp_memlog_group_by by,
                   const struct gsp_memlog_site *site, uint64_t key[2], uint32_t *id)
{
    const struct gsp_profile *profile = gsp_memlog_profile(log);
    key[0] = by;
    *id = gsp_memlog_group_frame(profile, site->stack);
    const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, *id);
    switch (by) {
    case GSP_MEMBY_FUNCTION:
        key[0] = frame ? frame->name : 0;
        key[1] = frame ? frame->file : 0;
        break;
    case GSP_MEMBY_MODULE:
        /* The name of a native frame is its library. */
        key[0] = frame && frame->file == GSP_NONE ? frame->name : 0;
        key[1] = frame ? frame->file : 0;
        break;
    case GSP_MEMBY_THREAD:
        key[1] = *id = site->thread;
        break;
    case GSP_MEMBY_PROCESS:
        key[1] = *id = site->process;
        break;
    case GSP_MEMBY_ALLOCATOR:
        key[1] = *id = site->allocator;
        break;
    case GSP_MEMBY_LINE:
    case GSP_MEMBYS:
        /* Ignore members of the frame that are not shown. */
        key[0] = frame ? (uint64_t)frame->name << 32 | frame->line : 0;
        key[1] = frame ? frame->file : 0;
        break;
    }
}

static bool put_site(struct gsp_memlog_groups *groups, const struct gsp_memlog *log, size_t i,
                     struct gsp_hmap *map)
{
    uint64_t key[2] = {0};
    uint32_t id = 0;
    key_of(log, groups->by, gsp_memlog_site(log, i), key, &id);
    const uint32_t *known = gsp_hmap_get(map, key[0], key[1]);
    if (known) {
        groups->of_site[i] = *known;
        return true;
    }
    groups->of_site[i] = (uint32_t)groups->count;
    groups->ids[groups->count] = id;
    return gsp_hmap_put(map, key[0], key[1], (uint32_t)groups->count++);
}

int gsp_memlog_groups_create(struct gsp_memlog_groups *groups, const struct gsp_memlog *log,
                             enum gsp_memlog_group_by by, struct gsp_err *err)
{
    const size_t sites = gsp_memlog_site_count(log);
    struct gsp_hmap map = {0};
    *groups = (struct gsp_memlog_groups){.by = by};
    groups->of_site = calloc(sites + 1, sizeof(*groups->of_site));
    groups->ids = calloc(sites + 1, sizeof(*groups->ids));
    bool ok = groups->of_site && groups->ids;
    for (size_t i = 0; ok && i < sites; i++)
        ok = put_site(groups, log, i, &map);
    gsp_hmap_free(&map);
    if (ok)
        return GSP_OK;
    gsp_memlog_groups_free(groups);
    return gsp_err_nomem(err);
}

void gsp_memlog_groups_free(struct gsp_memlog_groups *groups)
{
    free(groups->of_site);
    free(groups->ids);
    *groups = (struct gsp_memlog_groups){0};
}

static void put_thread(const struct gsp_profile *profile, uint32_t index, struct gsp_buf *out)
{
    const struct gsp_thread *thread = gsp_model_profile_thread_at(profile, index);
    const struct gsp_process *process =
        thread ? gsp_model_profile_process_at(profile, thread->process) : NULL;
    if (!thread || thread->os_id == 0)
        gsp_buf_puts(out, "(unknown thread)");
    else
        gsp_buf_printf(out, "thread %llu%s", (unsigned long long)thread->os_id,
                       thread->is_main ? " (main)" : "");
    if (process)
        gsp_buf_printf(out, " of %d", process->pid);
}

void gsp_memlog_group_name(const struct gsp_memlog_groups *groups, const struct gsp_memlog *log,
                           uint32_t group, struct gsp_buf *out)
{
    const struct gsp_profile *profile = gsp_memlog_profile(log);
    const uint32_t id = groups->ids[group];
    const struct gsp_view_options view = {.no_lines = groups->by == GSP_MEMBY_FUNCTION};
    const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, id);
    const struct gsp_process *process = NULL;
    switch (groups->by) {
    case GSP_MEMBY_THREAD:
        put_thread(profile, id, out);
        return;
    case GSP_MEMBY_PROCESS:
        process = gsp_model_profile_process_at(profile, id);
        gsp_buf_printf(out, "%d: ", process ? process->pid : 0);
        gsp_buf_putsv(out,
                      gsp_model_profile_string_at(profile, process ? process->name : GSP_NONE));
        return;
    case GSP_MEMBY_ALLOCATOR:
        gsp_buf_puts(out, gsp_wire_memory_allocator_name(id));
        return;
    case GSP_MEMBY_MODULE:
        if (!frame)
            break;
        gsp_buf_putsv(out, frame->file ? gsp_model_frame_file(&view, gsp_model_profile_string_at(
                                                                         profile, frame->file))
                                       : gsp_model_profile_string_at(profile, frame->name));
        return;
    case GSP_MEMBY_LINE:
    case GSP_MEMBY_FUNCTION:
    case GSP_MEMBYS:
        break;
    }
    if (frame)
        gsp_model_frame_label(&view, profile, id, out);
    else
        gsp_buf_puts(out, NO_STACK);
}
