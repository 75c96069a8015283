/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "ring/check.h"
#include "ring/copy.h"
#include "ring/guard.h"

#define BLOCK_BYTES 512U /* unit of st_blocks */

/* A mapped part of the file: the front, or the lanes that existed when it was mapped. */
struct part {
    char *start;
    size_t len;
    _Atomic uintptr_t cut; /* the file is truncated at this address; UINTPTR_MAX: it is not */
    struct part *next;
};

struct lane {
    const char *base;
    const struct part *part;
};

struct gsp_ring_view {
    struct gsp_ring_info info;
    struct gsp_ring__shape shape;
    struct gsp_lock lock;
    const struct gsp_ring_head *head;
    const struct part *front;
    struct part *parts GSP_GUARDED_BY(lock);
    struct lane *lanes;          /* shape.lane_max of them */
    _Atomic uint32_t lane_count; /* mapped lanes; they never change */
    atomic_bool is_short;        /* the file has fewer lanes than its head states */
    int time_column;             /* -1: none */
    bool is_memory;              /* reading a hole of the file would allocate memory for it */
    int fd;
};

static struct part *map_part(struct gsp_ring_view *view, uint64_t off, uint64_t len,
                             struct gsp_err *err)
{
    struct part *part = calloc(1, sizeof(*part));
    if (!part) {
        (void)gsp_err_nomem(err);
        return NULL;
    }
    part->len = len;
    atomic_init(&part->cut, UINTPTR_MAX);
    part->start = mmap(NULL, len, PROT_READ, MAP_SHARED, view->fd, (off_t)off);
    if (part->start == MAP_FAILED) {
        gsp_err_fill(err, GSP_E_NOMEM, errno, "cannot map a ring: %s", strerror(errno));
        free(part);
        return NULL;
    }
    if (gsp_ring_guard_add(part->start, len, false, &part->cut, err) != 0) {
        munmap(part->start, len);
        free(part);
        return NULL;
    }
    part->next = view->parts;
    view->parts = part;
    return part;
}

static int open_file(int folder_fd, const char *name, struct gsp_err *err)
{
    struct stat folder;
    struct stat file;
    if (strchr(name, '/'))
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s is not a file name", name);
    /* Do not follow links, or wait for the other end of a FIFO. */
    gsp_auto_fd fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        const int code = errno == ENOENT ? GSP_E_NOFILE : GSP_E_PERM;
        gsp_err_fill(err, code, errno, "%s: %s", name, strerror(errno));
        return code;
    }
    if (fstat(fd, &file) != 0 || fstat(folder_fd, &folder) != 0)
        return gsp_err_set(err, GSP_E_IO, errno, "%s: %s", name, strerror(errno));
    if (!S_ISREG(file.st_mode))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%s is not a regular file", name);
    if (file.st_uid != folder.st_uid || (geteuid() != 0 && file.st_uid != geteuid())) {
        return gsp_err_set(err, GSP_E_PERM, 0, "%s belongs to user %u", name,
                           (unsigned)file.st_uid);
    }
    /* Another directory or name would show the same rows again. */
    if (file.st_nlink > 1)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%s has %llu hard links", name,
                           (unsigned long long)file.st_nlink);
    return gsp_fd_release(&fd);
}

/* The bytes that the file really has. */
static uint64_t allocated_bytes(const struct stat *st)
{
    return (uint64_t)st->st_blocks * BLOCK_BYTES;
}

/* A writer reserves the bytes of the head and the dictionary. On a file system in memory, to read a
 * file that only claims to have them would allocate them. */
