/* SPDX-License-Identifier: Apache-2.0 */
#include "memlog/table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "ring/guard.h"

#define PAGE      4096U
#define CUT_LABEL "(frames omitted)"

struct gsp_memlog_table {
    int fd;
    const char *map;
    size_t map_bytes;
    size_t bytes; /* of the file when it was opened */
    dev_t dev;
    ino_t ino;
    bool guarded;
    _Atomic uintptr_t cut;
    struct gsp_memory_head head; /* checked copy from open: positions of the areas */
    struct gsp_memlog_table_facts facts;
    struct gsp_buf strings; /* copies of append-only areas */
    struct gsp_buf frames;
    struct gsp_buf nodes;
    struct gsp_memlog_site_counts *sites;
    size_t site_count;
    size_t site_cap;
};

static const struct gsp_memory_head *live_head(const struct gsp_memlog_table *table)
{
    return (const struct gsp_memory_head *)(const void *)table->map;
}

static int map_file(struct gsp_memlog_table *table, int fd, struct gsp_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "memory counters: %s", strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size < (off_t)GSP_MEMORY_HEAD ||
        st.st_size > (off_t)GSP_MEMORY_BYTES_MAX)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the memory counters have an invalid size");
    /* The agent reserves all bytes. In memory, to read a file with holes would fill them. */
    struct statfs fs;
    if (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC &&
        st.st_blocks * 512 < st.st_size / PAGE * PAGE)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the file of the memory counters has holes");
    table->dev = st.st_dev;
    table->ino = st.st_ino;
    table->bytes = (size_t)st.st_size;
    table->map_bytes = (table->bytes + PAGE - 1) / PAGE * PAGE;
    void *map = mmap(NULL, table->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        table->map_bytes = 0;
        return gsp_err_set(err, GSP_E_NOMEM, errno, "memory counters: %s", strerror(errno));
    }
    table->map = map;
    atomic_init(&table->cut, UINTPTR_MAX);
    int rc = gsp_ring_guard_add(map, table->map_bytes, false, &table->cut, err);
    table->guarded = rc == GSP_OK;
    if (rc < 0)
        return rc;
    memcpy(&table->head, table->map, sizeof(table->head));
    if (!gsp_wire_memory_head_is_valid(&table->head, table->bytes))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the memory counters are malformed");
    return GSP_OK;
}

