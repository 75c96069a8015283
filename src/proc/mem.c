/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

struct gsp_mem {
    const struct gsp_mem_ops *ops;
    void *self;
    uint64_t calls;
};

struct live {
    pid_t pid;
    struct iovec local[GSP_MEM_SPANS_MAX];
    struct iovec remote[GSP_MEM_SPANS_MAX];
};

struct recorded {
    struct gsp_mem_region *regions;
    size_t count;
};

static size_t spans_within(const struct gsp_mem_span *spans, size_t count, size_t bytes)
{
    size_t n = 0;
    while (n < count && bytes >= spans[n].len)
        bytes -= spans[n++].len;
    return n;
}

static int live_gather(void *self, const struct gsp_mem_span *spans, size_t count, size_t *done)
{
    struct live *live = self;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        live->local[i] = (struct iovec){spans[i].to, spans[i].len};
        /* An address of another process: never dereferenced here. */
        live->remote[i] = (struct iovec){(void *)(uintptr_t)spans[i].addr, spans[i].len};
        total += spans[i].len;
    }
    ssize_t got = process_vm_readv(live->pid, live->local, count, live->remote, count, 0);
    if (gsp_likely(got >= 0 && (size_t)got == total)) {
        *done = count;
        return GSP_OK;
    }
    *done = got > 0 ? spans_within(spans, count, (size_t)got) : 0;
    if (got >= 0 || errno == EFAULT || errno == EIO || errno == EINVAL)
        return GSP_E_FAULT;
    if (errno == ESRCH)
        return GSP_E_NOPROC;
    if (errno == EPERM)
        return GSP_E_PERM;
    return errno == ENOMEM ? GSP_E_NOMEM : GSP_E_IO;
}

static void live_free(void *self)
{
    free(self);
}

static const struct gsp_mem_ops LIVE_OPS = {live_gather, live_free};

static int recorded_read(const struct recorded *rec, const struct gsp_mem_span *span)
{
    for (size_t i = 0; i < rec->count; i++) {
        const struct gsp_mem_region *region = &rec->regions[i];
        if (span->addr < region->addr)
            continue;
        uint64_t off = span->addr - region->addr;
        if (off > region->len || span->len > region->len - off)
            continue;
        memcpy(span->to, (const char *)region->bytes + off, span->len);
        return GSP_OK;
    }
    return GSP_E_FAULT;
}

static int recorded_gather(void *self, const struct gsp_mem_span *spans, size_t count, size_t *done)
{
    for (size_t i = 0; i < count; i++) {
        if (recorded_read(self, &spans[i]) != GSP_OK) {
            *done = i;
            return GSP_E_FAULT;
        }
    }
    *done = count;
    return GSP_OK;
}

static void recorded_free(void *self)
{
    struct recorded *rec = self;
    free(rec->regions);
    free(rec);
}

static const struct gsp_mem_ops RECORDED_OPS = {recorded_gather, recorded_free};

int gsp_proc__mem_open_ops(const struct gsp_mem_ops *ops, void *self, struct gsp_mem **out,
                           struct gsp_err *err)
{
    *out = NULL;
    struct gsp_mem *mem = calloc(1, sizeof(*mem));
    if (!mem) {
        ops->free(self);
        return gsp_err_nomem(err);
    }
    mem->ops = ops;
    mem->self = self;
    *out = mem;
    return GSP_OK;
}

int gsp_proc_mem_open_pid(pid_t pid, struct gsp_mem **out, struct gsp_err *err)
{
    *out = NULL;
    struct live *live = calloc(1, sizeof(*live));
    if (!live)
        return gsp_err_nomem(err);
    live->pid = pid;
    return gsp_proc__mem_open_ops(&LIVE_OPS, live, out, err);
}

int gsp_proc__mem_open_regions(const struct gsp_mem_region *regions, size_t count,
                               struct gsp_mem **out, struct gsp_err *err)
{
    *out = NULL;
    struct recorded *rec = calloc(1, sizeof(*rec));
    if (!rec)
        return gsp_err_nomem(err);
    rec->regions = calloc(count ? count : 1, sizeof(*regions));
    if (!rec->regions) {
        free(rec);
        return gsp_err_nomem(err);
    }
    if (count)
        memcpy(rec->regions, regions, count * sizeof(*regions));
    rec->count = count;
    return gsp_proc__mem_open_ops(&RECORDED_OPS, rec, out, err);
}

void gsp_proc_mem_free(struct gsp_mem *mem)
{
    if (!mem)
        return;
    mem->ops->free(mem->self);
    free(mem);
}

int gsp_proc_mem_gather(struct gsp_mem *mem, const struct gsp_mem_span *spans, size_t count,
                        size_t *done)
{
    size_t total = 0;
    int rc = GSP_OK;
    while (rc == GSP_OK && total < count) {
        size_t batch = count - total < GSP_MEM_SPANS_MAX ? count - total : GSP_MEM_SPANS_MAX;
        size_t got = 0;
        mem->calls++;
        rc = mem->ops->gather(mem->self, spans + total, batch, &got);
        total += got;
    }
    if (done)
        *done = total;
    return rc;
}

int gsp_proc_mem_read(struct gsp_mem *mem, gsp_raddr addr, void *to, size_t len)
{
    if (len == 0)
        return GSP_OK;
    struct gsp_mem_span span = {addr, len, to};
    return gsp_proc_mem_gather(mem, &span, 1, NULL);
}

int gsp_proc_mem_read_u64(struct gsp_mem *mem, gsp_raddr addr, uint64_t *out)
{
    return gsp_proc_mem_read(mem, addr, out, sizeof(*out));
}

uint64_t gsp_proc__mem_calls(const struct gsp_mem *mem)
{
    return mem->calls;
}

int gsp_proc_mem_write_pid(pid_t pid, gsp_raddr addr, const void *from, size_t len)
{
    union {
        const void *from;
        void *base;
    } ours = {from}; /* only read */
    struct iovec here = {ours.base, len};
    struct iovec there = {(void *)(uintptr_t)addr, len};
    ssize_t n = process_vm_writev(pid, &here, 1, &there, 1, 0);
    if (n == (ssize_t)len)
        return GSP_OK;
    if (n < 0 && errno == ESRCH)
        return GSP_E_NOPROC;
    return n < 0 && errno == EPERM ? GSP_E_PERM : GSP_E_FAULT;
}
