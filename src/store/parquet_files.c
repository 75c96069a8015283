/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "store/sql_text.h"
#include "store/store_internal.h"

static void put_path(struct gsp_buf *list, const char *path)
{
    gsp_buf_puts(list, list->len ? ", " : "");
    gsp_store__sql_put_string(list, gsp_sv_of(path));
}

/* Returns why a file cannot be read as Parquet, or NULL if it can. */
static const char *objection(struct gsp_store *store, const char *path, struct gsp_err *why)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return strerror(errno); /* NOLINT(concurrency-mt-unsafe) */
    if (!S_ISREG(st.st_mode))
        return "not a regular file";
    if (strpbrk(path, "*?["))
        return "the path contains *, ? or [";
    gsp_auto_buf sql = {0};
    gsp_buf_puts(&sql, "FROM read_parquet([");
    gsp_store__sql_put_string(&sql, gsp_sv_of(path));
    gsp_buf_puts(&sql, "]) LIMIT 0");
    const char *text = gsp_buf_cstr(&sql);
    return !text || gsp_store__sql_run(store, text, why) != GSP_OK ? why->msg : NULL;
}

int gsp_store_add_parquet(struct gsp_store *store, const char *schema, const char *table,
                          const char *const *paths, size_t path_count, struct gsp_err *err)
{
    struct gsp_store_table *view = NULL;
    if (store->locked)
        return gsp_err_set(err, GSP_E_USAGE, 0, "the store is locked");
    const int rc = gsp_store__table_get(&store->catalog, schema, table, &view, err);
    if (rc != GSP_OK)
        return rc;
    for (size_t i = 0; i < path_count; i++) {
        struct gsp_err why = {0};
        gsp_auto_free char *path = realpath(paths[i], NULL);
        const char *no = objection(store, path ? path : paths[i], &why);
        if (no || !path) {
            gsp_store_warn(store, "left out: %s: %s", paths[i], no ? no : "not found");
            continue;
        }
        put_path(&view->parquet, path);
        put_path(&store->allowed, path);
        view->stale = true;
    }
    if (view->parquet.failed || store->allowed.failed)
        return gsp_err_nomem(err);
    return GSP_OK;
}

int gsp_store_allow_output(struct gsp_store *store, const char *path, struct gsp_err *err)
{
    if (store->locked || store->output) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s",
                           store->locked ? "the store is locked" : "an output is already set");
    }
    const char *slash = strrchr(path, '/');
    gsp_auto_buf folder = {0};
    gsp_buf_put(&folder, path, slash ? (size_t)(slash - path) + 1 : 0);
    gsp_buf_puts(&folder, slash ? "." : "./");
    const char *name = slash ? slash + 1 : path;
    const char *folder_path = gsp_buf_cstr(&folder);
    gsp_auto_free char *real = folder_path ? realpath(folder_path, NULL) : NULL;
    if (!real || access(real, W_OK) != 0 || !*name) {
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "%s: %s", path,
                           *name ? strerror(errno) /* NOLINT(concurrency-mt-unsafe) */
                                 : "is a folder");
    }
    gsp_auto_buf tmp = {0};
    gsp_buf_printf(&tmp, "%s/.%s.%d.part", real, name, (int)getpid());
    gsp_auto_buf whole = {0};
    gsp_buf_printf(&whole, "%s/%s", real, name);
    const char *tmp_path = gsp_buf_cstr(&tmp);
    const char *whole_path = gsp_buf_cstr(&whole);
    store->output_tmp = tmp_path ? strdup(tmp_path) : NULL;
    store->output = whole_path ? strdup(whole_path) : NULL;
    if (!store->output || !store->output_tmp)
        return gsp_err_nomem(err);
    put_path(&store->allowed, store->output_tmp);
    return GSP_OK;
}

/* Returns the end of the last token before the closing semicolon. */
static size_t end_of(struct gsp_sv sql)
{
    size_t end = 0;
    for (struct gsp_sql_token token = gsp_store__sql_token(sql, 0); token.kind != GSP_SQL_END;
         token = gsp_store__sql_token(sql, token.to))
        if (token.kind != GSP_SQL_OTHER || sql.p[token.from] != ';')
            end = token.to;
    return end;
}

/* The statement is a single SELECT (checked before), so it fits in parentheses. */
void gsp_store__sql_put_copy(const struct gsp_store *store, struct gsp_sv select,
                             struct gsp_buf *out)
{
    gsp_buf_puts(out, "COPY (");
    gsp_buf_put(out, select.p, end_of(select));
    gsp_buf_puts(out, "\n) TO ");
    gsp_store__sql_put_string(out, gsp_sv_of(store->output_tmp));
    gsp_buf_puts(out, " (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2, "
                      "USE_TMP_FILE false)");
}

int gsp_store__output_commit(struct gsp_store *store, struct gsp_err *err)
{
    if (rename(store->output_tmp, store->output) != 0) {
        const int sys = errno;
        (void)unlink(store->output_tmp);
        return gsp_err_set(err, GSP_E_NOWRITE, sys, "%s: %s", store->output,
                           strerror(sys)); /* NOLINT(concurrency-mt-unsafe) */
    }
    return GSP_OK;
}
