/* SPDX-License-Identifier: Apache-2.0 */
#include "store/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "store/manifest.h"
#include "store/store.h"

/* One thread and little memory: the machine belongs to the target. */
static const struct gsp_store_options OPTIONS = {
    .timeout_ns = -1, .memory_bytes = 512U << 20, .threads = 1};

static char *path_of(const char *folder, const char *prefix, const char *file, const char *suffix)
{
    struct gsp_buf path = {0};
    gsp_buf_printf(&path, "%s/%s%s%s", folder, prefix, file, suffix);
    return gsp_buf_take(&path);
}

/* Renames the file to its name, and syncs the file and the folder to disk. */
static int commit(const char *tmp, const char *path, const char *folder, uint64_t *bytes,
                  struct gsp_err *err)
{
    struct stat info;
    gsp_auto_fd fd = open(tmp, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0 || fstat(fd, &info) < 0 || rename(tmp, path) < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write %.180s: %s", path,
                           strerror(errno));
    gsp_auto_fd dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0)
        (void)fsync(dir); /* some file systems do not support it; the file itself is safe */
    if (bytes)
        *bytes = (uint64_t)info.st_size;
    return GSP_OK;
}

static void put_order(struct gsp_buf *sql, const struct gsp_table *table)
{
    if (!table || table->scope != GSP_SCOPE_PLAIN)
        gsp_buf_puts(sql, " ORDER BY ts_ns");
}

/* Locks the store and writes the table to a file. */
static int copy_table(struct gsp_store *store, const char *schema, const char *table,
                      const char *tmp, uint64_t *rows, struct gsp_err *err)
{
    gsp_auto_buf sql = {0};
    gsp_buf_printf(&sql, "SELECT * FROM %s.%s", schema, table);
    put_order(&sql, gsp_wire_table_find(schema, table));
    if (sql.failed)
        return gsp_err_nomem(err);
    int rc = gsp_store_allow_output(store, tmp, err);
    if (rc == GSP_OK)
        rc = gsp_store_lock(store, err);
    if (rc == GSP_OK)
        rc = gsp_store_query_to_file(store, gsp_buf_sv(&sql), rows, NULL, err);
    return rc;
}

/* Writes the table to its file. Removes the temporary file on failure. */
static int write_table(struct gsp_store *store, const char *schema, const char *table,
                       const char *const folder_and_file[2], struct gsp_segment_size *size,
                       struct gsp_err *err)
{
    const char *folder = folder_and_file[0];
    const char *file = folder_and_file[1];
    gsp_auto_free char *tmp = path_of(folder, ".", file, GSP_SEGMENT_TMP);
    gsp_auto_free char *path = path_of(folder, "", file, "");
    if (!tmp || !path)
        return gsp_err_nomem(err);
    int rc = copy_table(store, schema, table, tmp, size ? &size->rows : NULL, err);
    if (rc == GSP_OK)
        rc = commit(tmp, path, folder, size ? &size->bytes : NULL, err);
    if (rc < 0)
        (void)unlink(tmp);
    return rc;
}

int gsp_store__segment_write(struct gsp_batch *batch, const char *folder, const char *file,
                             struct gsp_segment_size *size, struct gsp_err *err)
{
    const struct gsp_table *table = gsp_store_batch_table(batch);
    char schema[GSP_NAME_MAX];
    char name[GSP_NAME_MAX];
    struct gsp_store *store = NULL;
    snprintf(schema, sizeof(schema), "%s", table->schema);
    snprintf(name, sizeof(name), "%s", table->name);
    int rc = gsp_store_open(&OPTIONS, &store, err);
    if (rc < 0) {
        gsp_store_batch_free(batch);
        return rc;
    }
    rc = gsp_store_add_batch(store, batch, err);
    if (rc == GSP_OK)
        rc = write_table(store, schema, name, (const char *const[]){folder, file}, size, err);
    gsp_store_close(store);
    return rc;
}

static int add_files(struct gsp_store *store, const char *const schema_and_table[2],
                     char *const *paths, size_t count, struct gsp_err *err)
{
    int rc = gsp_store_add_parquet(store, schema_and_table[0], schema_and_table[1],
                                   (const char *const *)paths, count, err);
    const char *left_out = rc == GSP_OK ? gsp_store_warning(store, 0) : NULL;
    if (left_out)
        rc = gsp_err_set(err, GSP_E_FORMAT, 0, "%.200s", left_out);
    return rc;
}

int gsp_store__segment_merge(const char *folder, const char *const *files, size_t count,
                             const char *file, struct gsp_segment_size *size, struct gsp_err *err)
{
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    struct gsp_store *store = NULL;
    if (count == 0 || !gsp_store__segment_name_is_valid(files[0], schema, table))
        return gsp_err_set(err, GSP_E_USAGE, 0, "no segments to merge");
    char **paths = calloc(count, sizeof(*paths));
    bool whole = paths != NULL;
    for (size_t i = 0; whole && i < count; i++) {
        paths[i] = path_of(folder, "", files[i], "");
        whole = paths[i] != NULL;
    }
    int rc = whole ? gsp_store_open(&OPTIONS, &store, err) : gsp_err_nomem(err);
    if (rc == GSP_OK)
        rc = add_files(store, (const char *const[]){schema, table}, paths, count, err);
    if (rc == GSP_OK)
        rc = write_table(store, schema, table, (const char *const[]){folder, file}, size, err);
    gsp_store_close(store);
    for (size_t i = 0; paths && i < count; i++)
        free(paths[i]);
    free(paths);
    return rc;
}
