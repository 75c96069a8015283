/* SPDX-License-Identifier: Apache-2.0 */
#include "store/drain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/time.h"
#include "store/ring_copy.h"
#include "store/segment.h"

#define SEGMENT_ROWS_DEFAULT 200000U
#define SEGMENT_AGE_DEFAULT  (10 * GSP_NS_PER_S)
#define MERGE_COUNT_DEFAULT  8U
/* Merging never makes a larger segment. */
#define MERGED_ROWS_MAX      2000000U
/* Rings of all processes. */
#define TAKERS_MAX           4096U
/* How long a merged segment file stays for the readers that have opened it. */
#define GRACE_NS             (30 * GSP_NS_PER_S)
#define LOCK_NAME            ".drain.lock"
/* A follower writes the last rows of a process shortly after the process ends. */
#define QUIET_TICKS          5U

/* A segment file that the manifest no longer lists. */
struct old_file {
    int64_t since_ns;
    char file[GSP_SEGMENT_NAME_MAX];
};

struct source {
    struct gsp_ring_dir ring_dir;
    int fd;         /* of the ring directory; -1: the process ended and its rings are drained */
    uint64_t rows;  /* published by its rings, at the last tick */
    unsigned quiet; /* ticks since the process ended, or since the last row after that */
};

struct taker {
    struct gsp_ring_copier *copier;
    size_t source; /* index */
};

struct gsp_drain {
    char *folder;
    int lock_fd;
    struct gsp_drain_options options;
    int64_t begun_ns; /* CLOCK_REALTIME */
    struct gsp_manifest manifest;
    struct source *sources;
    size_t source_count;
    size_t source_cap;
    struct taker *takers;
    size_t taker_count;
    size_t taker_cap;
    struct old_file *old;
    size_t old_count;
    size_t old_cap;
    struct gsp_store_drain_stats stats;
    uint64_t closed_rows[GSP_TABLE_COUNT]; /* published by rings that are closed, by table */
    bool has_unlisted;                     /* rings that the manifest on disk does not list */
};

