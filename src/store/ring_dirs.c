/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ring_dirs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/attr.h"
#include "base/file.h"
#include "base/time.h"
#include "store/manifest.h"

#define DIRS_MAX      4096U
/* Within this time of a change, another change may leave the directory's mtime unchanged. */
#define FRESH_NS      (100 * GSP_NS_PER_MS)
#define RING_FILE_MAX (2 * GSP_NAME_MAX + 8)

struct gsp_store_ring_dir {
    int fd;
    int64_t changed_ns;           /* mtime when the directory was read */
    char (*names)[RING_FILE_MAX]; /* of the rings that were opened or left out */
    size_t name_count;
    size_t name_cap;
};

static bool is_known(const struct gsp_store_ring_dir *dir, const char *name)
{
    for (size_t i = 0; i < dir->name_count; i++)
        if (strcmp(dir->names[i], name) == 0)
            return true;
    return false;
}

static bool add_name(struct gsp_store_ring_dir *dir, const char *name)
{
    if (!gsp_array_fit(&dir->names, &dir->name_cap, dir->name_count + 1))
        return false;
    (void)snprintf(dir->names[dir->name_count++], sizeof(*dir->names), "%s", name);
    return true;
}

static int add_ring(struct gsp_store *store, struct gsp_ring_view *view,
                    const struct gsp_ring_start *first, struct gsp_err *err)
{
    const struct gsp_ring_info *info = gsp_ring_info(view);
    struct gsp_source_column columns[GSP_COLUMNS_MAX];
    const uint32_t count = info->column_count;
    const enum gsp_scope scope = info->scope;
    struct gsp_store_table *table = NULL;
    int rc = gsp_store__table_get(&store->catalog, info->schema, info->table, &table, err);
    if (rc != GSP_OK) {
        gsp_ring_view_close(view);
        return rc;
    }
    for (uint32_t c = 0; c < count && c < GSP_COLUMNS_MAX; c++) {
        columns[c] = (struct gsp_source_column){.name = info->columns[c].name,
                                                .type = (enum gsp_type)info->columns[c].type};
    }
    struct gsp_source *source = NULL;
    rc = gsp_store__ring_source_new(view, first, &source, err);
    return rc == GSP_OK ? gsp_store__table_add_source(table, source, columns, count, scope, err)
                        : rc;
}

/* Leaves out a ring that cannot be read, with a warning. Fails with NOMEM. */
static int try_ring(struct gsp_store *store, struct gsp_store_ring_dir *dir, const char *name,
                    const struct gsp_ring_start *first, struct gsp_err *err)
{
    struct gsp_err why = {0};
    struct gsp_ring_view *view = NULL;
    int rc = gsp_ring_open(dir->fd, name, &view, &why);
    if (rc == GSP_OK)
        rc = add_ring(store, view, first, &why);
    if (rc == GSP_E_NOMEM)
        return gsp_err_set(err, GSP_E_NOMEM, why.sys, "%s", why.msg);
    if (rc == GSP_E_NOFILE)
        return GSP_OK; /* removed since the directory was read; it may be created again */
    if (rc != GSP_OK)
        gsp_store_warn(store, "left out: %s", why.msg);
    return add_name(dir, name) ? GSP_OK : gsp_err_nomem(err);
}

static int read_dir(struct gsp_store *store, struct gsp_store_ring_dir *dir,
                    const struct gsp_ring_start *first, struct gsp_err *err)
{
    DIR *stream = gsp_fd_open_dir(dir->fd);
    if (!stream)
        return GSP_OK; /* removed: the rings that are mapped stay readable */
    int rc = GSP_OK;
    const struct dirent *entry = NULL;
    while (rc == GSP_OK && (entry = readdir(stream))) /* NOLINT(concurrency-mt-unsafe) */
        if (gsp_sv_ends(gsp_sv_of(entry->d_name), ".ring") &&
            strlen(entry->d_name) < RING_FILE_MAX && !is_known(dir, entry->d_name))
            rc = try_ring(store, dir, entry->d_name, first, err);
    (void)closedir(stream);
    return rc;
}

static int64_t changed_ns(const struct gsp_store_ring_dir *dir)
{
    struct stat st;
    if (fstat(dir->fd, &st) != 0)
        return 0;
    return st.st_mtim.tv_sec * GSP_NS_PER_S + st.st_mtim.tv_nsec;
}

int gsp_store__ring_dirs_refresh(struct gsp_store *store, struct gsp_err *err)
{
    for (size_t i = 0; i < store->ring_dir_count; i++) {
        struct gsp_store_ring_dir *dir = &store->ring_dirs[i];
        const int64_t now = gsp_realtime_ns();
        const int64_t changed = changed_ns(dir);
        if (changed == dir->changed_ns && now - changed > FRESH_NS)
            continue;
        dir->changed_ns = changed;
        const int rc = read_dir(store, dir, NULL, err);
        if (rc != GSP_OK)
            return rc;
    }
    return GSP_OK;
}

