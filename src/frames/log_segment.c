/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "frames/log_internal.h"

#define MAGIC        "GSPFRM1\n"
#define MAGIC_BYTES  8U
#define NAME_BYTES   32U
#define ID_DIGITS    20U
#define METRIC_TEXTS 4U
/* Opening the log verifies this many of the newest segments: a power cut may have destroyed data
 * that was not synced. */
#define VERIFY_COUNT 2U

struct disk_head {
    char magic[MAGIC_BYTES];
    uint32_t header_bytes;
    uint32_t metric_count;
    uint64_t first_id;
    uint64_t run;
    uint32_t row_bytes;
    uint32_t check; /* checksum of the header, with 0 here */
    unsigned char boot[FRAMES_BOOT_BYTES];
};

static void file_name(char out[NAME_BYTES], uint64_t first_id, const char *ending)
{
    snprintf(out, NAME_BYTES, "%0*llu.%s", (int)ID_DIGITS, (unsigned long long)first_id, ending);
}

uint64_t gsp_frames__segment_bytes(const struct frames_segment *segment)
{
    return segment->header_bytes + segment->rows * segment->row_bytes + segment->text_bytes;
}

void gsp_frames_head_free(struct frames_head *head)
{
    free(head->metrics);
    gsp_buf_free(&head->bytes);
    *head = (struct frames_head){0};
}

/* The next NUL-terminated text; NULL if it has no end. */
static const char *next_text(struct gsp_cursor *cur)
{
    const unsigned char *nul = memchr(cur->p, 0, (size_t)(cur->end - cur->p));
    if (!nul)
        return NULL;
    const char *text = (const char *)cur->p;
    cur->p = nul + 1;
    return text;
}

static bool parse_metric(struct gsp_cursor *cur, struct frames_metric *out)
{
    struct gsp_sv kind;
    if (!gsp_cursor_bytes(cur, 1, &kind) || (unsigned char)kind.p[0] > FRAMES_AMOUNT)
        return false;
    out->kind = (enum frames_kind)kind.p[0];
    const char **texts[METRIC_TEXTS] = {&out->name, &out->device, &out->label, &out->unit};
    for (size_t i = 0; i < METRIC_TEXTS; i++) {
        *texts[i] = next_text(cur);
        if (!*texts[i])
            return false;
    }
    return true;
}

static uint32_t head_check(struct gsp_sv bytes)
{
    struct disk_head disk;
    memcpy(&disk, bytes.p, sizeof(disk));
    disk.check = 0;
    uint64_t h = gsp_hash_bytes(&disk, sizeof(disk), 0);
    return (uint32_t)gsp_hash_bytes(bytes.p + sizeof(disk), bytes.len - sizeof(disk), h);
}

static bool sizes_fit(const struct disk_head *disk)
{
    return memcmp(disk->magic, MAGIC, MAGIC_BYTES) == 0 && disk->header_bytes >= sizeof(*disk) &&
           disk->header_bytes <= FRAMES_HEADER_MAX && disk->metric_count <= FRAMES_METRICS_MAX &&
           disk->row_bytes == sizeof(struct frames_row) + disk->metric_count * sizeof(double) &&
           disk->first_id != 0;
}

