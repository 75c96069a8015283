/* SPDX-License-Identifier: Apache-2.0 */
#include "store/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "model/ids.h"
#include "store/manifest.h"
#include "store/profile_tables.h"
#include "store/segment.h"
#include "store/store_internal.h"

/* Samples in one file; bounds the memory for a batch. */
#define FILE_ROWS_MAX  1000000U
/* Maximum size of meta.json in bytes. */
#define META_BYTES_MAX (4U << 20)
/* Maximum number of Parquet files in a folder. */
#define FILES_MAX      100000U

static bool is_run_file(const char *name)
{
    static const char *const NAMES[] = {GSP_RUN_META, GSP_RUN_PROFILE, GSP_RUN_JSON, GSP_RUN_REPORT,
                                        GSP_MANIFEST_NAME};
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        if (strcmp(NAMES[i], name) == 0)
            return true;
    return gsp_store__segment_name_is_valid(name, NULL, NULL);
}

bool gsp_store_run_exists(const char *path)
{
    DIR *dir = opendir(path);
    bool found = false;
    if (!dir)
        return false;
    for (const struct dirent *entry; !found && (entry = readdir(dir));)
        found = is_run_file(entry->d_name);
    closedir(dir);
    return found;
}

int gsp_store_run_create(const char *path, bool replace, struct gsp_err *err)
{
    struct stat info;
    if (mkdir(path, 0777) == 0)
        return GSP_OK;
    if (errno != EEXIST)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot create the folder %.160s: %s", path,
                           strerror(errno));
    if (stat(path, &info) < 0 || !S_ISDIR(info.st_mode))
        return gsp_err_set(err, GSP_E_NOWRITE, 0, "cannot write to %.180s: not a folder", path);
    if (access(path, W_OK | X_OK) < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write to %.160s: %s", path,
                           strerror(errno));
    if (!replace && gsp_store_run_exists(path))
        return gsp_err_set(err, GSP_E_EXISTS, 0, "%.180s already contains a recording", path);
    return GSP_OK;
}