void gsp_store__ring_dirs_free(struct gsp_store *store)
{
    for (size_t i = 0; i < store->ring_dir_count; i++) {
        gsp_fd_close(&store->ring_dirs[i].fd);
        free(store->ring_dirs[i].names);
    }
    free(store->ring_dirs);
    store->ring_dirs = NULL;
    store->ring_dir_count = 0;
    store->ring_dir_cap = 0;
}

/* ------------------------------------------------------------------------------------- losses */

static int put_loss(struct gsp_batch *batch, const struct gsp_source *source, uint32_t table,
                    const char *cause, uint64_t count)
{
    const struct gsp_row_gsprof_loss row = {
        .ts_ns = gsp_realtime_ns(),
        .mono_ns = gsp_now_ns(),
        .pid = source->pid,
        .rank = source->rank,
        .source = table,
        .cause = gsp_store_batch_intern(batch, gsp_sv_of(cause)),
        .count = count > INT64_MAX ? INT64_MAX : (int64_t)count,
    };
    return gsp_store_batch_append(batch, &row, NULL);
}

static int put_losses(struct gsp_batch *batch, const struct gsp_store_table *view,
                      const struct gsp_source *source)
{
    struct gsp_source_loss loss;
    if (!gsp_store__ring_loss(source, &loss))
        return GSP_OK;
    char name[2 * GSP_NAME_MAX + 2];
    (void)snprintf(name, sizeof(name), "%s.%s", view->schema, view->name);
    const uint32_t table = gsp_store_batch_intern(batch, gsp_sv_of(name));
    const struct {
        const char *cause;
        uint64_t count;
    } causes[] = {
        {"overwritten", loss.overwritten},     {GSP_LOSS_NO_LANE, loss.rows_lost},
        {GSP_LOSS_NO_FILE, loss.rows_no_file}, {GSP_LOSS_STRINGS, loss.strings_lost},
        {"text overwritten", loss.texts_lost}, {"overwritten while read", loss.missed},
        {GSP_LOSS_CUT, loss.damaged ? 1 : 0},
    };
    for (size_t i = 0; i < GSP_COUNT(causes); i++) {
        const int rc = causes[i].count > 0
                           ? put_loss(batch, source, table, causes[i].cause, causes[i].count)
                           : GSP_OK;
        if (rc != GSP_OK)
            return rc;
    }
    return GSP_OK;
}

/* Fills gsprof.loss with the current losses of the rings. */
static int fill_loss(void *ctx, struct gsp_batch *batch, struct gsp_err *err)
{
    const struct gsp_store *store = ctx;
    for (size_t i = 0; i < store->catalog.view_count; i++) {
        const struct gsp_store_table *view = store->catalog.views[i];
        for (size_t k = 0; k < view->source_count; k++)
            if (put_losses(batch, view, view->sources[k]) != GSP_OK)
                return gsp_err_nomem(err);
    }
    return GSP_OK;
}

static int add_loss_table(struct gsp_store *store, struct gsp_err *err)
{
    const struct gsp_table *table = gsp_wire_table_at(GSP_TABLE_gsprof_loss);
    const struct gsp_store_table *view =
        gsp_store__table_find(&store->catalog, gsp_sv_of(table->schema), gsp_sv_of(table->name));
    return view && view->fill ? GSP_OK : gsp_store_add_live(store, table, fill_loss, store, err);
}

int gsp_store__add_ring_dir_from(struct gsp_store *store, const struct gsp_ring_dir *dir,
                                 const struct gsp_ring_start *first, struct gsp_err *err)
{
    if (store->locked || store->ring_dir_count == DIRS_MAX)
        return gsp_err_set(err, GSP_E_USAGE, 0, "the store accepts no more processes");
    int rc = add_loss_table(store, err);
    if (rc != GSP_OK)
        return rc;
    if (!gsp_array_fit(&store->ring_dirs, &store->ring_dir_cap, store->ring_dir_count + 1))
        return gsp_err_nomem(err);
    struct gsp_store_ring_dir *new = &store->ring_dirs[store->ring_dir_count];
    *new = (struct gsp_store_ring_dir){.fd = -1};
    rc = gsp_ring_dir_open(dir, &new->fd, err);
    if (rc != GSP_OK)
        return rc;
    store->ring_dir_count++;
    new->changed_ns = changed_ns(new);
    return read_dir(store, new, first, err);
}

int gsp_store_add_ring_dir(struct gsp_store *store, const struct gsp_ring_dir *dir,
                           struct gsp_err *err)
{
    return gsp_store__add_ring_dir_from(store, dir, NULL, err);
}
