/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a core. The file is read, not mapped: if a mapped file is truncated, access to it
 * kills the reader. */
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "proc/core_internal.h"

const struct gsp_core__load *gsp_proc__core_load_at(const struct gsp_core *core, uint64_t addr)
{
    size_t lo = 0;
    size_t hi = core->load_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct gsp_core__load *load = &core->loads[mid];
        if (addr < load->addr)
            hi = mid;
        else if (addr - load->addr >= load->mem_len)
            lo = mid + 1;
        else
            return load;
    }
    return NULL;
}

const struct gsp_core__area *gsp_proc__core_file_at(const struct gsp_core *core, uint64_t addr)
{
    size_t lo = 0;
    size_t hi = core->file_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct gsp_core__area *area = &core->files[mid];
        if (addr < area->start)
            hi = mid;
        else if (addr >= area->end)
            lo = mid + 1;
        else
            return area;
    }
    return NULL;
}

void gsp_proc__core_count_missing(struct gsp_core *core)
{
    core->info.missing_bytes = 0;
    for (size_t i = 0; i < core->load_count; i++) {
        struct gsp_core__load *load = &core->loads[i];
        uint64_t available = load->offset < core->len ? core->len - load->offset : 0;
        load->file_len = load->meant_len < available ? load->meant_len : available;
        core->info.missing_bytes += load->meant_len - load->file_len;
    }
}

/* Updates the counts if the file has been truncated since it was opened. */
static void check_truncated(struct gsp_core *core)
{
    struct stat st;
    if (fstat(core->fd, &st) == 0 && (uint64_t)st.st_size < core->len) {
        core->len = (uint64_t)st.st_size;
        gsp_proc__core_count_missing(core);
    }
}

bool gsp_proc__core_read(struct gsp_core *core, uint64_t off, void *to, size_t len)
{
    if (off > core->len || len > core->len - off)
        return false;
    if (core->fd < 0) {
        memcpy(to, core->bytes + off, len);
        return true;
    }
    if (gsp_fd_read_at(core->fd, to, len, off) == (ssize_t)len)
        return true;
    check_truncated(core);
    return false;
}

size_t gsp_proc__core_read_mem(struct gsp_core *core, uint64_t addr, void *to, size_t len)
{
    const struct gsp_core__load *load = gsp_proc__core_load_at(core, addr);
    uint64_t off = load ? addr - load->addr : 0;
    if (!load || off >= load->file_len)
        return 0;
    size_t n = load->file_len - off < len ? (size_t)(load->file_len - off) : len;
    return gsp_proc__core_read(core, load->offset + off, to, n) ? n : 0;
}

/* Address of the next load above addr. A load takes precedence over the mapped file. */
static uint64_t next_load(const struct gsp_core *core, uint64_t addr)
{
    size_t lo = 0;
    size_t hi = core->load_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (core->loads[mid].addr > addr)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo < core->load_count ? core->loads[lo].addr : UINT64_MAX;
}

static int read_span(struct gsp_core *core, const struct gsp_mem_span *span)
{
    unsigned char *to = span->to;
    for (size_t done = 0; done < span->len;) {
        uint64_t addr = span->addr + done;
        size_t left = span->len - done;
        size_t got = gsp_proc__core_read_mem(core, addr, to + done, left);
        if (got) {
            done += got;
            continue;
        }
        const struct gsp_core__load *load = gsp_proc__core_load_at(core, addr);
        const struct gsp_core__area *area = gsp_proc__core_file_at(core, addr);
        if (!area || (load && addr - load->addr < load->meant_len))
            return GSP_E_FAULT;
        uint64_t end = next_load(core, addr);
        if (end > area->end)
            end = area->end;
        size_t n = end - addr < left ? (size_t)(end - addr) : left;
        if (!gsp_proc__core_module_read(core, area->module, area->offset + (addr - area->start),
                                        to + done, n))
            return GSP_E_FAULT;
        done += n;
    }
    return GSP_OK;
}

static int core_gather(void *self, const struct gsp_mem_span *spans, size_t count, size_t *done)
{
    for (size_t i = 0; i < count; i++) {
        if (read_span(self, &spans[i]) != GSP_OK) {
            *done = i;
            return GSP_E_FAULT;
        }
    }
    *done = count;
    return GSP_OK;
}

static void core_release(void *self)
{
    (void)self; /* the owner of the core closes it */
}

static const struct gsp_mem_ops CORE_OPS = {core_gather, core_release};

int gsp_proc_core_mem(struct gsp_core *core, struct gsp_mem **out, struct gsp_err *err)
{
    return gsp_proc__mem_open_ops(&CORE_OPS, core, out, err);
}