void gsp_store_run_remove_files(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (is_run_file(entry->d_name))
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

struct writer {
    const char *path;
    unsigned number; /* of the next file of samples */
};

static int write_batch(void *ctx, struct gsp_batch *batch, struct gsp_err *err)
{
    struct writer *writer = ctx;
    const struct gsp_table *table = gsp_store_batch_table(batch);
    const bool is_samples = table == gsp_wire_table_at(GSP_TABLE_python_stack_sample);
    char file[GSP_SEGMENT_NAME_MAX];
    if (is_samples && writer->number > 0)
        snprintf(file, sizeof(file), "%s.%s.%u.parquet", table->schema, table->name,
                 writer->number);
    else
        snprintf(file, sizeof(file), "%s.%s.parquet", table->schema, table->name);
    writer->number += is_samples ? 1 : 0;
    return gsp_store__segment_write(batch, writer->path, file, NULL, err);
}

/* Fills the members of meta.json that come from the profile. The caller frees *out. */
static int describe(const struct gsp_profile *profile, struct gsp_run_meta *about,
                    struct gsp_buf *texts, struct gsp_run_process **out, struct gsp_err *err)
{
    static const char *const UNITS[] = {
        [GSP_UNIT_NS] = "ns", [GSP_UNIT_COUNT] = "count", [GSP_UNIT_BYTES] = "bytes"};
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(profile);
    const size_t count = gsp_model_profile_process_count(profile);
    about->start_ns = meta->start_ns;
    about->duration_ns = meta->duration_ns;
    about->end_ns =
        meta->start_ns > 0 && meta->duration_ns > 0 ? meta->start_ns + meta->duration_ns : 0;
    about->period_ns = meta->period_ns;
    about->unit = UNITS[meta->unit];
    about->samples = gsp_model_profile_sample_count(profile);
    *out = calloc(count + 1, sizeof(**out));
    if (!*out)
        return gsp_err_nomem(err);
    /* All texts first, because the buffer moves while it grows. */
    for (uint32_t i = 0; i < count; i++) {
        const struct gsp_process *process = gsp_model_profile_process_at(profile, i);
        const uint32_t ids[] = {process->name, process->cmdline, process->version};
        for (size_t k = 0; k < GSP_COUNT(ids); k++) {
            gsp_buf_putsv(texts, gsp_model_profile_string_at(profile, ids[k]));
            gsp_buf_putc(texts, '\0');
        }
    }
    if (!gsp_buf_cstr(texts))
        return gsp_err_nomem(err);
    const char *at = texts->p;
    for (uint32_t i = 0; i < count; i++) {
        struct gsp_run_process *process = &(*out)[i];
        const struct gsp_process *from = gsp_model_profile_process_at(profile, i);
        *process = (struct gsp_run_process){.pid = from->pid, .name = at};
        process->rank = gsp_model_rank_of_name(gsp_sv_of(process->name));
        process->cmdline = process->name + strlen(process->name) + 1;
        process->python = process->cmdline + strlen(process->cmdline) + 1;
        at = process->python + strlen(process->python) + 1;
    }
    about->processes = *out;
    about->process_count = count;
    return GSP_OK;
}

int gsp_store__run_write(const char *path, const struct gsp_profile *profile,
                         const struct gsp_run_meta *about, struct gsp_err *err)
{
    gsp_auto_buf texts = {0};
    struct gsp_run_process *processes = NULL;
    struct gsp_run_meta whole = *about;
    struct writer writer = {.path = path};
    const struct gsp_batch_sink sink = {
        .take = write_batch, .ctx = &writer, .rows_max = FILE_ROWS_MAX};
    int rc = gsp_store__profile_write(profile, about->host, &sink, err);
    if (rc == GSP_OK)
        rc = describe(profile, &whole, &texts, &processes, err);
    /* Last: a folder with a complete meta.json has all its tables. */
    if (rc == GSP_OK)
        rc = gsp_store_run_write_meta(path, &whole, true, err);
    free(processes);
    return rc;
}

struct reader {
    struct gsp_store *store;
    const char *path;
    struct gsp_manifest manifest;
    char (*files)[GSP_SEGMENT_NAME_MAX];
    size_t file_count;
    size_t file_cap;
};

static bool is_drained(const struct gsp_manifest *manifest, const char *schema, const char *table)
{
    for (size_t i = 0; i < manifest->cursor_count; i++)
        if (strcmp(manifest->cursors[i].schema, schema) == 0 &&
            strcmp(manifest->cursors[i].table, table) == 0)
            return true;
    return false;
}

static int add_file(struct reader *reader, const char *file, struct gsp_err *err)
{
    if (reader->file_count >= FILES_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "%.160s has too many files", reader->path);
    if (!gsp_array_fit(&reader->files, &reader->file_cap, reader->file_count + 1))
        return gsp_err_nomem(err);
    snprintf(reader->files[reader->file_count], sizeof(*reader->files), "%s", file);
    reader->file_count++;
    return GSP_OK;
}

static int list_files(struct reader *reader, struct gsp_err *err)
{
    int rc = GSP_OK;
    DIR *dir = opendir(reader->path);
    if (!dir)
        return gsp_err_set(err, errno == EACCES ? GSP_E_PERM : GSP_E_NOFILE, errno,
                           "cannot read %.180s: %s", reader->path, strerror(errno));
    for (const struct dirent *entry; rc == GSP_OK && (entry = readdir(dir));) {
        char schema[GSP_NAME_MAX];
        char table[GSP_NAME_MAX];
        if (gsp_store__segment_name_is_valid(entry->d_name, schema, table) &&
            !is_drained(&reader->manifest, schema, table))
            rc = add_file(reader, entry->d_name, err);
    }
    closedir(dir);
    for (size_t i = 0; rc == GSP_OK && i < reader->manifest.segment_count; i++) {
        const struct gsp_segment *segment = &reader->manifest.segments[i];
        if (is_drained(&reader->manifest, segment->schema, segment->table))
            rc = add_file(reader, segment->file, err);
    }
    return rc;
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Sorts the files, so that those of one table follow each other. */
static int add_files(struct reader *reader, struct gsp_err *err)
{
    int rc = GSP_OK;
    if (reader->file_count > 1)
        qsort(reader->files, reader->file_count, sizeof(*reader->files), compare_files);
    for (size_t i = 0; rc == GSP_OK && i < reader->file_count; i++) {
        char path[GSP_RUN_PATH_MAX];
        char schema[GSP_NAME_MAX];
        char table[GSP_NAME_MAX];
        const char *const paths[] = {path};
        if (gsp_store_run_path(path, reader->path, reader->files[i], NULL) < 0 ||
            !gsp_store__segment_name_is_valid(reader->files[i], schema, table))
            continue;
        struct stat facts;
        if (lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode)) {
            gsp_store_warn(reader->store, "left out: %s: a link", path);
            continue;
        }
        rc = gsp_store_add_parquet(reader->store, schema, table, paths, 1, err);
    }
    return rc;
}

/* Returns the first row of a lane that is not in a segment. */
static uint64_t row_of(const void *ctx, const struct gsp_ring_info *info, uint32_t lane)
{
    struct gsp_drain_cursor key = {
        .pid = info->pid, .start_time = info->start_time, .created_ns = info->created_ns};
    snprintf(key.schema, sizeof(key.schema), "%s", info->schema);
    snprintf(key.table, sizeof(key.table), "%s", info->table);
    return gsp_store__cursor_row(gsp_store__manifest_cursor(ctx, &key), lane);
}

static uint64_t lost_of(const void *ctx, const struct gsp_ring_info *info, const char *cause)
{
    struct gsp_segment_loss loss = {.pid = info->pid};
    snprintf(loss.schema, sizeof(loss.schema), "%s", info->schema);
    snprintf(loss.table, sizeof(loss.table), "%s", info->table);
    snprintf(loss.cause, sizeof(loss.cause), "%s", cause);
    return gsp_store__manifest_loss(ctx, &loss);
}

static int add_ring_dir(struct reader *reader, const struct gsp_ring_dir *dir, struct gsp_err *err)
{
    const struct gsp_ring_start first = {row_of, lost_of, &reader->manifest};
    struct gsp_err cause = {0};
    const int rc = gsp_store__add_ring_dir_from(reader->store, dir, &first, &cause);
    if (rc == GSP_E_NOMEM)
        return gsp_err_nomem(err);
    if (rc < 0)
        gsp_store_warn(reader->store, "left out: %s", cause.msg);
    return GSP_OK;
}

/* Adds the rows that are still in the rings of the drained processes, each process once. */
static int add_rings(struct reader *reader, struct gsp_err *err)
{
    int rc = GSP_OK;
    const struct gsp_manifest *manifest = &reader->manifest;
    for (size_t i = 0; rc == GSP_OK && i < manifest->cursor_count; i++) {
        const struct gsp_drain_cursor *cursor = &manifest->cursors[i];
        struct gsp_ring_dir_pair dirs;
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = manifest->cursors[k].pid == cursor->pid &&
                   manifest->cursors[k].start_time == cursor->start_time;
        /* The ring directory comes from the pid, not from the manifest, which is not trusted. */
        if (seen ||
            gsp_ring_dir_find_pair(cursor->pid, GSP_RING_DIR_NO_OWNER, &dirs, NULL) != GSP_OK)
            continue;
        for (size_t k = 0; rc == GSP_OK && k < dirs.count; k++)
            if (dirs.at[k].start_time == cursor->start_time)
                rc = add_ring_dir(reader, &dirs.at[k], err);
    }
    return rc;
}

static int add_losses(struct reader *reader, struct gsp_err *err)
{
    struct gsp_batch *batch = NULL;
    int rc = gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_gsprof_loss), NULL, GSP_NULL_I64,
                                 GSP_NULL_I64, &batch, err);
    for (size_t i = 0; rc == GSP_OK && i < reader->manifest.loss_count; i++) {
        const struct gsp_segment_loss *loss = &reader->manifest.losses[i];
        char source[2 * GSP_NAME_MAX];
        snprintf(source, sizeof(source), "%s.%s", loss->schema, loss->table);
        const struct gsp_row_gsprof_loss row = {
            .ts_ns = GSP_NULL_I64,
            .mono_ns = GSP_NULL_I64,
            .pid = loss->pid,
            .rank = GSP_NULL_I64,
            .source = gsp_store_batch_intern(batch, gsp_sv_of(source)),
            .cause = gsp_store_batch_intern(batch, gsp_sv_of(loss->cause)),
            .count = (int64_t)(loss->count & INT64_MAX)};
        rc = gsp_store_batch_append(batch, &row, err);
        if (strcmp(loss->cause, GSP_LOSS_STRINGS) == 0)
            gsp_store__warn_lost_strings(reader->store, loss->schema, loss->table, loss->count);
    }
    if (rc < 0) {
        gsp_store_batch_free(batch);
        return rc;
    }
    return gsp_store_add_batch(reader->store, batch, err);
}