int gsp_frames__head_parse(struct gsp_sv bytes, struct frames_head *out, struct gsp_err *err)
{
    *out = (struct frames_head){0};
    struct disk_head disk;
    if (bytes.len < sizeof(disk))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the header of a segment is truncated");
    memcpy(&disk, bytes.p, sizeof(disk));
    if (!sizes_fit(&disk) || disk.header_bytes > bytes.len)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a segment of a frame log");
    bytes.len = disk.header_bytes;
    if (head_check(bytes) != disk.check)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the header of a segment is damaged");
    gsp_buf_put(&out->bytes, bytes.p, bytes.len);
    out->metrics = calloc((size_t)disk.metric_count + 1, sizeof(*out->metrics));
    if (!out->metrics || out->bytes.failed) {
        gsp_frames_head_free(out);
        return gsp_err_nomem(err);
    }
    out->first_id = disk.first_id;
    out->run = disk.run;
    out->metric_count = disk.metric_count;
    out->header_bytes = disk.header_bytes;
    out->row_bytes = disk.row_bytes;
    memcpy(out->boot, disk.boot, sizeof(out->boot));
    const unsigned char *p = (const unsigned char *)out->bytes.p;
    struct gsp_cursor cur = {p + sizeof(disk), p + out->bytes.len};
    for (uint32_t i = 0; i < disk.metric_count; i++) {
        if (!parse_metric(&cur, &out->metrics[i])) {
            gsp_frames_head_free(out);
            return gsp_err_set(err, GSP_E_FORMAT, 0, "the header of a segment is damaged");
        }
    }
    return 0;
}

void gsp_frames__head_seal(char *bytes, size_t len)
{
    struct disk_head disk;
    if (len < sizeof(disk))
        return;
    memcpy(&disk, bytes, sizeof(disk));
    if (disk.header_bytes < sizeof(disk) || disk.header_bytes > len)
        return;
    disk.check = head_check((struct gsp_sv){bytes, disk.header_bytes});
    memcpy(bytes, &disk, sizeof(disk));
}

static void head_write(const struct gsp_frame_log *frames, uint64_t first_id, struct gsp_buf *out)
{
    const struct frames_catalog *catalog = &frames->catalog;
    struct disk_head disk = {
        .metric_count = (uint32_t)catalog->count,
        .first_id = first_id,
        .run = frames->run,
        .row_bytes = (uint32_t)(sizeof(struct frames_row) + catalog->count * sizeof(double))};
    memcpy(disk.magic, MAGIC, MAGIC_BYTES);
    memcpy(disk.boot, frames->boot, sizeof(disk.boot));
    gsp_buf_clear(out);
    gsp_buf_put(out, &disk, sizeof(disk));
    for (size_t i = 0; i < catalog->count; i++) {
        const struct frames_metric *m = &catalog->metrics[i];
        gsp_buf_putc(out, (char)m->kind);
        gsp_buf_put(out, m->name, strlen(m->name) + 1);
        gsp_buf_put(out, m->device, strlen(m->device) + 1);
        gsp_buf_put(out, m->label, strlen(m->label) + 1);
        gsp_buf_put(out, m->unit, strlen(m->unit) + 1);
    }
    while (out->len % sizeof(uint64_t) && !out->failed)
        gsp_buf_putc(out, 0);
    if (out->failed)
        return;
    disk.header_bytes = (uint32_t)out->len;
    memcpy(out->p, &disk, sizeof(disk));
    gsp_frames__head_seal(out->p, out->len);
}

/* Reads the header of an open file. */
static int read_head(int fd, uint64_t first_id, struct frames_head *head, struct gsp_err *err)
{
    struct disk_head disk;
    if (pread(fd, &disk, sizeof(disk), 0) != (ssize_t)sizeof(disk) || !sizes_fit(&disk) ||
        disk.first_id != first_id)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a segment of a frame log");
    gsp_auto_buf bytes = {0};
    char *p = gsp_buf_reserve(&bytes, disk.header_bytes);
    if (!p)
        return gsp_err_nomem(err);
    int rc = gsp_frames__pread(fd, p, disk.header_bytes, 0, err);
    if (rc)
        return rc;
    bytes.len = disk.header_bytes;
    return gsp_frames__head_parse(gsp_buf_sv(&bytes), head, err);
}

