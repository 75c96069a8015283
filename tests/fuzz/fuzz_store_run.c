/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_store_run.c -- a run folder of another user: meta.json and manifest.json. The first byte is
 * the share of the input that is the manifest. The engine is replaced; store_parquet has it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fuzz_file.h"
#include "store/batch.h"
#include "store/run.h"
#include "store/run_list.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_gsp_store_add_parquet(struct gsp_store *store, const char *schema, const char *table,
                                 const char *const *paths, size_t count, struct gsp_err *err);
int __wrap_gsp_store__add_ring_dir_from(struct gsp_store *store, const struct gsp_ring_dir *dir,
                                        const struct gsp_ring_start *first, struct gsp_err *err);
int __wrap_gsp_store_add_batch(struct gsp_store *store, struct gsp_batch *batch,
                               struct gsp_err *err);
void __wrap_gsp_store_warn(struct gsp_store *store, const char *fmt, ...);
void __wrap_gsp_store__warn_lost_strings(struct gsp_store *store, const char *schema,
                                         const char *table, uint64_t count);

static char folder[] = "/dev/shm/gsprof-fuzz-XXXXXX";
static char run[64];
static char meta_path[80];
static char manifest_path[80];

int __wrap_gsp_store_add_parquet(struct gsp_store *store, const char *schema, const char *table,
                                 const char *const *paths, size_t count, struct gsp_err *err)
{
    (void)store;
    (void)err;
    /* A file of the run's folder, never another one. */
    for (size_t i = 0; i < count; i++)
        if (strncmp(paths[i], run, strlen(run)) != 0 || strchr(paths[i] + strlen(run) + 1, '/') ||
            !schema[0] || !table[0])
            abort();
    return GSP_OK;
}

int __wrap_gsp_store__add_ring_dir_from(struct gsp_store *store, const struct gsp_ring_dir *dir,
                                        const struct gsp_ring_start *first, struct gsp_err *err)
{
    (void)store;
    (void)dir;
    (void)first;
    return gsp_err_set(err, GSP_E_NOFILE, 0, "no rings");
}

int __wrap_gsp_store_add_batch(struct gsp_store *store, struct gsp_batch *batch,
                               struct gsp_err *err)
{
    (void)store;
    (void)err;
    gsp_store_batch_free(batch);
    return GSP_OK;
}

void __wrap_gsp_store_warn(struct gsp_store *store, const char *fmt, ...)
{
    (void)store;
    (void)fmt;
}

void __wrap_gsp_store__warn_lost_strings(struct gsp_store *store, const char *schema,
                                         const char *table, uint64_t count)
{
    (void)store;
    (void)schema;
    (void)table;
    (void)count;
}

static void remove_folder(void)
{
    unlink(meta_path);
    unlink(manifest_path);
    rmdir(run);
    rmdir(folder);
}

static void make_folder(void)
{
    if (!mkdtemp(folder) || atexit(remove_folder) != 0)
        abort();
    snprintf(run, sizeof(run), "%s/run", folder);
    snprintf(meta_path, sizeof(meta_path), "%s/meta.json", run);
    snprintf(manifest_path, sizeof(manifest_path), "%s/manifest.json", run);
    if (mkdir(run, 0700) != 0)
        abort();
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
    gsp_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || gsp_fd_write_all(fd, data, size, NULL) != GSP_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char previous[GSP_RUN_PATH_MAX];
    char other[80];
    if (size < 2)
        return 0;
    if (!run[0])
        make_folder();
    const size_t first = (size - 1) * data[0] / 255;
    write_file(manifest_path, data + 1, first);
    write_file(meta_path, data + 1 + first, size - 1 - first);
    snprintf(other, sizeof(other), "%s/other", folder);
    gsp_store_run_find_previous(other, "python train.py", previous);
    gsp_ignore(gsp_store_add_run(NULL, run, NULL));
    return 0;
}
