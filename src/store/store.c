/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/time.h"
#include "store/ring_dirs.h"
#include "store/scan.h"
#include "store/store_internal.h"

#define TIMEOUT_NS   (30 * GSP_NS_PER_S)
#define MEMORY_MAX   (UINT64_C(4) << 30)
#define WARNINGS_MAX 256U
/* For the strings that the engine does not count, and for gsprof's own buffers. */
#define SLACK_BYTES  (UINT64_C(192) << 20)
#define THREADS_MAX  256U

void gsp_store_warn(struct gsp_store *store, const char *fmt, ...)
{
    char line[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (store->warning_count < WARNINGS_MAX &&
        gsp_array_fit(&store->warnings, &store->warning_cap, store->warning_count + 1)) {
        store->warnings[store->warning_count] = strdup(line);
        store->warning_count += store->warnings[store->warning_count] ? 1 : 0;
    }
}

void gsp_store__warn_lost_strings(struct gsp_store *store, const char *schema, const char *table,
                                  uint64_t count)
{
    if (count > 0) {
        gsp_store_warn(store, "%llu value%s of %s.%s %s NULL because its dictionary is full",
                       (unsigned long long)count, count == 1 ? "" : "s", schema, table,
                       count == 1 ? "is" : "are");
    }
}

int gsp_store__sql_run(struct gsp_store *store, const char *sql, struct gsp_err *err)
{
    duckdb_result result;
    int rc = GSP_OK;
    if (store->duck->query(store->con, sql, &result) != DuckDBSuccess) {
        const struct gsp_engine_error error = {.text = store->duck->result_error(&result),
                                               .type = store->duck->result_error_type(&result)};
        rc = gsp_store__engine_error_convert(&error, NULL, err);
    }
    store->duck->destroy_result(&result);
    return rc;
}

static uint64_t default_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    const uint64_t all =
        pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : MEMORY_MAX;
    return all / 4 < MEMORY_MAX ? all / 4 : MEMORY_MAX;
}

static void read_options(struct gsp_store *store, const struct gsp_store_options *options)
{
    static const struct gsp_store_options none;
    const struct gsp_store_options *o = options ? options : &none;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    store->limit_process = o->limit_process;
    store->memory_bytes = o->memory_bytes ? o->memory_bytes : default_memory();
    store->timeout_ns = o->timeout_ns ? o->timeout_ns : TIMEOUT_NS;
    if (store->timeout_ns < 0)
        store->timeout_ns = INT64_MAX;
    store->row_limit = o->row_limit ? o->row_limit : UINT64_MAX;
    store->threads = o->threads ? o->threads : (unsigned)(cores > 0 ? cores : 1);
    store->threads = store->threads < THREADS_MAX ? store->threads : THREADS_MAX;
}

/* The engine must not download, write or keep anything. */
static int configure(const struct gsp_store *store, duckdb_config config, struct gsp_err *err)
{
    char memory[32];
    char threads[16];
    const unsigned long long kib = store->memory_bytes / 1024 + 1;
    (void)snprintf(memory, sizeof(memory), "%lluKiB", kib);
    (void)snprintf(threads, sizeof(threads), "%u", store->threads);
    const struct {
        const char *name;
        const char *value;
    } settings[] = {
        {"memory_limit", memory},
        {"threads", threads},
        {"temp_directory", ""},
        {"autoinstall_known_extensions", "false"},
        {"autoload_known_extensions", "false"},
        {"allow_community_extensions", "false"},
        {"allow_unsigned_extensions", "false"},
    };
    for (size_t i = 0; i < GSP_COUNT(settings); i++) {
        if (store->duck->set_config(config, settings[i].name, settings[i].value) != DuckDBSuccess) {
            return gsp_err_set(err, GSP_E_VERSION, 0, "the SQL engine does not support %s = %s",
                               settings[i].name, settings[i].value);
        }
    }
    return GSP_OK;
}

static int open_engine(struct gsp_store *store, struct gsp_err *err)
{
    const struct gsp_duckdb *duck = store->duck;
    duckdb_config config = NULL;
    if (duck->create_config(&config) != DuckDBSuccess)
        return gsp_err_nomem(err);
    int rc = configure(store, config, err);
    char *text = NULL;
    if (rc == GSP_OK && duck->open_ext(NULL, &store->db, config, &text) != DuckDBSuccess) {
        rc = gsp_err_set(err, GSP_E_NOMEM, 0, "cannot start the SQL engine: %.180s",
                         text ? text : "unknown reason");
    }
    if (text)
        duck->free(text);
    duck->destroy_config(&config);
    if (rc == GSP_OK && duck->connect(store->db, &store->con) != DuckDBSuccess)
        rc = gsp_err_set(err, GSP_E_NOMEM, 0, "cannot connect to the SQL engine");
    return rc;
}

static int set_up(struct gsp_store *store, struct gsp_err *err)
{
    int rc = open_engine(store, err);
    if (rc == GSP_OK) {
        rc = gsp_store__sql_run(store, "SET errors_as_json = true; SET enable_progress_bar = false",
                                err);
    }
    if (rc == GSP_OK)
        rc = gsp_store__scan_register(store, err);
    if (rc == GSP_OK)
        rc = gsp_store__watchdog_start(&store->watch, store->duck, store->con, err);
    for (size_t i = 0; rc == GSP_OK && i < GSP_TABLE_COUNT; i++) {
        struct gsp_store_table *view = NULL;
        const struct gsp_table *table = gsp_wire_table_at(i);
        rc = gsp_store__table_get(&store->catalog, table->schema, table->name, &view, err);
    }
    return rc;
}