static int check_reserved(struct gsp_ring_view *view, const struct stat *st, const char *file_name,
                          struct gsp_err *err)
{
    struct statfs fs;
    view->is_memory = fstatfs(view->fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
    if (!view->is_memory || allocated_bytes(st) >= view->shape.lanes_off)
        return 0;
    return gsp_err_set(err, GSP_E_FORMAT, 0, "%.80s has holes: %llu of %llu bytes exist", file_name,
                       (unsigned long long)allocated_bytes(st),
                       (unsigned long long)view->shape.lanes_off);
}

/* The file name must match the head. */
static int check_file_name(struct gsp_ring_info *info, const char *file_name, struct gsp_err *err)
{
    char name[sizeof(info->schema) + sizeof(info->table) + sizeof(".1.ring")];
    for (info->life = 0; info->life < GSP_RING_GENERATIONS; info->life++) {
        gsp_ring_file_name(info->schema, info->table, info->life, name, sizeof(name));
        if (strcmp(name, file_name) == 0)
            return 0;
    }
    return gsp_err_set(err, GSP_E_FORMAT, 0, "%.80s contains table %s.%s", file_name, info->schema,
                       info->table);
}

static int find_time_column(const struct gsp_ring_info *info)
{
    for (uint32_t i = 0; i < info->column_count; i++)
        if (info->columns[i].type == GSP_I64 && strcmp(info->columns[i].name, "ts_ns") == 0)
            return (int)i;
    return -1;
}

static int fill_view(struct gsp_ring_view *view, int folder_fd, const char *file_name,
                     struct gsp_err *err)
{
    view->fd = open_file(folder_fd, file_name, err);
    if (view->fd < 0)
        return view->fd;
    struct stat st;
    if (fstat(view->fd, &st) != 0)
        return gsp_err_set(err, GSP_E_IO, errno, "%s: %s", file_name, strerror(errno));
    struct gsp_err why = {0};
    int rc = gsp_ring__check(view->fd, (uint64_t)st.st_size, &view->info, &view->shape, &why);
    if (rc != 0) {
        gsp_err_fill(err, rc, why.sys, "%.80s: %s", file_name, why.msg);
        return rc;
    }
    rc = check_file_name(&view->info, file_name, err);
    if (rc == 0)
        rc = check_reserved(view, &st, file_name, err);
    if (rc != 0)
        return rc;
    view->time_column = find_time_column(&view->info);
    view->lanes = calloc(view->shape.lane_max, sizeof(*view->lanes));
    if (!view->lanes)
        return gsp_err_nomem(err);
    view->front = map_part(view, 0, view->shape.lanes_off, err);
    if (!view->front)
        return GSP_E_NOMEM;
    view->head = (const void *)view->front->start;
    return 0;
}

static const struct gsp_ring_lane *lane_head(const struct gsp_ring_view *view, uint32_t lane)
{
    return (const void *)view->lanes[lane].base;
}

/* Published rows of a mapped lane. */
static uint64_t lane_rows(const struct gsp_ring_view *view, uint32_t lane)
{
    /* The values of these rows are complete. Partner: the store in gsp_lane_end(). */
    return atomic_load_explicit(&lane_head(view, lane)->rows, memory_order_acquire);
}

static bool is_lane(const struct gsp_ring_view *view, uint32_t lane)
{
    return lane < atomic_load_explicit(&view->lane_count, memory_order_acquire);
}

/* Whether part of the lane reads as zeros. The guard detects missing pages; the page in which the
 * file ends reads as zeros after the end, without a fault. */
static bool is_cut(const struct gsp_ring_view *view, uint32_t lane)
{
    struct stat st;
    const struct lane *at = &view->lanes[lane];
    if (atomic_load_explicit(&at->part->cut, memory_order_relaxed) <
        (uintptr_t)at->base + view->shape.lane_bytes)
        return true;
    return fstat(view->fd, &st) != 0 ||
           (uint64_t)st.st_size < view->shape.lanes_off + (lane + 1ULL) * view->shape.lane_bytes;
}

static uint64_t oldest_of(const struct gsp_ring_view *view, uint64_t rows)
{
    /* The writer may be overwriting the slot of row number `rows`. */
    return rows >= view->shape.row_slots ? rows - view->shape.row_slots + 1 : 0;
}

/* Returns the bytes of memory that the file has for lanes; UINT64_MAX: no file in memory. */
static uint64_t lane_memory(const struct gsp_ring_view *view, const struct stat *st)
{
    if (!view->is_memory)
        return UINT64_MAX;
    const uint64_t all = allocated_bytes(st);
    return all > view->shape.lanes_off ? all - view->shape.lanes_off : 0;
}

/* Whether the file has memory for a lane with rows: a writer reserves all bytes of such a lane.
 * Subtracts them from *left. */
static bool is_reserved(struct gsp_ring_view *view, uint64_t *left)
{
    if (*left == UINT64_MAX)
        return true;
    if (*left < view->shape.lane_bytes) {
        atomic_store_explicit(&view->is_short, true, memory_order_relaxed);
        return false;
    }
    *left -= view->shape.lane_bytes;
    return true;
}

static uint64_t lane_memory_now(const struct gsp_ring_view *view)
{
    struct stat st;
    return fstat(view->fd, &st) == 0 ? lane_memory(view, &st) : 0;
}

/* Maps the lanes that were added since, as far as the file contains them. */
static void map_lanes(struct gsp_ring_view *view) GSP_REQUIRES(&view->lock);
static void map_lanes(struct gsp_ring_view *view)
{
    const uint32_t have = atomic_load_explicit(&view->lane_count, memory_order_relaxed);
    /* The bytes of these lanes exist. Partner: raise_to() in publish() of lanes.c. */
    uint32_t count = atomic_load_explicit(&view->head->lane_count, memory_order_acquire);
    if (count > view->shape.lane_max) {
        atomic_store_explicit(&view->is_short, true, memory_order_relaxed);
        count = view->shape.lane_max;
    }
    struct stat st;
    if (count <= have || fstat(view->fd, &st) != 0)
        return;
    const uint64_t size = (uint64_t)st.st_size;
    uint64_t in_file =
        size < view->shape.lanes_off ? 0 : (size - view->shape.lanes_off) / view->shape.lane_bytes;
    /* The head of every lane exists. */
    const uint64_t heads = lane_memory(view, &st) / GSP_RING_ALIGN;
    in_file = heads < in_file ? heads : in_file;
    if (in_file < count) {
        atomic_store_explicit(&view->is_short, true, memory_order_relaxed);
        count = (uint32_t)in_file;
    }
    if (count <= have)
        return;
    const uint64_t lane_bytes = view->shape.lane_bytes;
    const struct part *part = map_part(view, view->shape.lanes_off + have * lane_bytes,
                                       (count - have) * lane_bytes, NULL);
    if (!part)
        return; /* the next call tries again */
    for (uint32_t i = have; i < count; i++)
        view->lanes[i] = (struct lane){part->start + (i - have) * lane_bytes, part};
    /* Partner: the load in is_lane(). */
    atomic_store_explicit(&view->lane_count, count, memory_order_release);
}

/* Maps new lanes and returns the number of all mapped lanes. */
static uint32_t update_lanes(struct gsp_ring_view *view)
{
    gsp_lock_take(&view->lock);
    map_lanes(view);
    gsp_lock_release(&view->lock);
    return atomic_load_explicit(&view->lane_count, memory_order_acquire);
}

int gsp_ring_open(int folder_fd, const char *file_name, struct gsp_ring_view **out,
                  struct gsp_err *err)
{
    *out = NULL;
    struct gsp_ring_view *view = calloc(1, sizeof(*view));
    if (!view)
        return gsp_err_nomem(err);
    view->fd = -1;
    const int rc = fill_view(view, folder_fd, file_name, err);
    if (rc != 0) {
        gsp_ring_view_close(view);
        return rc;
    }
    update_lanes(view);
    *out = view;
    return 0;
}

int gsp_ring_open_newest(int folder_fd, const char *schema, const char *table,
                         struct gsp_ring_view **out, struct gsp_err *err)
{
    char name[2UL * GSP_NAME_MAX + sizeof(".1.ring")];
    *out = NULL;
    for (unsigned life = 0; life < GSP_RING_GENERATIONS; life++) {
        struct gsp_ring_view *view = NULL;
        gsp_ring_file_name(schema, table, life, name, sizeof(name));
        const int rc = gsp_ring_open(folder_fd, name, &view, life == 0 ? err : NULL);
        if (rc != 0)
            return *out ? 0 : rc;
        if (*out && (*out)->info.created_ns > view->info.created_ns) {
            gsp_ring_view_close(view);
            continue;
        }
        gsp_ring_view_close(*out);
        *out = view;
    }
    return 0;
}

void gsp_ring_view_close(struct gsp_ring_view *view)
{
    if (!view)
        return;
    while (view->parts) {
        struct part *part = view->parts;
        view->parts = part->next;
        gsp_ring_guard_remove(part->start);
        munmap(part->start, part->len);
        free(part);
    }
    gsp_fd_close(&view->fd);
    free(view->lanes);
    free(view);
}

const struct gsp_ring_info *gsp_ring_info(const struct gsp_ring_view *view)
{
    return &view->info;
}

/* Adds without overflow: a hostile ring can state any number of rows. */
static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

size_t gsp_ring_ranges(struct gsp_ring_view *view, struct gsp_ring_range *spans, size_t cap,
                       uint64_t *overwritten)
{
    const uint32_t count = update_lanes(view);
    uint64_t left = lane_memory_now(view);
    uint64_t lost = 0;
    size_t n = 0;
    for (uint32_t i = 0; i < count && n < cap; i++) {
        const uint64_t rows = lane_rows(view, i);
        if (rows == 0 || is_cut(view, i) || !is_reserved(view, &left))
            continue;
        spans[n++] = (struct gsp_ring_range){.from = oldest_of(view, rows), .to = rows, .lane = i};
        lost = add_saturated(lost, oldest_of(view, rows));
    }
    if (overwritten)
        *overwritten = lost;
    return n;
}

const void *gsp_ring_values(const struct gsp_ring_view *view, uint32_t lane, uint32_t column,
                            uint64_t from, size_t *n)
{
    if (!is_lane(view, lane) || column >= view->info.column_count) {
        *n = 0;
        return NULL;
    }
    const uint64_t slot = from % view->shape.row_slots;
    if (*n > view->shape.row_slots - slot)
        *n = view->shape.row_slots - slot;
    const struct gsp_ring_column *at = &view->info.columns[column];
    return view->lanes[lane].base + at->off + slot * at->width;
}

void gsp_ring_copy(const struct gsp_ring_view *view, uint32_t lane, uint32_t column, uint64_t from,
                   size_t n, void *out)
{
    const size_t width = column < view->info.column_count ? view->info.columns[column].width : 0;
    size_t done = 0;
    while (done < n) {
        size_t part = n - done;
        const void *values = gsp_ring_values(view, lane, column, from + done, &part);
        if (!values) {
            memset((char *)out + done * width, 0, (n - done) * width);
            return;
        }
        gsp_ring__get_bytes((char *)out + done * width, values, part * width);
        done += part;
    }
}

uint64_t gsp_ring_oldest_row(const struct gsp_ring_view *view, uint32_t lane)
{
    if (!is_lane(view, lane))
        return UINT64_MAX;
    /* Loads `rows` after all earlier copies. Partner: the fence of gsp_lane_begin(). */
    atomic_thread_fence(memory_order_acquire);
    const uint64_t rows = lane_rows(view, lane);
    return is_cut(view, lane) ? UINT64_MAX : oldest_of(view, rows);
}

/* Returns the time of a row. *gone: it was overwritten, so it is older than all remaining rows. */
static int64_t time_of(const struct gsp_ring_view *view, uint32_t lane, uint64_t row, bool *gone)
{
    int64_t ts_ns = 0;
    gsp_ring_copy(view, lane, (uint32_t)view->time_column, row, 1, &ts_ns);
    *gone = gsp_ring_oldest_row(view, lane) > row;
    return ts_ns;
}

/* Returns the first row of the span after ts_ns, or at ts_ns if or_at. */
static uint64_t first_after(const struct gsp_ring_view *view, const struct gsp_ring_range *span,
                            int64_t ts_ns, bool or_at)
{
    uint64_t low = span->from;
    uint64_t high = span->to;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        bool gone = false;
        const int64_t at = time_of(view, span->lane, middle, &gone);
        if (gone || at < ts_ns || (at == ts_ns && !or_at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void gsp_ring_range_narrow(const struct gsp_ring_view *view, struct gsp_ring_range *span,
                           int64_t from_ns, int64_t to_ns)
{
    if (view->time_column < 0 || !is_lane(view, span->lane) || span->from >= span->to)
        return;
    span->from = first_after(view, span, from_ns, true);
    span->to = first_after(view, span, to_ns, false);
}

bool gsp_ring_text_read(const struct gsp_ring_view *view, uint32_t lane, uint64_t ref,
                        struct gsp_buf *out, bool *null)
{
    *null = ref == GSP_NULL_TEXT;
    const uint64_t size = view->shape.text_bytes;
    const size_t len = gsp_ring_ref_len(ref);
    if (*null || size == 0 || len > size || !is_lane(view, lane))
        return false;
    const struct gsp_ring_lane *head = lane_head(view, lane);
    const uint64_t pos = gsp_ring_ref_pos(ref);
    const uint64_t before = atomic_load_explicit(&head->text_head, memory_order_acquire);
    const uint64_t back = (before - pos) & GSP_RING_POS_MASK;
    char *to = back >= len && back <= size ? gsp_buf_reserve(out, len) : NULL;
    if (!to)
        return false;
    const char *text = view->lanes[lane].base + view->shape.text_off;
    const size_t at = pos & (size - 1);
    const size_t first = len < size - at ? len : size - at;
    gsp_ring__get_bytes(to, text + at, first);
    gsp_ring__get_bytes(to + first, text, len - first);
    /* Partner: the fence in gsp_ring__lane_text(). */
    atomic_thread_fence(memory_order_acquire);
    const uint64_t after = atomic_load_explicit(&head->text_head, memory_order_relaxed);
    if (after - before > size - back || is_cut(view, lane))
        return false;
    out->len += len;
    return true;
}

static const struct gsp_ring_strings *strings_of(const struct gsp_ring_view *view)
{
    return (const void *)(view->front->start + view->shape.strings_off);
}

static uint32_t string_count(const struct gsp_ring_view *view)
{
    const uint32_t count = atomic_load_explicit(&strings_of(view)->count, memory_order_acquire);
    return count < view->shape.string_max ? count : view->shape.string_max;
}

static uint64_t bytes_used(const struct gsp_ring_view *view)
{
    const uint64_t used = atomic_load_explicit(&strings_of(view)->bytes_used, memory_order_relaxed);
    return used < view->shape.bytes_max ? used : view->shape.bytes_max;
}

size_t gsp_ring_string_read(const struct gsp_ring_view *view, uint32_t id, char *out, size_t cap)
{
    const _Atomic uint64_t *refs = (const void *)(view->front->start + view->shape.refs_off);
    out[0] = '\0';
    if (id == 0 || id > string_count(view))
        return 0;
    /* Partner: the store in add() of intern.c. */
    const uint64_t ref = atomic_load_explicit(&refs[id - 1], memory_order_acquire);
    const uint64_t pos = gsp_ring_ref_pos(ref);
    size_t len = gsp_ring_ref_len(ref);
    if (ref == 0 || pos > view->shape.bytes_max || len > view->shape.bytes_max - pos)
        return 0;
    len = len < cap - 1 ? len : cap - 1;
    gsp_ring__get_bytes(out, view->front->start + view->shape.bytes_off + pos, len);
    out[len] = '\0';
    return len;
}

int gsp_ring_dict_read(const struct gsp_ring_view *view, struct gsp_ring_dict *out,
                       struct gsp_err *err)
{
    return gsp_ring_dict_read_within(view, UINT64_MAX, 0, out, err);
}

int gsp_ring_dict_read_within(const struct gsp_ring_view *view, uint64_t bytes_max,
                              uint64_t string_bytes, struct gsp_ring_dict *out, struct gsp_err *err)
{
    *out = (struct gsp_ring_dict){0};
    const _Atomic uint64_t *refs = (const void *)(view->front->start + view->shape.refs_off);
    const uint32_t count = string_count(view);
    if (count > 0 && string_bytes > bytes_max / count)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "it has %u strings", count);
    /* Copy the entries first, so that the copied bytes include all strings they refer to. */
    uint64_t *copied = calloc((size_t)count + 1, sizeof(*copied));
    out->strings = calloc((size_t)count + 1, sizeof(*out->strings));
    for (uint32_t i = 0; copied && i < count; i++) {
        /* Partner: the store in add() of intern.c. */
        copied[i] = atomic_load_explicit(&refs[i], memory_order_acquire);
    }
    const uint64_t used = bytes_used(view);
    if (used > bytes_max - count * string_bytes) {
        free(copied);
        gsp_ring_dict_free(out);
        return gsp_err_set(err, GSP_E_LIMIT, 0, "its strings have %llu bytes",
                           (unsigned long long)used);
    }
    out->byte_count = used;
    out->bytes = malloc(used ? used : 1);
    if (!copied || !out->strings || !out->bytes) {
        free(copied);
        gsp_ring_dict_free(out);
        return gsp_err_nomem(err);
    }
    gsp_ring__get_bytes(out->bytes, view->front->start + view->shape.bytes_off, used);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t pos = gsp_ring_ref_pos(copied[i]);
        const uint64_t len = gsp_ring_ref_len(copied[i]);
        if (copied[i] != 0 && pos <= used && len <= used - pos)
            out->strings[i + 1] = (struct gsp_sv){out->bytes + pos, len};
    }
    out->count = count + 1;
    free(copied);
    return 0;
}

void gsp_ring_dict_free(struct gsp_ring_dict *dict)
{
    if (!dict)
        return;
    free(dict->strings);
    free(dict->bytes);
    *dict = (struct gsp_ring_dict){0};
}

void gsp_ring_state(struct gsp_ring_view *view, struct gsp_ring_state *out)
{
    const uint32_t count = update_lanes(view);
    uint64_t left = lane_memory_now(view);
    *out = (struct gsp_ring_state){
        .status = atomic_load_explicit(&view->head->status, memory_order_relaxed),
        .lane_count = count,
        .rows_lost = atomic_load_explicit(&view->head->rows_lost, memory_order_relaxed),
        .rows_no_file = atomic_load_explicit(&view->head->rows_no_file, memory_order_relaxed),
        .strings_lost = atomic_load_explicit(&view->head->strings_lost, memory_order_relaxed),
        .newest_ns = GSP_NULL_I64,
        .damaged = atomic_load_explicit(&view->is_short, memory_order_relaxed)};
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t rows = lane_rows(view, i);
        bool gone = false;
        const bool is_readable = rows && view->time_column >= 0 && is_reserved(view, &left);
        const int64_t ts_ns = is_readable ? time_of(view, i, rows - 1, &gone) : GSP_NULL_I64;
        out->newest_ns = ts_ns > out->newest_ns && !gone ? ts_ns : out->newest_ns;
        out->rows = add_saturated(out->rows, rows);
        out->damaged = out->damaged || is_cut(view, i);
    }
    gsp_lock_take(&view->lock);
    for (const struct part *part = view->parts; part; part = part->next) {
        out->damaged =
            out->damaged || atomic_load_explicit(&part->cut, memory_order_relaxed) != UINTPTR_MAX;
    }
    gsp_lock_release(&view->lock);
}