/* The lock lasts as long as the descriptor is open: the kernel releases it if gsprof is killed. */
static int lock_folder(struct gsp_drain *drain, struct gsp_err *err)
{
    gsp_auto_fd dir = open(drain->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write to %.180s: %s", drain->folder,
                           strerror(errno));
    drain->lock_fd = openat(dir, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (drain->lock_fd < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write to %.180s: %s", drain->folder,
                           strerror(errno));
    if (flock(drain->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return gsp_err_set(err, GSP_E_EXISTS, errno, "another recording is writing to %.160s",
                           drain->folder);
    return GSP_OK;
}

static bool is_listed(const struct gsp_manifest *manifest, const char *file)
{
    for (size_t i = 0; i < manifest->segment_count; i++)
        if (strcmp(manifest->segments[i].file, file) == 0)
            return true;
    return false;
}

static bool is_drained_table(const struct gsp_manifest *manifest, const char *schema,
                             const char *table)
{
    for (size_t i = 0; i < manifest->cursor_count; i++)
        if (strcmp(manifest->cursors[i].schema, schema) == 0 &&
            strcmp(manifest->cursors[i].table, table) == 0)
            return true;
    return false;
}

/* Whether a killed drainer wrote this file but did not list it. Its rows are still after the
 * cursor of their ring, so they would appear twice. Only the drainer writes numbered files. */
static bool is_leftover(const struct gsp_manifest *manifest, const char *file)
{
    char plain[GSP_SEGMENT_NAME_MAX];
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    if (file[0] == '.')
        return strstr(file, ".parquet" GSP_SEGMENT_TMP) != NULL; /* the engine adds a suffix */
    if (!gsp_store__segment_name_is_valid(file, schema, table) || is_listed(manifest, file))
        return false;
    snprintf(plain, sizeof(plain), "%s.%s.parquet", schema, table);
    return strcmp(plain, file) != 0 || is_drained_table(manifest, schema, table);
}

static void remove_leftovers(const struct gsp_drain *drain)
{
    DIR *dir = opendir(drain->folder);
    if (!dir)
        return;
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (is_leftover(&drain->manifest, entry->d_name))
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

static void fill_defaults(struct gsp_drain_options *options)
{
    if (options->segment_rows == 0)
        options->segment_rows = SEGMENT_ROWS_DEFAULT;
    if (options->segment_age_ns == 0)
        options->segment_age_ns = SEGMENT_AGE_DEFAULT;
    if (options->merge_count == 0)
        options->merge_count = MERGE_COUNT_DEFAULT;
}

int gsp_store_drain_open(const char *folder, const struct gsp_drain_options *options,
                         struct gsp_drain **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_drain *drain = calloc(1, sizeof(*drain));
    if (!drain)
        return gsp_err_nomem(err);
    drain->lock_fd = -1;
    drain->begun_ns = gsp_realtime_ns();
    drain->folder = strdup(folder);
    if (options)
        drain->options = *options;
    fill_defaults(&drain->options);
    int rc = drain->folder ? lock_folder(drain, err) : gsp_err_nomem(err);
    if (rc == GSP_OK)
        rc = gsp_store__manifest_read(folder, &drain->manifest, err);
    if (rc < 0) {
        gsp_store_drain_close(drain);
        return rc;
    }
    remove_leftovers(drain);
    *out = drain;
    return GSP_OK;
}

/* Removes the old files whose grace period is over, or all of them. */
static void remove_old(struct gsp_drain *drain, bool all)
{
    const int64_t now_ns = gsp_now_ns();
    size_t left = 0;
    for (size_t i = 0; i < drain->old_count; i++) {
        char path[4096];
        if (!all && now_ns - drain->old[i].since_ns < GRACE_NS) {
            drain->old[left++] = drain->old[i];
            continue;
        }
        snprintf(path, sizeof(path), "%s/%s", drain->folder, drain->old[i].file);
        (void)unlink(path);
    }
    drain->old_count = left;
}

void gsp_store_drain_close(struct gsp_drain *drain)
{
    if (!drain)
        return;
    if (drain->folder)
        remove_old(drain, true);
    for (size_t i = 0; i < drain->taker_count; i++)
        gsp_store__copier_free(drain->takers[i].copier);
    for (size_t i = 0; i < drain->source_count; i++)
        gsp_fd_close(&drain->sources[i].fd);
    gsp_store__manifest_free(&drain->manifest);
    gsp_fd_close(&drain->lock_fd);
    free(drain->folder);
    free(drain->sources);
    free(drain->takers);
    free(drain->old);
    free(drain);
}

int gsp_store_drain_add_ring_dir(struct gsp_drain *drain, const struct gsp_ring_dir *ring_dir,
                                 struct gsp_err *err)
{
    for (size_t i = 0; i < drain->source_count; i++) {
        struct gsp_ring_dir *known = &drain->sources[i].ring_dir;
        if (!gsp_ring_dir_is_same_process(known, ring_dir) ||
            strcmp(known->path, ring_dir->path) != 0)
            continue;
        /* The process may have called exec() since. */
        memcpy(known->cmdline, ring_dir->cmdline, sizeof(known->cmdline));
        return GSP_OK;
    }
    if (!gsp_array_fit(&drain->sources, &drain->source_cap, drain->source_count + 1))
        return gsp_err_nomem(err);
    struct source *added = &drain->sources[drain->source_count];
    *added = (struct source){.ring_dir = *ring_dir, .fd = -1};
    int rc = gsp_ring_dir_open(ring_dir, &added->fd, err);
    if (rc == GSP_OK)
        drain->source_count++;
    return rc;
}

static bool has_taker(const struct gsp_drain *drain, size_t source, const char *file)
{
    char name[GSP_SEGMENT_NAME_MAX];
    for (size_t i = 0; i < drain->taker_count; i++) {
        const struct gsp_ring_info *info = gsp_store__copier_info(drain->takers[i].copier);
        gsp_ring_file_name(info->schema, info->table, info->life, name, sizeof(name));
        if (drain->takers[i].source == source && strcmp(name, file) == 0)
            return true;
    }
    return false;
}

static struct gsp_drain_cursor key_of(const struct gsp_ring_info *info)
{
    struct gsp_drain_cursor key = {
        .pid = info->pid, .start_time = info->start_time, .created_ns = info->created_ns};
    snprintf(key.schema, sizeof(key.schema), "%s", info->schema);
    snprintf(key.table, sizeof(key.table), "%s", info->table);
    return key;
}

static int add_ring(struct gsp_drain *drain, size_t index, const char *file, struct gsp_err *err)
{
    const struct source *source = &drain->sources[index];
    struct gsp_ring_view *view = NULL;
    const int opened = gsp_ring_open(source->fd, file, &view, NULL);
    if (opened < 0) /* the other rings are still drained */
        return opened == GSP_E_NOMEM ? gsp_err_nomem(err) : GSP_OK;
    const struct gsp_ring_info *info = gsp_ring_info(view);
    const struct gsp_drain_cursor key = key_of(info);
    /* A cursor names a process, so a ring must name the process of its directory. */
    const bool fits =
        info->pid == source->ring_dir.pid && info->start_time == source->ring_dir.start_time;
    const bool has_memory =
        gsp_array_fit(&drain->takers, &drain->taker_cap, drain->taker_count + 1);
    if (!fits || !has_memory) {
        gsp_ring_view_close(view);
        return has_memory ? GSP_OK : gsp_err_nomem(err);
    }
    const struct gsp_drain_cursor *cursor = gsp_store__manifest_cursor(&drain->manifest, &key);
    struct taker *added = &drain->takers[drain->taker_count];
    added->source = index;
    drain->has_unlisted = drain->has_unlisted || !cursor;
    const int rc = gsp_store__copier_new(view, cursor, info->created_ns >= drain->begun_ns,
                                         &added->copier, err);
    if (rc == GSP_OK && cursor)
        gsp_store__copier_resume(added->copier, &drain->manifest);
    if (rc == GSP_OK)
        drain->taker_count++;
    return rc;
}

static bool is_ring_name(const char *name)
{
    return name[0] != '.' && gsp_sv_ends(gsp_sv_of(name), ".ring");
}

/* Opens the rings that were created since the last tick. */
static int find_rings(struct gsp_drain *drain, size_t index, struct gsp_err *err)
{
    const struct source *source = &drain->sources[index];
    int rc = GSP_OK;
    DIR *dir = source->fd >= 0 ? gsp_fd_open_dir(source->fd) : NULL;
    if (!dir)
        return GSP_OK; /* the directory was removed: its process has ended */
    for (const struct dirent *entry; rc == GSP_OK && (entry = readdir(dir));)
        if (is_ring_name(entry->d_name) && drain->taker_count < TAKERS_MAX &&
            !has_taker(drain, index, entry->d_name))
            rc = add_ring(drain, index, entry->d_name, err);
    closedir(dir);
    return rc;
}

static int add_old_file(struct gsp_drain *drain, const char *file, struct gsp_err *err)
{
    if (!gsp_array_fit(&drain->old, &drain->old_cap, drain->old_count + 1))
        return gsp_err_nomem(err);
    struct old_file *old = &drain->old[drain->old_count++];
    *old = (struct old_file){.since_ns = gsp_now_ns()};
    snprintf(old->file, sizeof(old->file), "%s", file);
    return GSP_OK;
}

/* Removes the oldest segments from a manifest until the rest is within the size limit. */
static int apply_limit(struct gsp_drain *drain, struct gsp_manifest *next, struct gsp_err *err)
{
    uint64_t bytes = 0;
    int rc = GSP_OK;
    for (size_t i = 0; i < next->segment_count; i++)
        bytes += next->segments[i].bytes;
    while (rc == GSP_OK && drain->options.retain_bytes && bytes > drain->options.retain_bytes &&
           next->segment_count > 1) {
        const struct gsp_segment *oldest = &next->segments[0];
        struct gsp_segment_loss loss = {
            .pid = GSP_NULL_I64, .cause = "retention", .count = oldest->rows};
        memcpy(loss.schema, oldest->schema, sizeof(loss.schema));
        memcpy(loss.table, oldest->table, sizeof(loss.table));
        bytes -= oldest->bytes;
        drain->stats.removed += oldest->rows;
        rc = add_old_file(drain, oldest->file, err);
        if (rc == GSP_OK)
            rc = gsp_store__manifest_add_loss(next, &loss, err);
        gsp_store__manifest_remove_segment(next, 0);
    }
    return rc;
}

/* Replaces the manifest on disk and in memory. Takes ownership of `next`, also on failure. */
static int replace_manifest(struct gsp_drain *drain, struct gsp_manifest *next, struct gsp_err *err)
{
    int rc = gsp_store__manifest_write(drain->folder, next, err);
    if (rc < 0) {
        gsp_store__manifest_free(next);
        return rc;
    }
    gsp_store__manifest_free(&drain->manifest);
    drain->manifest = *next;
    return GSP_OK;
}

static void fill_segment(struct gsp_segment *segment, const char *schema, const char *table,
                         uint64_t number)
{
    *segment = (struct gsp_segment){.written_ns = gsp_realtime_ns()};
    snprintf(segment->schema, sizeof(segment->schema), "%s", schema);
    snprintf(segment->table, sizeof(segment->table), "%s", table);
    snprintf(segment->file, sizeof(segment->file), "%.63s.%.63s.%" PRIu64 ".parquet", schema, table,
             number);
}

static void remove_file(const struct gsp_drain *drain, const char *file)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", drain->folder, file);
    (void)unlink(path);
}

/* Lists a ring before any of its rows is in a segment: if the drainer is killed, a reader of the
 * folder still finds the rows in the ring. */
static int list_rings(struct gsp_drain *drain, struct gsp_err *err)
{
    struct gsp_manifest next = {0};
    if (!drain->has_unlisted)
        return GSP_OK;
    int rc = gsp_store__manifest_copy(&drain->manifest, &next, err);
    for (size_t i = 0; rc == GSP_OK && i < drain->taker_count; i++) {
        const struct gsp_drain_cursor key = key_of(gsp_store__copier_info(drain->takers[i].copier));
        if (!gsp_store__manifest_cursor(&next, &key))
            rc = gsp_store__manifest_set_cursor(&next, &key, 0, 0, err);
    }
    if (rc == GSP_OK)
        rc = replace_manifest(drain, &next, err);
    else
        gsp_store__manifest_free(&next);
    drain->has_unlisted = rc < 0;
    return rc;
}

static int write_segment(const struct gsp_drain *drain, struct gsp_batch *batch,
                         struct gsp_segment *segment, struct gsp_err *err)
{
    struct gsp_segment_size size = {0};
    const int rc = gsp_store__segment_write(batch, drain->folder, segment->file, &size, err);
    segment->rows = size.rows;
    segment->bytes = size.bytes;
    return rc;
}

/* Writes the copied rows as a segment and lists it in the manifest. */
static int write_rows(struct gsp_drain *drain, struct gsp_ring_copier *taker, struct gsp_err *err)
{
    struct gsp_manifest next = {0};
    struct gsp_segment segment;
    const size_t old_count = drain->old_count;
    const struct gsp_ring_info *info = gsp_store__copier_info(taker);
    const uint64_t lost = gsp_store__copier_lost(taker);
    int rc = gsp_store__manifest_copy(&drain->manifest, &next, err);
    if (rc == GSP_OK)
        rc = gsp_store__copier_put_manifest(taker, &next, err);
    fill_segment(&segment, info->schema, info->table, next.next);
    struct gsp_batch *batch = rc == GSP_OK ? gsp_store__copier_batch(taker) : NULL;
    if (batch) {
        next.next++;
        rc = write_segment(drain, batch, &segment, err);
        if (rc == GSP_OK)
            rc = gsp_store__manifest_add_segment(&next, &segment, err);
        if (rc == GSP_OK)
            rc = apply_limit(drain, &next, err);
    }
    if (rc == GSP_OK)
        rc = replace_manifest(drain, &next, err);
    else
        gsp_store__manifest_free(&next);
    if (rc < 0)
        drain->old_count = old_count; /* the manifest on disk still lists them */
    if (rc < 0 && batch)
        remove_file(drain, segment.file);
    gsp_store__copier_finish(taker, rc == GSP_OK);
    if (rc == GSP_OK) {
        drain->stats.rows += segment.rows;
        drain->stats.segments += batch ? 1 : 0;
        drain->stats.lost += lost;
    }
    return rc;
}

int gsp_store_drain_write(struct gsp_drain *drain, struct gsp_batch *batch, struct gsp_err *err)
{
    struct gsp_manifest next = {0};
    struct gsp_segment segment;
    const struct gsp_table *table = gsp_store_batch_table(batch);
    if (gsp_store__batch_rows(batch) == 0) {
        gsp_store_batch_free(batch);
        return GSP_OK;
    }
    int rc = gsp_store__manifest_copy(&drain->manifest, &next, err);
    if (rc < 0) {
        gsp_store_batch_free(batch);
        return rc;
    }
    fill_segment(&segment, table->schema, table->name, next.next++);
    rc = write_segment(drain, batch, &segment, err);
    if (rc == GSP_OK)
        rc = gsp_store__manifest_add_segment(&next, &segment, err);
    if (rc == GSP_OK)
        rc = replace_manifest(drain, &next, err);
    else
        gsp_store__manifest_free(&next);
    if (rc < 0)
        remove_file(drain, segment.file);
    return rc;
}

/* Gives a single segment a second name, without copying it. */
static bool link_segment(const struct gsp_drain *drain, const char *from, const char *to)
{
    gsp_auto_fd dir = open(drain->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || linkat(dir, from, dir, to, 0) < 0)
        return false; /* a file system without hard links, or the name exists */
    (void)fsync(dir);
    return true;
}

/* Merges segments of one table. Replaces the manifest when the merged segment is on disk. */
static int merge(struct gsp_drain *drain, const size_t *which, size_t count, const char *name,
                 struct gsp_err *err)
{
    struct gsp_manifest next = {0};
    struct gsp_segment merged;
    const struct gsp_segment *first = &drain->manifest.segments[which[0]];
    const size_t old_count = drain->old_count;
    const char **files = calloc(count, sizeof(*files));
    int rc = files ? gsp_store__manifest_copy(&drain->manifest, &next, err) : gsp_err_nomem(err);
    if (rc < 0) {
        free(files);
        return rc;
    }
    fill_segment(&merged, first->schema, first->table, next.next++);
    if (name)
        snprintf(merged.file, sizeof(merged.file), "%s", name);
    for (size_t i = 0; i < count; i++)
        files[i] = drain->manifest.segments[which[i]].file;
    struct gsp_segment_size size = {.rows = first->rows, .bytes = first->bytes};
    if (count > 1 || !link_segment(drain, files[0], merged.file))
        rc = gsp_store__segment_merge(drain->folder, files, count, merged.file, &size, err);
    merged.rows = size.rows;
    merged.bytes = size.bytes;
    /* From the back, so that the remaining indexes stay valid. The merged segment takes the
     * position of its oldest part. */
    for (size_t i = count; rc == GSP_OK && i-- > 0;) {
        rc = add_old_file(drain, files[i], err);
        if (i > 0)
            gsp_store__manifest_remove_segment(&next, which[i]);
    }
    if (rc == GSP_OK) {
        next.segments[which[0]] = merged;
        rc = replace_manifest(drain, &next, err);
    } else {
        gsp_store__manifest_free(&next);
    }
    if (rc < 0) {
        drain->old_count = old_count; /* the manifest on disk still lists them */
        remove_file(drain, merged.file);
    }
    free(files);
    return rc;
}

/* Finds segment i and the later segments of its table that together have at most rows_max rows. */
static size_t find_small(const struct gsp_drain *drain, size_t i, uint64_t rows_max, size_t *which,
                         size_t cap)
{
    const struct gsp_manifest *manifest = &drain->manifest;
    const struct gsp_segment *first = &manifest->segments[i];
    uint64_t rows = 0;
    size_t count = 0;
    for (size_t k = i; k < manifest->segment_count && count < cap; k++) {
        const struct gsp_segment *segment = &manifest->segments[k];
        if (strcmp(segment->schema, first->schema) != 0 ||
            strcmp(segment->table, first->table) != 0)
            continue;
        if (rows + segment->rows > rows_max)
            break;
        rows += segment->rows;
        which[count++] = k;
    }
    return count;
}

static bool is_first_of_table(const struct gsp_manifest *manifest, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(manifest->segments[k].schema, manifest->segments[i].schema) == 0 &&
            strcmp(manifest->segments[k].table, manifest->segments[i].table) == 0)
            return false;
    return true;
}

/* A large segment is merged only when the later ones together are as large. This bounds how often
 * a row is rewritten. */
static bool is_worth_merging(const struct gsp_manifest *manifest, const size_t *which, size_t count)
{
    uint64_t later = 0;
    for (size_t i = 1; i < count; i++)
        later += manifest->segments[which[i]].rows;
    return manifest->segments[which[0]].rows <= later;
}

static int merge_small(struct gsp_drain *drain, struct gsp_err *err)
{
    size_t which[64];
    const size_t least = drain->options.merge_count < GSP_COUNT(which) ? drain->options.merge_count
                                                                       : GSP_COUNT(which);
    for (size_t i = 0; i < drain->manifest.segment_count; i++) {
        if (drain->manifest.segments[i].rows > MERGED_ROWS_MAX / 2)
            continue;
        const size_t count = find_small(drain, i, MERGED_ROWS_MAX, which, GSP_COUNT(which));
        if (count >= least && count > 1 && is_worth_merging(&drain->manifest, which, count))
            return merge(drain, which, count, NULL, err); /* one merge in each tick */
    }
    return GSP_OK;
}

int gsp_store_drain_merge_all(struct gsp_drain *drain, struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < drain->manifest.segment_count; i++) {
        size_t which[1024];
        char name[GSP_SEGMENT_NAME_MAX];
        const struct gsp_segment *segment = &drain->manifest.segments[i];
        if (!is_first_of_table(&drain->manifest, i))
            continue;
        snprintf(name, sizeof(name), "%.63s.%.63s.parquet", segment->schema, segment->table);
        const size_t count = find_small(drain, i, UINT64_MAX, which, GSP_COUNT(which));
        /* Replacing a listed file would show its rows twice until the manifest is replaced. */
        const bool is_free = !is_listed(&drain->manifest, name);
        if (count > 1 || is_free)
            rc = merge(drain, which, count, is_free ? name : NULL, err);
    }
    return rc;
}

static bool is_due(const struct gsp_drain *drain, const struct gsp_ring_copier *taker, bool flush)
{
    const size_t rows = gsp_store__copier_rows(taker);
    if (flush || rows == 0)
        return flush && (rows > 0 || gsp_store__copier_has_losses(taker));
    /* Write before the ring overwrites rows that are only in memory: gsprof may be killed. */
    return rows >= drain->options.segment_rows ||
           rows >= gsp_store__copier_info(taker)->row_capacity / 2 ||
           gsp_now_ns() - gsp_store__copier_since_ns(taker) >= drain->options.segment_age_ns;
}

static void count_closed_rows(struct gsp_drain *drain, const struct gsp_ring_copier *taker)
{
    const struct gsp_ring_info *info = gsp_store__copier_info(taker);
    for (size_t i = 0; i < GSP_TABLE_COUNT; i++) {
        const struct gsp_table *table = gsp_wire_table_at((enum gsp_table_id)i);
        if (strcmp(info->schema, table->schema) == 0 && strcmp(info->table, table->name) == 0)
            drain->closed_rows[i] += gsp_store__copier_published(taker);
    }
}

/* Adds the ring of a file that could not be read to the losses, once. */
static int add_unread(const struct source *source, const char *file, struct gsp_manifest *next,
                      struct gsp_err *err)
{
    struct gsp_segment_loss loss = {.pid = source->ring_dir.pid, .cause = GSP_LOSS_UNREAD};
    char name[GSP_SEGMENT_NAME_MAX];
    const size_t len = strlen(file) - strlen(".ring");
    if (len + sizeof(".parquet") > sizeof(name))
        return GSP_OK;
    snprintf(name, sizeof(name), "%.*s.parquet", (int)len, file);
    if (!gsp_store__segment_name_is_valid(name, loss.schema, loss.table) ||
        gsp_store__manifest_loss(next, &loss) > 0)
        return GSP_OK;
    loss.count = 1;
    return gsp_store__manifest_add_loss(next, &loss, err);
}

/* Counts the rings of a process that could not be read so far as a loss. */
static int count_unread(struct gsp_drain *drain, size_t index, struct gsp_err *err)
{
    const struct source *source = &drain->sources[index];
    DIR *dir = source->fd >= 0 ? gsp_fd_open_dir(source->fd) : NULL;
    if (!dir)
        return GSP_OK;
    struct gsp_manifest next = {0};
    const size_t before = drain->manifest.loss_count;
    int rc = gsp_store__manifest_copy(&drain->manifest, &next, err);
    for (const struct dirent *entry; rc == GSP_OK && (entry = readdir(dir));)
        if (is_ring_name(entry->d_name) && !has_taker(drain, index, entry->d_name))
            rc = add_unread(source, entry->d_name, &next, err);
    closedir(dir);
    if (rc == GSP_OK && next.loss_count > before)
        return replace_manifest(drain, &next, err);
    gsp_store__manifest_free(&next);
    return rc;
}

/* Writes the remaining rows of a process and closes its rings. */
static int close_source(struct gsp_drain *drain, size_t index, struct gsp_err *err)
{
    struct source *source = &drain->sources[index];
    size_t left = 0;
    const int counted = count_unread(drain, index, err);
    if (counted < 0)
        return counted;
    for (size_t i = 0; i < drain->taker_count; i++) {
        struct gsp_ring_copier *taker = drain->takers[i].copier;
        if (drain->takers[i].source != index || !is_due(drain, taker, true))
            continue;
        const int rc = write_rows(drain, taker, err);
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < drain->taker_count; i++) {
        if (drain->takers[i].source == index) {
            count_closed_rows(drain, drain->takers[i].copier);
            gsp_store__copier_free(drain->takers[i].copier);
        } else {
            drain->takers[left++] = drain->takers[i];
        }
    }
    drain->taker_count = left;
    gsp_fd_close(&source->fd);
    source->fd = -1;
    return GSP_OK;
}

/* A job may start thousands of workers, so the rings of ended ones must not stay open. */
static int close_ended(struct gsp_drain *drain, struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < drain->source_count; i++) {
        struct source *source = &drain->sources[i];
        uint64_t rows = 0;
        if (source->fd < 0)
            continue;
        for (size_t k = 0; k < drain->taker_count; k++)
            rows += drain->takers[k].source == i
                        ? gsp_store__copier_published(drain->takers[k].copier)
                        : 0;
        const bool has_ended = kill(source->ring_dir.pid, 0) < 0 && errno == ESRCH;
        source->quiet = has_ended && rows == source->rows ? source->quiet + 1 : 0;
        source->rows = rows;
        if (source->quiet >= QUIET_TICKS)
            rc = close_source(drain, i, err);
    }
    return rc;
}