int gsp_memlog_table_open(int folder_fd, struct gsp_memlog_table **out, struct gsp_err *err)
{
    *out = NULL;
    const int fd =
        openat(folder_fd, GSP_MEMORY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return gsp_err_set(err, GSP_E_NOFILE, errno, "allocations are not counted in this process");
    if (fd < 0)
        return gsp_err_set(err, errno == EACCES ? GSP_E_PERM : GSP_E_IO, errno,
                           "memory counters: %s", strerror(errno));
    struct gsp_memlog_table *table = calloc(1, sizeof(*table));
    if (!table) {
        gsp_fd_close(&fd);
        return gsp_err_nomem(err);
    }
    table->fd = fd;
    int rc = map_file(table, fd, err);
    if (rc < 0) {
        gsp_memlog_table_close(table);
        return rc;
    }
    *out = table;
    return GSP_OK;
}

void gsp_memlog_table_close(struct gsp_memlog_table *table)
{
    if (!table)
        return;
    if (table->guarded)
        gsp_ring_guard_remove(table->map);
    if (table->map_bytes) {
        /* munmap() needs the address without const. */
        union {
            const char *read;
            void *unmap;
        } map = {table->map};
        munmap(map.unmap, table->map_bytes);
    }
    gsp_fd_close(&table->fd);
    gsp_buf_free(&table->strings);
    gsp_buf_free(&table->frames);
    gsp_buf_free(&table->nodes);
    free(table->sites);
    free(table);
}

bool gsp_memlog_table_claim(const struct gsp_memlog_table *table)
{
    return flock(table->fd, LOCK_EX | LOCK_NB) == 0;
}

bool gsp_memlog_table_is_replaced(const struct gsp_memlog_table *table, int folder_fd)
{
    struct stat st;
    return fstatat(folder_fd, GSP_MEMORY_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
           st.st_ino != table->ino || st.st_dev != table->dev;
}

/* --------------------------------------------------------------------------------------- copy */

static uint64_t load(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

/* Copies the new part of an append-only area. */
static void copy_more(const struct gsp_memlog_table *table, uint64_t off, size_t bytes,
                      struct gsp_buf *out)
{
    if (bytes > out->len)
        gsp_buf_put(out, table->map + off + out->len, bytes - out->len);
}

static uint32_t load_count(const _Atomic uint32_t *at, uint32_t max)
{
    const uint32_t count = atomic_load_explicit(at, memory_order_acquire);
    return count < max ? count : max;
}

static uint64_t capped(uint64_t value, uint64_t max)
{
    return value < max ? value : max;
}

/* Reads free_* before alloc_*, as wire/memory.h requires. */
static void copy_site(const struct gsp_memory_site *from, uint64_t epoch,
                      struct gsp_memlog_site_counts *out)
{
    struct gsp_memlog_count *count = &out->count;
    count->free_bytes = atomic_load_explicit(&from->free_bytes, memory_order_acquire);
    count->free_count = atomic_load_explicit(&from->free_count, memory_order_acquire);
    const uint64_t free_var = atomic_load_explicit(&from->free_var, memory_order_acquire);
    count->alloc_bytes = load(&from->alloc_bytes);
    count->alloc_count = load(&from->alloc_count);
    const uint64_t alloc_var = load(&from->alloc_var);
    count->free_bytes = capped(count->free_bytes, count->alloc_bytes);
    count->free_count = capped(count->free_count, count->alloc_count);
    count->live_var = alloc_var - capped(free_var, alloc_var);
    const bool marked = load(&from->peak_epoch) == epoch;
    count->peak_bytes = marked ? load(&from->peak_bytes) : gsp_memlog_count_live(count);
    count->peak_count = marked ? load(&from->peak_count) : count->alloc_count - count->free_count;
    out->node = from->node;
    out->allocator = from->allocator;
}

static void copy_facts(struct gsp_memlog_table *table)
{
    const struct gsp_memory_head *head = live_head(table);
    struct gsp_memlog_table_facts *facts = &table->facts;
    const bool has_device = atomic_load_explicit(&head->device_ns, memory_order_relaxed) != 0;
    *facts = (struct gsp_memlog_table_facts){.mode = (enum gsp_memory_mode)table->head.mode,
                                             .pid = table->head.pid,
                                             .interval_bytes = table->head.interval_bytes,
                                             .began_ns = table->head.began_ns,
                                             .device_allocated_bytes = -1,
                                             .device_reserved_bytes = -1};
    /* Partner: the fence in agent/memory.c. The counters were copied before. */
    atomic_thread_fence(memory_order_acquire);
    const uint32_t state = atomic_load_explicit(&head->state, memory_order_relaxed);
    facts->ended = state & GSP_MEMORY_ENDED;
    facts->leaving = state & GSP_MEMORY_LEAVING;
    facts->live_bytes = load(&head->live_bytes);
    facts->peak_bytes = load(&head->peak_bytes);
    facts->peak_ns = atomic_load_explicit(&head->peak_ns, memory_order_relaxed);
    for (size_t i = 0; i < GSP_MEMORY_ALLOCATORS; i++) {
        const uint64_t freed = load(&head->total[i].free_bytes);
        const uint64_t allocated = load(&head->total[i].alloc_bytes);
        facts->allocator_live[i] = allocated - capped(freed, allocated);
        facts->alloc_bytes += allocated;
        facts->alloc_count += load(&head->total[i].alloc_count);
    }
    for (size_t i = 0; i < GSP_MEMORY_LOSSES; i++)
        facts->lost[i] = load(&head->lost[i]);
    if (has_device) {
        facts->device_allocated_bytes =
            (int64_t)capped(load(&head->device_allocated_bytes), INT64_MAX);
        facts->device_reserved_bytes =
            (int64_t)capped(load(&head->device_reserved_bytes), INT64_MAX);
    }
}

int gsp_memlog_table_copy(struct gsp_memlog_table *table, struct gsp_err *err)
{
    const struct gsp_memory_head *head = live_head(table);
    /* Loads the counts in the order that wire/memory.h requires. Partners: the release stores in
     * agent/mem_tables.c. */
    const uint32_t sites = load_count(&head->site_count, table->head.site_max);
    const uint32_t nodes = load_count(&head->node_count, table->head.node_max);
    const uint32_t frames = load_count(&head->frame_count, table->head.frame_max);
    const size_t used =
        (size_t)capped(load_count(&head->strings_used, UINT32_MAX), table->head.strings_bytes);
    if (!gsp_array_fit(&table->sites, &table->site_cap, sites))
        return gsp_err_nomem(err);
    const uint64_t epoch = load(&head->peak_epoch);
    const struct gsp_memory_site *from =
        (const struct gsp_memory_site *)(const void *)(table->map + table->head.sites_off);
    for (uint32_t i = 0; i < sites; i++)
        copy_site(&from[i], epoch, &table->sites[i]);
    table->site_count = sites > table->site_count ? sites : table->site_count;
    copy_more(table, table->head.strings_off, used, &table->strings);
    copy_more(table, table->head.frames_off, frames * sizeof(struct gsp_memory_frame),
              &table->frames);
    copy_more(table, table->head.nodes_off, nodes * sizeof(struct gsp_memory_node), &table->nodes);
    copy_facts(table);
    if (table->strings.failed || table->frames.failed || table->nodes.failed)
        return gsp_err_nomem(err);
    if (atomic_load(&table->cut) != UINTPTR_MAX)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the memory counters were truncated");
    return GSP_OK;
}

const struct gsp_memlog_table_facts *gsp_memlog_table_facts(const struct gsp_memlog_table *table)
{
    return &table->facts;
}

size_t gsp_memlog_table_site_count(const struct gsp_memlog_table *table)
{
    return table->site_count;
}

const struct gsp_memlog_site_counts *gsp_memlog_table_site(const struct gsp_memlog_table *table,
                                                           size_t i)
{
    return i < table->site_count ? &table->sites[i] : NULL;
}

/* ------------------------------------------------------------------------------------- stacks */

struct growing {
    struct gsp_memlog_stacks *stacks;
    const struct gsp_memlog_table *table;
    struct gsp_profile *profile;
    struct gsp_err *err;
};

static int add_thread(struct growing *grow, uint64_t tid, uint32_t *out)
{
    const struct gsp_process *process =
        gsp_model_profile_process_at(grow->profile, grow->stacks->process);
    const struct gsp_thread thread = {.process = grow->stacks->process,
                                      .os_id = tid,
                                      .is_main = process && tid == (uint64_t)process->pid};
    return gsp_model_profile_thread(grow->profile, &thread, out, grow->err);
}

/* Returns the thread for stacks without a thread. */
static int no_thread(struct growing *grow, uint32_t *out)
{
    int rc = GSP_OK;
    if (grow->stacks->no_thread == GSP_NO_INDEX)
        rc = add_thread(grow, 0, &grow->stacks->no_thread);
    *out = grow->stacks->no_thread;
    return rc;
}

static int put_frame(struct growing *grow, const struct gsp_memory_frame *from, uint32_t caller,
                     uint32_t *out)
{
    const struct gsp_buf *strings = &grow->table->strings;
    struct gsp_sv name = gsp_wire_memory_text(strings->p, strings->len, from->name);
    struct gsp_sv file = gsp_wire_memory_text(strings->p, strings->len, from->file);
    struct gsp_frame frame = {.line = from->line, .first_line = from->first_line};
    frame.kind = from->kind == GSP_MEMORY_NATIVE ? GSP_FRAME_NATIVE : GSP_FRAME_PYTHON;
    if (from->kind == GSP_MEMORY_CUT) {
        frame.kind = GSP_FRAME_MARK;
        name = gsp_sv_of(CUT_LABEL);
    }
    uint32_t id = GSP_NONE;
    int rc = gsp_model_profile_string(grow->profile, name, &frame.name, grow->err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_string(grow->profile, file, &frame.file, grow->err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_frame(grow->profile, &frame, &id, grow->err);
    /* The engine never writes deeper stacks: ignore the frame. */
    *out = caller;
    if (rc == GSP_OK && gsp_model_profile_stack_depth(grow->profile, caller) < GSP_STACK_DEPTH_MAX)
        rc = gsp_model_profile_stack(grow->profile, caller, id, out, grow->err);
    return rc;
}

/* If the parent of a node does not come before it, or its frame does not exist, the stack is
 * unknown. */
static int put_node(struct growing *grow, size_t i)
{
    struct gsp_memlog_stacks *stacks = grow->stacks;
    struct gsp_memory_node node = {0};
    struct gsp_memory_frame frame = {0};
    if (grow->table->nodes.len > 0)
        memcpy(&node, grow->table->nodes.p + i * sizeof(node), sizeof(node));
    const size_t frame_count = grow->table->frames.len / sizeof(frame);
    if (i > 0 && node.frame > 0 && node.frame < frame_count && node.parent < i)
        memcpy(&frame, grow->table->frames.p + node.frame * sizeof(frame), sizeof(frame));
    stacks->stacks[i] = GSP_NONE;
    if (frame.kind == GSP_MEMORY_THREAD && node.parent == 0 && frame.line != 0)
        return add_thread(grow, frame.line, &stacks->threads[i]);
    if (node.parent == 0 || frame.kind == 0 || node.parent >= i) {
        int rc = no_thread(grow, &stacks->threads[i]);
        if (rc < 0 || frame.kind == 0 || frame.kind == GSP_MEMORY_THREAD)
            return rc;
        return put_frame(grow, &frame, GSP_NONE, &stacks->stacks[i]);
    }
    stacks->threads[i] = stacks->threads[node.parent];
    return put_frame(grow, &frame, stacks->stacks[node.parent], &stacks->stacks[i]);
}

int gsp_memlog_stacks_grow(struct gsp_memlog_stacks *stacks, const struct gsp_memlog_table *table,
                           struct gsp_profile *profile, struct gsp_err *err)
{
    struct growing grow = {stacks, table, profile, err};
    const size_t nodes = table->nodes.len / sizeof(struct gsp_memory_node);
    const size_t count = nodes > 0 ? nodes : 1; /* the first one is for all unknown nodes */
    if (count <= stacks->count)
        return GSP_OK;
    if (!gsp_array_fit(&stacks->stacks, &stacks->stack_cap, count) ||
        !gsp_array_fit(&stacks->threads, &stacks->thread_cap, count))
        return gsp_err_nomem(err);
    while (stacks->count < count) {
        int rc = put_node(&grow, stacks->count);
        if (rc < 0)
            return rc;
        stacks->count++;
    }
    return GSP_OK;
}

void gsp_memlog_stacks_free(struct gsp_memlog_stacks *stacks)
{
    free(stacks->stacks);
    free(stacks->threads);
    *stacks = GSP_MEMSTACKS_NONE;
}

void gsp_memlog_stacks_at(const struct gsp_memlog_stacks *stacks, uint32_t node, uint32_t *thread,
                          uint32_t *stack)
{
    const uint32_t at = node < stacks->count ? node : 0;
    *thread = stacks->threads[at];
    *stack = stacks->stacks[at];
}
