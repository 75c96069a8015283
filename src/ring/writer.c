/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "ring/append.h"
#include "ring/copy.h"
#include "ring/dir.h"
#include "ring/guard.h"
#include "ring/process.h"
#include "ring/ring_internal.h"

#define LANES_DEFAULT      1024U
#define STRINGS_DEFAULT    16384U
#define BYTES_DEFAULT      (1U << 20)
#define TEXT_MIN           4096U
/* Smallest ring if space is short, and how often the size is halved. */
#define ROWS_LEAST         256U
#define STRINGS_LEAST      256U
#define STRING_BYTES_LEAST 16384U
#define HALVES             16
/* A signal may interrupt fallocate(); smaller pieces still make progress. */
#define RESERVE_BYTES      (1U << 20)
#define RESERVE_TRIES      1000
#define TMP_TRIES          100
#define FILE_NAME_MAX      (2UL * GSP_NAME_MAX + sizeof(".1.ring"))

int gsp_ring__reserve(int fd, uint64_t off, uint64_t len, struct gsp_err *err)
{
    if (!gsp_ring_dir_has_space(fd, len)) {
        return gsp_err_set(err, GSP_E_NOWRITE, ENOSPC,
                           "no space for %llu bytes of a ring: the rest of the file system is "
                           "reserved for the program",
                           (unsigned long long)len);
    }
    for (uint64_t done = 0; done < len;) {
        const uint64_t n = len - done < RESERVE_BYTES ? len - done : RESERVE_BYTES;
        int tries = 0;
        int sys = 0;
        do {
            sys = posix_fallocate(fd, (off_t)(off + done), (off_t)n);
        } while (sys == EINTR && ++tries < RESERVE_TRIES);
        if (sys != 0) {
            return gsp_err_set(err, GSP_E_NOWRITE, sys, "no space for %llu bytes of a ring: %s",
                               (unsigned long long)len, strerror(sys));
        }
        done += n;
    }
    return 0;
}

static uint32_t power_of_two(uint32_t v)
{
    uint32_t p = 1;
    while (p < v)
        p <<= 1;
    return p;
}

/* The alignment of mappings: pages may be larger than GSP_RING_ALIGN. */
static uint64_t page_bytes(void)
{
    const long bytes = sysconf(_SC_PAGESIZE);
    return bytes > (long)GSP_RING_ALIGN ? (uint64_t)bytes : GSP_RING_ALIGN;
}

/* Computes the layout of a lane. */
static void lay_out_lane(struct gsp_ring *ring, uint32_t text_bytes)
{
    uint64_t at = GSP_RING_LANE_HEAD;
    bool has_text = false;
    for (uint32_t i = 0; i < ring->table->column_count; i++) {
        const enum gsp_type type = ring->table->columns[i].type;
        ring->column_off[i] = at;
        at += gsp_ring__round_up(gsp_wire_type_width(type) * (uint64_t)ring->row_slots,
                                 GSP_RING_COLUMN_ALIGN);
        has_text = has_text || type == GSP_TEXT;
    }
    if (has_text) {
        ring->text_off = at;
        ring->text_bytes = power_of_two(text_bytes < TEXT_MIN ? TEXT_MIN : text_bytes);
        at += ring->text_bytes;
    }
    ring->lane_bytes = gsp_ring__round_up(at, page_bytes());
}

static uint64_t or_default(uint32_t v, uint32_t otherwise)
{
    return v ? v : otherwise;
}