int gsp_store_open(const struct gsp_store_options *options, struct gsp_store **out,
                   struct gsp_err *err)
{
    *out = NULL;
    const struct gsp_duckdb *duck = NULL;
    int rc = gsp_store__engine_load(options ? options->library : NULL, &duck, err);
    if (rc != GSP_OK)
        return rc;
    struct gsp_store *store = calloc(1, sizeof(*store));
    if (!store)
        return gsp_err_nomem(err);
    store->duck = duck;
    store->catalog.duck = duck;
    read_options(store, options);
    if (gethostname(store->host, sizeof(store->host) - 1) != 0)
        store->host[0] = '\0';
    rc = set_up(store, err);
    if (rc != GSP_OK) {
        gsp_store_close(store);
        return rc;
    }
    *out = store;
    return GSP_OK;
}

void gsp_store_close(struct gsp_store *store)
{
    if (!store)
        return;
    gsp_rows_free(store->open);
    gsp_store__watchdog_stop(&store->watch);
    if (store->con)
        store->duck->disconnect(&store->con);
    if (store->db)
        store->duck->close(&store->db);
    gsp_store__catalog_free(&store->catalog);
    gsp_store__ring_dirs_free(store);
    gsp_buf_free(&store->allowed);
    for (size_t i = 0; i < store->warning_count; i++)
        free(store->warnings[i]);
    free(store->warnings);
    free(store->output);
    free(store->output_tmp);
    free(store);
}

/* Limits the process to its current data size plus the memory that the engine may use. */
static int limit_process(const struct gsp_store *store, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    int rc = gsp_file_read("/proc/self/statm", 4096, &text, err);
    const char *line = rc == GSP_OK ? gsp_buf_cstr(&text) : NULL;
    unsigned long long data_pages = 0;
    if (!line || sscanf(line, "%*u %*u %*u %*u %*u %llu", /* NOLINT(cert-err34-c): the kernel's */
                        &data_pages) != 1)
        return rc == GSP_OK ? gsp_err_set(err, GSP_E_IO, 0, "/proc/self/statm is malformed") : rc;
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) != 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot read the memory limit");
    const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t max = data_pages * page_bytes + store->memory_bytes + SLACK_BYTES;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > max) {
        limit.rlim_cur = max;
        if (setrlimit(RLIMIT_DATA, &limit) != 0)
            return gsp_err_set(err, GSP_E_IO, errno, "cannot set the memory limit");
    }
    return GSP_OK;
}

int gsp_store__check_open(const struct gsp_store *store, struct gsp_err *err)
{
    return store->locked ? gsp_err_set(err, GSP_E_USAGE, 0, "the store is locked") : GSP_OK;
}

int gsp_store_add_computed(struct gsp_store *store, struct gsp_batch *batch,
                           const struct gsp_computed *computed, struct gsp_err *err)
{
    const struct gsp_table *table = gsp_store_batch_table(batch);
    struct gsp_store_table *view = NULL;
    struct gsp_source *source = NULL;
    int rc = gsp_store__batch_source_new(batch, computed, &source, err);
    if (rc != GSP_OK)
        return rc;
    rc = gsp_store__check_open(store, err);
    if (rc == GSP_OK)
        rc = gsp_store__table_get(&store->catalog, table->schema, table->name, &view, err);
    if (rc != GSP_OK) {
        gsp_store__source_free(source);
        return rc;
    }
    return gsp_store__table_add_batch(view, source, table, err);
}

int gsp_store_add_batch(struct gsp_store *store, struct gsp_batch *batch, struct gsp_err *err)
{
    return gsp_store_add_computed(store, batch, NULL, err);
}

int gsp_store_add_live(struct gsp_store *store, const struct gsp_table *table,
                       int (*fill)(void *ctx, struct gsp_batch *batch, struct gsp_err *err),
                       void *ctx, struct gsp_err *err)
{
    struct gsp_store_table *view = NULL;
    int rc = gsp_store__check_open(store, err);
    if (rc == GSP_OK)
        rc = gsp_store__table_get(&store->catalog, table->schema, table->name, &view, err);
    if (rc != GSP_OK)
        return rc;
    if (view->fill) {
        return gsp_err_set(err, GSP_E_EXISTS, 0, "%s.%s is already a live table", table->schema,
                           table->name);
    }
    view->table = table;
    view->fill = fill;
    view->fill_ctx = ctx;
    view->stale = true;
    return GSP_OK;
}

static void put_locks(const struct gsp_store *store, struct gsp_buf *sql)
{
    if (store->allowed.len > 0) {
        gsp_buf_puts(sql, "SET allowed_paths = [");
        gsp_buf_putsv(sql, gsp_buf_sv(&store->allowed));
        gsp_buf_puts(sql, "];\n");
    }
    gsp_buf_puts(sql, "SET enable_external_access = false;\nSET lock_configuration = true;\n");
}

int gsp_store_lock(struct gsp_store *store, struct gsp_err *err)
{
    int rc = gsp_store__check_open(store, err);
    if (rc != GSP_OK)
        return rc;
    gsp_auto_buf sql = {0};
    put_locks(store, &sql);
    const char *text = gsp_buf_cstr(&sql);
    if (!text)
        return gsp_err_nomem(err);
    rc = gsp_store__sql_run(store, text, err);
    if (rc == GSP_OK && store->allowed.len > 0) {
        /* Warn about files that do not fit their table before the first query. */
        rc = gsp_store__views_create_parquet(store, err);
    }
    if (rc == GSP_OK && store->limit_process && !GSP_IS_SANITIZED)
        rc = limit_process(store, err);
    store->locked = rc == GSP_OK;
    return rc;
}

const char *gsp_store_warning(const struct gsp_store *store, size_t i)
{
    return i < store->warning_count ? store->warnings[i] : NULL;
}
