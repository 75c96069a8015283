/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/snap.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES      4096ULL
/* Bytes fetched beyond the requested ones: the next frame of a stack is usually there. */
#define AHEAD_BYTES     192U
/* Windows closer than this are merged: a span costs as much as copying about 2 KB. */
#define MERGE_GAP_BYTES 768U
/* Unused parts of windows are dropped after this number of refreshes. */
#define TRIM_AGE        64U

void gsp_proc_snap_init(struct gsp_snap *snap, struct gsp_mem *mem)
{
    *snap = (struct gsp_snap){.mem = mem};
}

void gsp_proc_snap_free(struct gsp_snap *snap)
{
    free(snap->buf);
    *snap = (struct gsp_snap){0};
}

static void trim(struct gsp_snap *snap)
{
    size_t kept = 0;
    for (size_t i = 0; i < snap->count; i++) {
        struct gsp_snap_window win = snap->windows[i];
        if (win.used_lo >= win.used_hi)
            continue;
        win.addr += win.used_lo;
        win.len = win.used_hi - win.used_lo;
        win.used_lo = UINT32_MAX;
        win.used_hi = 0;
        snap->windows[kept++] = win;
    }
    snap->count = kept;
    snap->age = 0;
}

static void merge(struct gsp_snap *snap)
{
    size_t kept = 0;
    for (size_t i = 0; i < snap->count; i++) {
        struct gsp_snap_window *win = &snap->windows[i];
        struct gsp_snap_window *prev = kept ? &snap->windows[kept - 1] : NULL;
        gsp_raddr end = win->addr + win->len;
        if (!prev || win->addr > prev->addr + prev->len + MERGE_GAP_BYTES ||
            end - prev->addr > GSP_SNAP_WINDOW_BYTES_MAX) {
            snap->windows[kept++] = *win;
            continue;
        }
        uint32_t shift = (uint32_t)(win->addr - prev->addr);
        if (win->used_lo < win->used_hi) {
            if (win->used_lo + shift < prev->used_lo)
                prev->used_lo = win->used_lo + shift;
            if (win->used_hi + shift > prev->used_hi)
                prev->used_hi = win->used_hi + shift;
        }
        if (shift + win->len > prev->len)
            prev->len = shift + win->len;
    }
    snap->count = kept;
}

static bool reserve(struct gsp_snap *snap, size_t need)
{
    if (need <= snap->buf_cap)
        return true;
    size_t cap = snap->buf_cap ? snap->buf_cap : 16384;
    while (cap < need)
        cap *= 2;
    unsigned char *buf = realloc(snap->buf, cap);
    if (!buf)
        return false;
    snap->buf = buf;
    snap->buf_cap = cap;
    return true;
}

size_t gsp_proc_snap_plan(struct gsp_snap *snap, struct gsp_mem_span *spans, size_t cap)
{
    if (++snap->age >= TRIM_AGE)
        trim(snap);
    merge(snap);
    snap->last = 0;
    snap->buf_len = 0;
    size_t need = 0;
    for (size_t i = 0; i < snap->count; i++)
        need += snap->windows[i].len;
    if (!reserve(snap, need)) {
        snap->count = 0;
        return 0;
    }
    size_t n = 0;
    for (size_t i = 0; i < snap->count; i++) {
        struct gsp_snap_window *win = &snap->windows[i];
        win->off = (uint32_t)snap->buf_len;
        win->valid = false;
        win->has_twin = false;
        snap->buf_len += win->len;
        if (n < cap)
            spans[n++] = (struct gsp_mem_span){win->addr, win->len, snap->buf + win->off};
    }
    snap->planned = n;
    return n;
}

void gsp_proc_snap_filled(struct gsp_snap *snap, size_t done)
{
    for (size_t i = 0; i < snap->count && i < done; i++)
        snap->windows[i].valid = true;
    /* The gather failed at this window: its memory is no longer mapped. */
    if (done < snap->planned) {
        memmove(&snap->windows[done], &snap->windows[done + 1],
                (snap->count - done - 1) * sizeof(snap->windows[0]));
        snap->count--;
    }
}

void gsp_proc_snap_refresh(struct gsp_snap *snap)
{
    struct gsp_mem_span spans[GSP_SNAP_WINDOWS_MAX];
    size_t count = gsp_proc_snap_plan(snap, spans, GSP_COUNT(spans));
    size_t done = 0;
    int rc = count ? gsp_proc_mem_gather(snap->mem, spans, count, &done) : GSP_OK;
    if (rc == GSP_OK || rc == GSP_E_FAULT)
        gsp_proc_snap_filled(snap, done);
}

void gsp_proc_snap_refresh_twice(struct gsp_snap *snap)
{
    struct gsp_mem_span spans[2 * GSP_SNAP_WINDOWS_MAX];
    size_t count = gsp_proc_snap_plan(snap, spans, GSP_SNAP_WINDOWS_MAX);
    snap->twin_off = snap->buf_len;
    if (!reserve(snap, 2 * snap->twin_off))
        count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct gsp_snap_window *win = &snap->windows[i];
        unsigned char *to = snap->buf + win->off;
        spans[2 * i] = (struct gsp_mem_span){win->addr, win->len, to};
        spans[2 * i + 1] = (struct gsp_mem_span){win->addr, win->len, to + snap->twin_off};
    }
    snap->buf_len *= 2;
    size_t done = 0;
    int rc = count ? gsp_proc_mem_gather(snap->mem, spans, 2 * count, &done) : GSP_OK;
    if (rc != GSP_OK && rc != GSP_E_FAULT)
        return;
    for (size_t i = 0; i < done / 2; i++)
        snap->windows[i].has_twin = true;
    gsp_proc_snap_filled(snap, done / 2);
}