static int lay_out(struct gsp_ring *ring, const struct gsp_ring_spec *spec, struct gsp_err *err)
{
    const struct gsp_table *table = spec->table;
    if (!table || table->column_count == 0 || table->column_count > GSP_COLUMNS_MAX ||
        !gsp_wire_table_name_is_valid(gsp_sv_of(table->schema)) ||
        !gsp_wire_table_name_is_valid(gsp_sv_of(table->name)))
        return gsp_err_set(err, GSP_E_USAGE, 0, "a ring needs a table with a name and columns");
    const uint64_t rows = or_default(spec->row_capacity, GSP_RING_ROWS_DEFAULT);
    const uint64_t strings = or_default(spec->string_max, STRINGS_DEFAULT);
    const uint64_t bytes = or_default(spec->string_bytes, BYTES_DEFAULT);
    const uint64_t text = or_default(spec->text_bytes, BYTES_DEFAULT);
    const uint64_t lanes = or_default(spec->lane_max, LANES_DEFAULT);
    if (rows >= GSP_RING_ROWS_MAX || lanes > GSP_RING_LANES_MAX || text > GSP_RING_TEXT_MAX ||
        strings > GSP_RING_STRINGS_MAX || bytes > GSP_RING_BYTES_MAX) {
        return gsp_err_set(err, GSP_E_LIMIT, 0,
                           "ring of %s.%s: at most %u rows, %u lanes, %u strings of %u bytes, and "
                           "%u bytes of text",
                           table->schema, table->name, GSP_RING_ROWS_MAX - 1, GSP_RING_LANES_MAX,
                           GSP_RING_STRINGS_MAX, GSP_RING_BYTES_MAX, GSP_RING_TEXT_MAX);
    }
    ring->table = table;
    ring->row_slots = (uint32_t)rows + 1; /* one may be partly overwritten */
    ring->lane_max = (uint32_t)lanes;
    ring->string_max = (uint32_t)strings;
    ring->slot_count = power_of_two(2 * ring->string_max);
    ring->string_bytes_max = bytes + GSP_RING_BYTES_FIRST;
    ring->strings_bytes = gsp_ring__round_up(GSP_RING_STRINGS_HEAD + 8ULL * ring->slot_count +
                                                 8ULL * strings + ring->string_bytes_max,
                                             GSP_RING_ALIGN);
    const uint64_t columns_end =
        GSP_RING_ALIGN + table->column_count * sizeof(struct gsp_ring_column);
    ring->strings_off = gsp_ring__round_up(columns_end, GSP_RING_ALIGN);
    ring->lanes_off = gsp_ring__round_up(ring->strings_off + ring->strings_bytes, page_bytes());
    lay_out_lane(ring, (uint32_t)text);
    return 0;
}

/* Halves a size, but not below `least`. 0 stands for the default. */
static uint32_t halve(uint32_t now, uint32_t otherwise, uint32_t least)
{
    const uint32_t v = now ? now : otherwise;
    return v / 2 > least ? v / 2 : v < least ? v : least;
}

/* Lays out the ring as requested, or smaller, so that the ring and its first lane use at most a
 * fraction of the available space. */
static int lay_out_to_fit(struct gsp_ring *ring, const struct gsp_ring_spec *spec, int folder_fd,
                          struct gsp_err *err)
{
    const uint64_t share = gsp_ring__dir_space(folder_fd) / GSP_RING_DIR_RING_PART;
    struct gsp_ring_spec less = *spec;
    ring->is_small = spec->is_small;
    int rc = lay_out(ring, &less, err);
    for (int i = 0; i < HALVES && rc == 0 && ring->lanes_off + ring->lane_bytes > share; i++) {
        if (spec->keeps_size) {
            return gsp_err_set(err, GSP_E_NOWRITE, ENOSPC, "no space for %llu bytes of a ring",
                               (unsigned long long)(ring->lanes_off + ring->lane_bytes));
        }
        less.row_capacity = halve(less.row_capacity, GSP_RING_ROWS_DEFAULT, ROWS_LEAST);
        less.string_max = halve(less.string_max, STRINGS_DEFAULT, STRINGS_LEAST);
        less.string_bytes = halve(less.string_bytes, BYTES_DEFAULT, STRING_BYTES_LEAST);
        less.text_bytes = halve(less.text_bytes, BYTES_DEFAULT, TEXT_MIN);
        rc = lay_out(ring, &less, err);
        ring->is_small = true;
    }
    return rc;
}

static void fill_columns(const struct gsp_ring *ring, struct gsp_ring_column *columns)
{
    for (uint32_t i = 0; i < ring->table->column_count; i++) {
        const struct gsp_column *column = &ring->table->columns[i];
        snprintf(columns[i].name, sizeof(columns[i].name), "%s", column->name);
        columns[i].type = column->type;
        columns[i].width = (uint32_t)gsp_wire_type_width(column->type);
        columns[i].off = ring->column_off[i];
    }
}

