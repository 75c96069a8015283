/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/core_native.h"

#include <string.h>

#define PAGE_BYTES      4096U
/* A dead thread may take time: enough for the deepest stack that gsprof shows. */
#define STACK_BYTES_MAX (1U << 20)

static int find_thread(const struct gsp_core *core, pid_t tid, size_t *out)
{
    size_t count;
    const struct gsp_task *tasks = gsp_proc_core_threads(core, &count);
    for (size_t i = 0; i < count; i++) {
        if (tasks[i].tid == tid) {
            *out = i;
            return GSP_OK;
        }
    }
    return GSP_E_NOPROC;
}

/* Copies from sp on, page by page, as far as the core has the stack. */
static void copy_stack(const struct gsp_core *core, struct gsp_mem *mem, uint64_t sp,
                       struct gsp_buf *bytes)
{
    const struct gsp_map *map = gsp_proc_maps_find(gsp_proc_core_maps(core), sp);
    uint64_t end = map ? map->end : sp;
    if (end - sp > STACK_BYTES_MAX)
        end = sp + STACK_BYTES_MAX;
    unsigned char page[PAGE_BYTES];
    for (uint64_t at = sp; at < end;) {
        uint64_t left = end - at;
        size_t n = PAGE_BYTES - (size_t)(at % PAGE_BYTES);
        if (n > left)
            n = (size_t)left;
        if (gsp_proc_mem_read(mem, at, page, n) != GSP_OK)
            return;
        gsp_buf_put(bytes, page, n);
        at += n;
    }
}

int gsp_sample__core_copy_thread(const struct gsp_core *core, struct gsp_mem *mem, pid_t tid,
                                 struct gsp_buf *bytes, struct gsp_native_copy *out)
{
    size_t index;
    struct gsp_core_unwind regs;
    int rc = find_thread(core, tid, &index);
    if (rc != GSP_OK)
        return rc;
    if (!gsp_proc_core_unwind_regs(core, index, &regs))
        return GSP_E_FORMAT;
    gsp_buf_clear(bytes);
    copy_stack(core, mem, regs.sp, bytes);
    if (bytes->failed)
        return GSP_E_NOMEM;
    *out = (struct gsp_native_copy){
        .regs = {.pc = regs.pc, .sp = regs.sp, .fp = regs.fp, .lr = regs.lr},
        .stack = bytes->len ? bytes->p : (const void *)"",
        .stack_len = bytes->len};
    memcpy(out->regs.kept, regs.kept, sizeof(out->regs.kept));
    return GSP_OK;
}