static int64_t time_member(yyjson_val *root, const char *key)
{
    yyjson_val *value = yyjson_obj_get(root, key);
    return yyjson_is_int(value) && yyjson_get_sint(value) > 0 ? yyjson_get_sint(value)
                                                              : GSP_NULL_I64;
}

static uint32_t text_member(struct gsp_batch *batch, yyjson_val *root, const char *key)
{
    yyjson_val *value = yyjson_obj_get(root, key);
    const struct gsp_sv text = {yyjson_get_str(value), yyjson_get_len(value)};
    return text.p && text.len ? gsp_store_batch_intern(batch, text) : GSP_NULL_STR;
}

/* Adds a row of gsprof.run from meta.json, which a killed recording does not have. */
static int add_about(struct reader *reader, struct gsp_err *err)
{
    char path[GSP_RUN_PATH_MAX];
    gsp_auto_buf text = {0};
    struct gsp_batch *batch = NULL;
    int rc = gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_gsprof_run), NULL, GSP_NULL_I64,
                                 GSP_NULL_I64, &batch, err);
    if (rc < 0)
        return rc;
    yyjson_doc *doc = NULL;
    if (gsp_store_run_path(path, reader->path, GSP_RUN_META, NULL) == GSP_OK &&
        gsp_file_read_member(path, META_BYTES_MAX, &text, NULL) == GSP_OK && text.len)
        doc = yyjson_read(text.p, text.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    struct gsp_row_gsprof_run row = {.name = text_member(batch, root, "name"),
                                     .host = text_member(batch, root, "host"),
                                     .command = text_member(batch, root, "command"),
                                     .ts_from = time_member(root, "start_ns"),
                                     .ts_to = time_member(root, "end_ns"),
                                     .path =
                                         gsp_store_batch_intern(batch, gsp_sv_of(reader->path))};
    if (row.name == GSP_NULL_STR)
        row.name = gsp_store_batch_intern(batch, gsp_store_run_name(reader->path));
    rc = gsp_store_batch_append(batch, &row, err);
    yyjson_doc_free(doc);
    if (rc < 0) {
        gsp_store_batch_free(batch);
        return rc;
    }
    return gsp_store_add_batch(reader->store, batch, err);
}