static void fill_head(const struct gsp_ring *ring, const struct gsp_ring_spec *spec)
{
    struct gsp_ring_head *head = ring->head;
    memcpy(head->magic, GSP_RING_MAGIC, sizeof(head->magic));
    head->version = GSP_RING_VERSION;
    head->byte_order = GSP_RING_BYTE_ORDER;
    head->column_count = ring->table->column_count;
    head->columns_off = GSP_RING_ALIGN;
    head->row_capacity = ring->row_slots;
    head->lane_max = ring->lane_max;
    head->lanes_off = ring->lanes_off;
    head->lane_bytes = ring->lane_bytes;
    head->text_off = ring->text_off;
    head->text_bytes = ring->text_bytes;
    head->strings_off = ring->strings_off;
    head->strings_bytes = ring->strings_bytes;
    head->created_ns = gsp_realtime_ns();
    head->pid = spec->pid ? spec->pid : (int32_t)ring->pid;
    head->start_time = spec->start_time;
    char state = 0;
    if (head->start_time == 0 && !gsp_ring_process_start_time(head->pid, &head->start_time, &state))
        head->start_time = 0;
    head->rank = spec->rank;
    head->scope = ring->table->scope;
    atomic_store_explicit(&head->status, ring->is_small ? GSP_RING_SMALL : 0, memory_order_relaxed);
    snprintf(head->schema, sizeof(head->schema), "%s", ring->table->schema);
    snprintf(head->table, sizeof(head->table), "%s", ring->table->name);
    if (spec->host)
        snprintf(head->host, sizeof(head->host), "%s", spec->host);
    else if (gethostname(head->host, sizeof(head->host) - 1) != 0)
        head->host[0] = '\0';
    fill_columns(ring, (void *)((char *)head + head->columns_off));
    ring->strings->string_max = ring->string_max;
    ring->strings->slot_count = ring->slot_count;
    ring->strings->bytes_max = ring->string_bytes_max;
    atomic_store_explicit(&ring->strings->bytes_used, GSP_RING_BYTES_FIRST, memory_order_relaxed);
}

void *gsp_ring__map(struct gsp_ring *ring, int fd, uint64_t off, uint64_t len, int access)
{
    void *start = mmap(NULL, len, access, MAP_SHARED, fd, (off_t)off);
    if (start == MAP_FAILED || !ring->guard)
        return start;
    if (ring->guard->add(start, len, true, &ring->cut, NULL) != 0) {
        munmap(start, len);
        return MAP_FAILED;
    }
    return start;
}

void gsp_ring__unmap(const struct gsp_ring *ring, void *start, uint64_t len)
{
    if (ring->guard)
        ring->guard->remove(start);
    munmap(start, len);
}