int gsp_store_drain_tick(struct gsp_drain *drain, bool flush, struct gsp_err *err)
{
    int failed = GSP_OK;
    int rc = GSP_OK;
    remove_old(drain, false);
    for (size_t i = 0; rc == GSP_OK && i < drain->source_count; i++)
        rc = find_rings(drain, i, err);
    if (rc == GSP_OK)
        failed = list_rings(drain, err);
    for (size_t i = 0; rc == GSP_OK && i < drain->taker_count; i++) {
        struct gsp_ring_copier *taker = drain->takers[i].copier;
        rc = gsp_store__copier_copy(taker, drain->options.segment_rows, err);
        /* If one table cannot be written, the others are still drained. */
        if (rc == GSP_OK && is_due(drain, taker, flush)) {
            const int written = write_rows(drain, taker, failed == GSP_OK ? err : NULL);
            failed = failed == GSP_OK ? written : failed;
        }
    }
    for (size_t i = 0; flush && rc == GSP_OK && failed == GSP_OK && i < drain->source_count; i++)
        rc = count_unread(drain, i, err);
    if (rc == GSP_OK && failed == GSP_OK)
        rc = close_ended(drain, err);
    if (rc == GSP_OK && failed == GSP_OK)
        rc = merge_small(drain, err);
    return rc < 0 ? rc : failed;
}

struct gsp_store_drain_stats gsp_store_drain_stats(const struct gsp_drain *drain)
{
    return drain->stats;
}

uint64_t gsp_store_drain_published(const struct gsp_drain *drain, enum gsp_table_id table,
                                   size_t *rings)
{
    const struct gsp_table *about = gsp_wire_table_at(table);
    uint64_t rows = drain->closed_rows[table];
    *rings = 0;
    for (size_t i = 0; i < drain->taker_count; i++) {
        const struct gsp_ring_info *info = gsp_store__copier_info(drain->takers[i].copier);
        if (strcmp(info->schema, about->schema) != 0 || strcmp(info->table, about->name) != 0)
            continue;
        rows += gsp_store__copier_published(drain->takers[i].copier);
        (*rings)++;
    }
    return rows;
}

const struct gsp_ring_dir *gsp_store_drain_ring_dir_at(const struct gsp_drain *drain, size_t i)
{
    return i < drain->source_count ? &drain->sources[i].ring_dir : NULL;
}