int gsp_store_add_run_row(struct gsp_store *store, const char *path,
                          const struct gsp_profile *profile, struct gsp_err *err)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(profile);
    const bool is_timed = meta->start_ns > 0;
    struct gsp_batch *batch = NULL;
    int rc = gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_gsprof_run), NULL, GSP_NULL_I64,
                                 GSP_NULL_I64, &batch, err);
    if (rc < 0)
        return rc;
    /* The run of "before.gsp" is "before". */
    struct gsp_sv name = gsp_store_run_name(path);
    const char *dot = name.len > 1 ? memchr(name.p + 1, '.', name.len - 1) : NULL;
    name.len = dot ? (size_t)(dot - name.p) : name.len;
    const struct gsp_row_gsprof_run row = {.name = gsp_store_batch_intern(batch, name),
                                           .path = gsp_store_batch_intern(batch, gsp_sv_of(path)),
                                           .ts_from = is_timed ? meta->start_ns : GSP_NULL_I64,
                                           .ts_to = is_timed ? meta->start_ns + meta->duration_ns
                                                             : GSP_NULL_I64};
    rc = gsp_store_batch_append(batch, &row, err);
    if (rc < 0) {
        gsp_store_batch_free(batch);
        return rc;
    }
    return gsp_store_add_batch(store, batch, err);
}

int gsp_store_add_run(struct gsp_store *store, const char *path, struct gsp_err *err)
{
    struct reader reader = {.store = store, .path = path};
    if (!gsp_store_run_exists(path))
        return gsp_err_set(err, GSP_E_NOFILE, 0, "%.180s contains no recording", path);
    struct gsp_err cause = {0};
    int rc = gsp_store__manifest_read(path, &reader.manifest, &cause);
    if (rc == GSP_E_NOMEM)
        return gsp_err_nomem(err);
    /* Without the cursors, rows in segments would be read from the rings again: use the files
     * only. */
    if (rc < 0)
        gsp_store_warn(store, "%s; reading all Parquet files of the folder", cause.msg);
    rc = list_files(&reader, err);
    if (rc == GSP_OK)
        rc = add_files(&reader, err);
    if (rc == GSP_OK)
        rc = add_rings(&reader, err);
    if (rc == GSP_OK)
        rc = add_losses(&reader, err);
    if (rc == GSP_OK)
        rc = add_about(&reader, err);
    gsp_store__manifest_free(&reader.manifest);
    free(reader.files);
    return rc;
}

bool gsp_store_run_has_table(const char *path, const char *schema, const char *table)
{
    DIR *dir = opendir(path);
    bool found = false;
    if (!dir)
        return false;
    for (const struct dirent *entry; !found && (entry = readdir(dir));) {
        char of_schema[GSP_NAME_MAX];
        char of_table[GSP_NAME_MAX];
        found = gsp_store__segment_name_is_valid(entry->d_name, of_schema, of_table) &&
                strcmp(of_schema, schema) == 0 && strcmp(of_table, table) == 0;
    }
    closedir(dir);
    return found;
}