int gsp_frames_segment_open(int folder_fd, uint64_t first_id, struct frames_head *head, int *fd,
                            struct gsp_err *err)
{
    *head = (struct frames_head){0};
    *fd = -1;
    char name[NAME_BYTES];
    file_name(name, first_id, "num");
    int opened = openat(folder_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (opened < 0)
        return gsp_err_set(err, errno == ENOENT ? GSP_E_NOFILE : GSP_E_IO, errno, "%s: %s", name,
                           strerror(errno));
    int rc = read_head(opened, first_id, head, err);
    if (rc)
        gsp_fd_close(&opened);
    else
        *fd = opened;
    return rc;
}

int gsp_frames__text_open(const struct gsp_frame_log *frames, uint64_t first_id)
{
    char name[NAME_BYTES];
    file_name(name, first_id, "text");
    return openat(frames->folder_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

void gsp_frames__segment_remove(const struct gsp_frame_log *frames, uint64_t first_id)
{
    char name[NAME_BYTES];
    file_name(name, first_id, "num");
    unlinkat(frames->folder_fd, name, 0);
    file_name(name, first_id, "text");
    unlinkat(frames->folder_fd, name, 0);
}

/* values: n doubles, which may be unaligned. */
static uint32_t row_check(const struct frames_row *row, const void *values, size_t n,
                          struct gsp_sv line)
{
    struct frames_row copy = *row;
    copy.check = 0;
    uint64_t h = gsp_hash_bytes(&copy, sizeof(copy), 0);
    h = gsp_hash_bytes(values, n * sizeof(double), h);
    return (uint32_t)gsp_hash_bytes(line.p, line.len, h);
}

/* Opening. */

struct verify {
    struct gsp_buf row;
    struct gsp_buf line;
    uint64_t text_bytes; /* size of the file */
    uint64_t text_at;    /* end of the valid rows */
    int num_fd;
    int text_fd;
};

/* Whether the i-th row and its text are complete. */
static bool row_is_valid(struct verify *v, const struct frames_head *head, uint64_t i)
{
    struct frames_row row;
    gsp_buf_clear(&v->row);
    char *p = gsp_buf_reserve(&v->row, head->row_bytes);
    if (!p || gsp_frames__pread(v->num_fd, p, head->row_bytes,
                                head->header_bytes + i * head->row_bytes, NULL) != 0)
        return false;
    memcpy(&row, p, sizeof(row));
    if (row.frame_id != head->first_id + i || row.text_end > v->text_bytes ||
        row.text_end < v->text_at || row.text_end - v->text_at > FRAMES_TEXT_MAX)
        return false;
    size_t len = (size_t)(row.text_end - v->text_at);
    gsp_buf_clear(&v->line);
    char *line = gsp_buf_reserve(&v->line, len + 1);
    if (!line || gsp_frames__pread(v->text_fd, line, len, v->text_at, NULL) != 0)
        return false;
    if (row_check(&row, p + sizeof(row), head->metric_count, (struct gsp_sv){line, len}) !=
        row.check)
        return false;
    v->text_at = row.text_end;
    return true;
}

/* Cuts off everything after the last valid row. */
static int cut_invalid(struct verify *v, const struct frames_head *head,
                       struct frames_segment *segment, struct gsp_err *err)
{
    uint64_t valid = 0;
    while (valid < segment->rows && row_is_valid(v, head, valid))
        valid++;
    if (valid < segment->rows)
        gsp_log_warn("daemon", "metric frames from %llu on are damaged and removed",
                     (unsigned long long)(head->first_id + valid));
    segment->rows = valid;
    segment->text_bytes = v->text_at;
    if (ftruncate(v->num_fd, (off_t)(head->header_bytes + valid * head->row_bytes)) != 0 ||
        ftruncate(v->text_fd, (off_t)v->text_at) != 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot truncate a segment: %s", strerror(errno));
    return 0;
}

static int load_opened(struct verify *v, const struct frames_head *head, bool verify,
                       struct frames_segment *out, struct gsp_err *err)
{
    struct stat num;
    struct stat text;
    if (fstat(v->num_fd, &num) != 0 || fstat(v->text_fd, &text) != 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot read a segment: %s", strerror(errno));
    v->text_bytes = (uint64_t)text.st_size;
    *out = (struct frames_segment){.first_id = head->first_id,
                                   .rows = ((uint64_t)num.st_size - head->header_bytes) /
                                           head->row_bytes,
                                   .text_bytes = (uint64_t)text.st_size,
                                   .header_bytes = head->header_bytes,
                                   .row_bytes = head->row_bytes,
                                   .synced = !verify};
    return verify ? cut_invalid(v, head, out, err) : 0;
}

/* Loads a segment. If it has no valid frames, removes it and sets *out to zero. */
static int load_segment(struct gsp_frame_log *frames, uint64_t first_id, bool verify,
                        struct frames_segment *out, struct gsp_err *err)
{
    struct frames_head head = {0};
    struct verify v = {.num_fd = -1, .text_fd = -1};
    *out = (struct frames_segment){0};
    int rc = gsp_frames_segment_open(frames->folder_fd, first_id, &head, &v.num_fd, err);
    if (rc == 0) {
        v.text_fd = gsp_frames__text_open(frames, first_id);
        if (v.text_fd < 0)
            rc = gsp_err_set(err, errno == ENOENT ? GSP_E_NOFILE : GSP_E_IO, errno,
                             "cannot open the text of a segment: %s", strerror(errno));
        else
            rc = load_opened(&v, &head, verify, out, err);
    }
    /* An incomplete header or a missing file: no frame of it was ever acknowledged. */
    if (rc == GSP_E_FORMAT || rc == GSP_E_NOFILE)
        rc = 0;
    if (rc == 0 && out->rows == 0) {
        *out = (struct frames_segment){0};
        gsp_frames__segment_remove(frames, first_id);
    }
    gsp_fd_close(&v.num_fd);
    gsp_fd_close(&v.text_fd);
    gsp_buf_free(&v.row);
    gsp_buf_free(&v.line);
    gsp_frames_head_free(&head);
    return rc;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = 0;
    uint64_t y = 0;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

/* Lists the ids of all *.num files, sorted. */
static int list_ids(const struct gsp_frame_log *frames, struct gsp_buf *ids, struct gsp_err *err)
{
    DIR *dir = gsp_fd_open_dir(frames->folder_fd);
    if (!dir)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot read the folder of the frame log: %s",
                           strerror(errno));
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strlen(e->d_name) != ID_DIGITS + 4 || strcmp(e->d_name + ID_DIGITS, ".num") != 0 ||
            strspn(e->d_name, "0123456789") != ID_DIGITS)
            continue;
        uint64_t id = strtoull(e->d_name, NULL, 10);
        gsp_buf_put(ids, &id, sizeof(id));
    }
    closedir(dir);
    if (ids->failed)
        return gsp_err_nomem(err);
    if (ids->len)
        qsort(ids->p, ids->len / sizeof(uint64_t), sizeof(uint64_t), by_id);
    return 0;
}

static bool grow_segments(struct gsp_frame_log *frames)
{
    return gsp_array_fit(&frames->segments, &frames->segment_cap, frames->segment_count + 1);
}

int gsp_frames__segments_load(struct gsp_frame_log *frames, struct gsp_err *err)
{
    gsp_auto_buf ids = {0};
    int rc = list_ids(frames, &ids, err);
    size_t n = ids.len / sizeof(uint64_t);
    for (size_t i = 0; i < n && rc == 0; i++) {
        uint64_t id = 0;
        memcpy(&id, ids.p + i * sizeof(id), sizeof(id));
        struct frames_segment segment;
        rc = load_segment(frames, id, i + VERIFY_COUNT >= n, &segment, err);
        if (rc || segment.rows == 0 || segment.first_id < frames->next_id)
            continue; /* empty, or it overlaps an older segment */
        if (!grow_segments(frames))
            return gsp_err_nomem(err);
        frames->segments[frames->segment_count++] = segment;
        frames->next_id = segment.first_id + segment.rows;
    }
    return rc;
}

/* Writing. */

void gsp_frames__segment_end(struct gsp_frame_log *frames)
{
    gsp_fd_close(&frames->num_fd);
    gsp_fd_close(&frames->text_fd);
    frames->num_fd = -1;
    frames->text_fd = -1;
}

static int write_at(int fd, const void *bytes, size_t n, uint64_t offset, struct gsp_err *err)
{
    const char *p = bytes;
    while (n) {
        ssize_t done = pwrite(fd, p, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write the frame log: %s",
                               strerror(errno));
        p += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return 0;
}

static int begin_files(struct gsp_frame_log *frames, const struct gsp_buf *head,
                       struct gsp_err *err)
{
    char name[NAME_BYTES];
    file_name(name, frames->next_id, "text");
    frames->text_fd =
        openat(frames->folder_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    file_name(name, frames->next_id, "num");
    if (frames->text_fd >= 0)
        frames->num_fd = openat(frames->folder_fd, name,
                                O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (frames->num_fd < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write the frame log: %s",
                           strerror(errno));
    return write_at(frames->num_fd, head->p, head->len, 0, err);
}

int gsp_frames__segment_begin(struct gsp_frame_log *frames, struct gsp_err *err)
{
    gsp_frames__segment_end(frames);
    gsp_auto_buf head = {0};
    head_write(frames, frames->next_id, &head);
    if (head.failed)
        return gsp_err_nomem(err);
    int rc = begin_files(frames, &head, err);
    if (rc == 0) {
        gsp_lock_take(&frames->lock);
        bool ok = grow_segments(frames);
        if (ok)
            frames->segments[frames->segment_count++] = (struct frames_segment){
                .first_id = frames->next_id,
                .header_bytes = (uint32_t)head.len,
                .row_bytes =
                    (uint32_t)(sizeof(struct frames_row) + frames->catalog.count * sizeof(double))};
        gsp_lock_release(&frames->lock);
        if (!ok)
            rc = gsp_err_nomem(err);
    }
    if (rc) {
        gsp_frames__segment_end(frames);
        gsp_frames__segment_remove(frames, frames->next_id);
        return rc;
    }
    frames->catalog.grown = false;
    return 0;
}

int gsp_frames__segment_append(struct gsp_frame_log *frames, uint64_t frame_id, struct gsp_err *err)
{
    /* Only this thread changes the newest segment, so it needs no lock. */
    const struct frames_segment *segment = &frames->segments[frames->segment_count - 1];
    struct frames_row row = {.frame_id = frame_id,
                             .ts_ns = frames->tick.ts_ns,
                             .mono_ns = frames->tick.mono_ns,
                             .text_end = segment->text_bytes + frames->line.len,
                             .period_ns = frames->period_ns,
                             .lost = frames->lost_pending};
    size_t n = frames->catalog.count;
    row.check = row_check(&row, frames->catalog.values, n, gsp_buf_sv(&frames->line));
    gsp_buf_clear(&frames->row);
    gsp_buf_put(&frames->row, &row, sizeof(row));
    if (n)
        gsp_buf_put(&frames->row, frames->catalog.values, n * sizeof(double));
    if (frames->row.failed || frames->line.failed) {
        gsp_buf_free(&frames->row);
        gsp_buf_free(&frames->line);
        return gsp_err_nomem(err);
    }
    /* The text comes first, because a complete row makes the frame valid. After a failure the next
     * frame overwrites the rest, or opening the log cuts it off. */
    int rc = write_at(frames->text_fd, frames->line.p, frames->line.len, segment->text_bytes, err);
    if (rc == 0)
        rc = write_at(frames->num_fd, frames->row.p, frames->row.len,
                      segment->header_bytes + segment->rows * segment->row_bytes, err);
    return rc;
}