static int map_front(struct gsp_ring *ring, int fd, struct gsp_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot create a ring: %s", strerror(errno));
    ring->dev = st.st_dev;
    ring->ino = st.st_ino;
    const int rc = gsp_ring__reserve(fd, 0, ring->lanes_off, err);
    if (rc != 0)
        return rc;
    char *base = gsp_ring__map(ring, fd, 0, ring->lanes_off, PROT_READ | PROT_WRITE);
    if (base == MAP_FAILED)
        return gsp_err_set(err, GSP_E_NOMEM, errno, "cannot map a new ring: %s", strerror(errno));
    ring->head = (void *)base;
    char *strings = base + ring->strings_off;
    ring->strings = (void *)strings;
    ring->slots = (void *)(strings + GSP_RING_STRINGS_HEAD);
    ring->refs = ring->slots + ring->slot_count;
    ring->string_bytes =
        strings + GSP_RING_STRINGS_HEAD + 8ULL * ring->slot_count + 8ULL * ring->string_max;
    /* Not reserved, because most lanes are never used. */
    ring->lanes = mmap(NULL, ring->lane_max * sizeof(*ring->lanes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ring->lanes == MAP_FAILED) {
        ring->lanes = NULL;
        return gsp_err_nomem(err);
    }
    return 0;
}

/* Opens a temporary file: "." before the name, and a number after it. */
static int open_temporary(int folder_fd, const char *name, char *tmp, size_t cap)
{
    for (unsigned i = 0; i < TMP_TRIES; i++) {
        snprintf(tmp, cap, ".%s.%d-%u.tmp", name, (int)getpid(), i);
        const int fd =
            openat(folder_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Returns the creation time of the ring with that name, if this process created it and no longer
 * writes it: it closed the ring, or has called exec() since. Returns a negative value otherwise. */
static int64_t replaceable_since(const struct gsp_ring *ring, int folder_fd, const char *name)
{
    struct gsp_ring_head head;
    struct stat st;
    gsp_auto_fd fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool is_replaceable = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                                pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
                                memcmp(head.magic, GSP_RING_MAGIC, sizeof(head.magic)) == 0 &&
                                head.pid == ring->head->pid &&
                                head.start_time == ring->head->start_time &&
                                !gsp_ring_file_is_mapped(name, st.st_ino);
    return is_replaceable && head.created_ns > 0 ? head.created_ns : is_replaceable ? 0 : -1;
}

/* Renames the file without replacing another. Returns 0 or an errno. */
static int rename_exclusive(int folder_fd, const char *tmp, const char *name)
{
    if (renameat2(folder_fd, tmp, folder_fd, name, RENAME_NOREPLACE) == 0)
        return 0;
    /* Some file systems do not support the flag. linkat() does not replace a file either. */
    if ((errno == EINVAL || errno == ENOSYS) && linkat(folder_fd, tmp, folder_fd, name, 0) == 0) {
        unlinkat(folder_fd, tmp, 0);
        return 0;
    }
    return errno ? errno : EIO;
}

static int rename_new(const struct gsp_ring *ring, int folder_fd, const char *tmp, unsigned lives,
                      struct gsp_err *err)
{
    char name[FILE_NAME_MAX];
    char oldest[FILE_NAME_MAX] = "";
    int64_t oldest_ns = INT64_MAX;
    for (unsigned i = 0; i < lives; i++) {
        gsp_ring_file_name(ring->table->schema, ring->table->name, i, name, sizeof(name));
        const int sys = rename_exclusive(folder_fd, tmp, name);
        if (sys == 0)
            return 0;
        if (sys != EEXIST)
            return gsp_err_set(err, GSP_E_NOWRITE, sys, "%s: %s", name, strerror(sys));
        const int64_t since_ns = replaceable_since(ring, folder_fd, name);
        if (since_ns < 0)
            return gsp_err_set(err, GSP_E_EXISTS, sys, "%s already exists", name);
        if (since_ns < oldest_ns) {
            oldest_ns = since_ns;
            snprintf(oldest, sizeof(oldest), "%s", name);
        }
    }
    if (renameat(folder_fd, tmp, folder_fd, oldest) == 0)
        return 0;
    return gsp_err_set(err, GSP_E_NOWRITE, errno, "%s: %s", oldest, strerror(errno));
}

/* Stores the current path of the file. */
static int store_path(struct gsp_ring *ring, int fd, struct gsp_err *err)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, ring->path, sizeof(ring->path) - 1);
    if (n <= 0 || (size_t)n == sizeof(ring->path) - 1) {
        return gsp_err_set(err, GSP_E_NOWRITE, n < 0 ? errno : ENAMETOOLONG,
                           "cannot create a ring: its path is unknown or too long");
    }
    ring->path[n] = '\0';
    return 0;
}

static int make_file(struct gsp_ring *ring, int folder_fd, const struct gsp_ring_spec *spec,
                     struct gsp_err *err)
{
    int rc = lay_out_to_fit(ring, spec, folder_fd, err);
    if (rc != 0)
        return rc;
    char name[FILE_NAME_MAX];
    char tmp[FILE_NAME_MAX + 48];
    gsp_ring_file_name(ring->table->schema, ring->table->name, 0, name, sizeof(name));
    gsp_auto_fd fd = open_temporary(folder_fd, name, tmp, sizeof(tmp));
    if (fd < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "%s: %s", name, strerror(errno));
    rc = map_front(ring, fd, err);
    if (rc == 0) {
        gsp_ring__map_spares(ring, fd);
        fill_head(ring, spec);
        rc = rename_new(ring, folder_fd, tmp, spec->keeps_old ? GSP_RING_GENERATIONS : 1, err);
    }
    if (rc == 0)
        rc = store_path(ring, fd, err);
    if (rc != 0)
        unlinkat(folder_fd, tmp, 0);
    return rc;
}

void gsp_ring_abandon(struct gsp_ring *ring)
{
    if (!ring)
        return;
    gsp_ring__leave(ring);
    if (ring->lanes) {
        gsp_ring__unmap_lanes(ring);
        munmap(ring->lanes, ring->lane_max * sizeof(*ring->lanes));
    }
    if (ring->head)
        gsp_ring__unmap(ring, ring->head, ring->lanes_off);
    free(ring);
}

int gsp_ring_create(int folder_fd, const struct gsp_ring_spec *spec, struct gsp_ring **out,
                    struct gsp_err *err)
{
    *out = NULL;
    struct gsp_ring *ring = calloc(1, sizeof(*ring));
    if (!ring)
        return gsp_err_nomem(err);
    ring->pid = getpid();
    ring->guard = spec->guard;
    atomic_init(&ring->cut, UINTPTR_MAX);
    int rc = gsp_ring__enter(ring, err);
    if (rc == 0)
        rc = make_file(ring, folder_fd, spec, err);
    if (rc != 0) {
        gsp_ring_abandon(ring);
        return rc;
    }
    *out = ring;
    return 0;
}

void gsp_ring_close(struct gsp_ring *ring)
{
    if (ring && ring->head && ring->pid == getpid())
        atomic_fetch_or_explicit(&ring->head->status, GSP_RING_CLOSED, memory_order_relaxed);
    gsp_ring_abandon(ring);
}

void gsp_ring_set_rank(struct gsp_ring *ring, int64_t rank)
{
    __atomic_store_n(&ring->head->rank, rank, __ATOMIC_RELAXED);
}

void gsp_ring_rows_count_lost(struct gsp_ring *ring, uint64_t rows)
{
    if (rows > 0 && ring->pid == getpid())
        atomic_fetch_add_explicit(&ring->head->rows_lost, rows, memory_order_relaxed);
}

/* Returns the length of the text after truncation to max, without splitting a character. */
static size_t truncate_text(struct gsp_sv text, size_t max)
{
    size_t n = max;
    while (n > 0 && max - n < 3 && ((unsigned char)text.p[n] & 0xc0) == 0x80)
        n--;
    return n;
}

uint64_t gsp_ring__lane_text(struct gsp_lane *lane, struct gsp_sv text)
{
    if (!text.p || !lane->text)
        return GSP_NULL_TEXT;
    const size_t size = lane->text_mask + 1;
    const size_t max = size / 4 < GSP_RING_REF_LEN_MAX ? size / 4 : GSP_RING_REF_LEN_MAX;
    const size_t len = text.len <= max ? text.len : truncate_text(text, max);
    const uint64_t pos = lane->text_head;
    lane->text_head = pos + len;
    /* Stored before old text is overwritten. Partner: the fence in gsp_ring_text_read(). */
    atomic_store_explicit(&lane->head->text_head, pos + len, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    const size_t at = pos & lane->text_mask;
    const size_t first = len < size - at ? len : size - at;
    gsp_ring__put_bytes(lane->text + at, text.p, first);
    gsp_ring__put_bytes(lane->text, text.p + first, len - first);
    return gsp_ring_ref(pos & GSP_RING_POS_MASK, (uint32_t)len);
}

static void put_value(struct gsp_lane *lane, uint32_t i, uint32_t slot, const char *member)
{
    union {
        int64_t i64;
        double f64;
        uint8_t byte;
        uint32_t id;
        struct gsp_sv text;
    } v;
    switch (lane->table->columns[i].type) {
    case GSP_I64:
        memcpy(&v.i64, member, sizeof(v.i64));
        gsp_lane_put_i64(lane, i, slot, v.i64);
        break;
    case GSP_F64:
        memcpy(&v.f64, member, sizeof(v.f64));
        gsp_lane_put_f64(lane, i, slot, v.f64);
        break;
    case GSP_BOOL:
        memcpy(&v.byte, member, sizeof(v.byte));
        gsp_lane_put_bool(lane, i, slot, v.byte);
        break;
    case GSP_STR:
        memcpy(&v.id, member, sizeof(v.id));
        gsp_lane_put_str(lane, i, slot, v.id);
        break;
    case GSP_TEXT:
        memcpy(&v.text, member, sizeof(v.text));
        gsp_lane_put_text(lane, i, slot, v.text);
        break;
    }
}

bool gsp_ring_append(struct gsp_ring *ring, const void *row)
{
    struct gsp_lane *lane = gsp_ring_lane(ring);
    if (!lane)
        return false;
    const uint32_t slot = gsp_lane_begin(lane);
    for (uint32_t i = 0; i < lane->table->column_count; i++)
        put_value(lane, i, slot, (const char *)row + lane->table->columns[i].row_offset);
    gsp_lane_end(lane);
    return true;
}