/* Index of the last window that begins at or before addr, or count. */
static size_t locate(const struct gsp_snap *snap, gsp_raddr addr)
{
    size_t lo = 0;
    size_t hi = snap->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (snap->windows[mid].addr <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? lo - 1 : snap->count;
}

static bool covers(const struct gsp_snap_window *win, gsp_raddr addr, size_t len)
{
    return addr >= win->addr && addr - win->addr <= win->len &&
           len <= win->len - (addr - win->addr);
}

/* Returns the bytes and marks them as used. */
static const unsigned char *use(struct gsp_snap *snap, struct gsp_snap_window *win, gsp_raddr addr,
                                size_t len)
{
    uint32_t at = (uint32_t)(addr - win->addr);
    if (at < win->used_lo)
        win->used_lo = at;
    if (at + len > win->used_hi)
        win->used_hi = at + (uint32_t)len;
    return snap->buf + win->off + at;
}

/* Inserts an uninitialized window in sorted order. Returns NULL if all windows are in use. */
static struct gsp_snap_window *insert(struct gsp_snap *snap, gsp_raddr addr)
{
    if (snap->count == GSP_SNAP_WINDOWS_MAX)
        return NULL;
    size_t at = locate(snap, addr);
    at = at == snap->count ? 0 : at + 1;
    memmove(&snap->windows[at + 1], &snap->windows[at],
            (snap->count - at) * sizeof(snap->windows[0]));
    snap->count++;
    snap->last = at;
    return &snap->windows[at];
}

/* Fetches a new window. Does not read beyond the last page of the requested bytes. */
static int fetch(struct gsp_snap *snap, gsp_raddr addr, size_t len, const unsigned char **out)
{
    snap->misses++;
    gsp_raddr page_end = ((addr + len - 1) | (PAGE_BYTES - 1)) + 1;
    size_t win_len = len + AHEAD_BYTES;
    if (addr + win_len > page_end)
        win_len = (size_t)(page_end - addr);
    if (win_len > GSP_SNAP_WINDOW_BYTES_MAX)
        return GSP_E_LIMIT;
    if (!reserve(snap, snap->buf_len + win_len))
        return GSP_E_NOMEM;
    int rc = gsp_proc_mem_read(snap->mem, addr, snap->buf + snap->buf_len, win_len);
    if (rc != GSP_OK)
        return rc;
    struct gsp_snap_window *win = insert(snap, addr);
    if (!win) {
        /* All windows are in use: these bytes are read each time. */
        *out = snap->buf + snap->buf_len;
        snap->buf_len += win_len;
        return GSP_OK;
    }
    *win = (struct gsp_snap_window){.addr = addr,
                                    .len = (uint32_t)win_len,
                                    .off = (uint32_t)snap->buf_len,
                                    .used_lo = UINT32_MAX,
                                    .valid = true};
    snap->buf_len += win_len;
    *out = use(snap, win, addr, len);
    return GSP_OK;
}

int gsp_proc_snap_view(struct gsp_snap *snap, gsp_raddr addr, size_t len, const unsigned char **out)
{
    if (gsp_likely(snap->last < snap->count)) {
        struct gsp_snap_window *win = &snap->windows[snap->last];
        if (gsp_likely(win->valid && covers(win, addr, len))) {
            *out = use(snap, win, addr, len);
            return GSP_OK;
        }
    }
    if (addr + len < addr)
        return GSP_E_FAULT;
    size_t i = locate(snap, addr);
    /* Windows can overlap until the next merge, so check the previous window as well. */
    for (size_t back = 0; i < snap->count && back < 2; back++) {
        struct gsp_snap_window *win = &snap->windows[i];
        if (win->valid && covers(win, addr, len)) {
            snap->last = i;
            *out = use(snap, win, addr, len);
            return GSP_OK;
        }
        if (i == 0)
            break;
        i--;
    }
    return fetch(snap, addr, len, out);
}

int gsp_proc_snap_read(struct gsp_snap *snap, gsp_raddr addr, void *to, size_t len)
{
    const unsigned char *bytes;
    int rc = gsp_proc_snap_view(snap, addr, len, &bytes);
    if (rc == GSP_OK)
        memcpy(to, bytes, len);
    return rc;
}

const unsigned char *gsp_proc_snap_twin(const struct gsp_snap *snap, gsp_raddr addr, size_t len)
{
    size_t i = locate(snap, addr);
    if (i == snap->count || !snap->windows[i].has_twin || !covers(&snap->windows[i], addr, len))
        return NULL;
    return snap->buf + snap->twin_off + snap->windows[i].off + (addr - snap->windows[i].addr);
}
