/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql.c -- the time of a GROUP BY over a ring, compared with a loop in C and a DuckDB table.
 *
 *   sql group ROWS ROUNDS LIBRARY    prints JSON: wall time and CPU time of each round in
 *                                    milliseconds, and the groups
 *
 *   sql hold ROWS                    creates a ring like a target, prints {"pid": N}, and exits at
 *                                    the end of its input
 *
 * The ring has one lane of ROWS rows.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "ring/reader.h"
#include "ring/writer.h"
#include "store/engine.h"
#include "store/store.h"

#define MODULES    97U
#define RING_FILE  "python.bench.ring"
#define WINDOW     1000
#define ROUNDS_MAX 100

struct row {
    int64_t ts_ns;
    int64_t mono_ns;
    int64_t step;
    double duration;
    uint32_t module;
};

static const struct gsp_column columns[] = {
    {"ts_ns", "", "", GSP_I64, offsetof(struct row, ts_ns)},
    {"mono_ns", "", "", GSP_I64, offsetof(struct row, mono_ns)},
    {"step", "", "", GSP_I64, offsetof(struct row, step)},
    {"duration", "", "", GSP_F64, offsetof(struct row, duration)},
    {"module", "", "", GSP_STR, offsetof(struct row, module)},
};
static const struct gsp_table table = {
    .schema = "python",
    .name = "bench",
    .doc = "",
    .columns = columns,
    .scope = GSP_SCOPE_TARGET,
    .column_count = 5,
    .row_bytes = sizeof(struct row),
};

struct group {
    char name[32];
    int64_t count;
    double mean;
    double max;
};

struct groups {
    struct group at[MODULES];
    size_t count;
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "sql: %s\n", what);
    exit(1);
}

/* The same values as in the SQL of bench/sql.py. */
static uint32_t module_of(uint64_t i)
{
    return (uint32_t)(((i * 2654435761U) & UINT32_MAX) >> 16) % MODULES;
}

static double duration_of(uint64_t i)
{
    return (double)(i % 1000) / 1024;
}

static void fill(int folder_fd, uint64_t rows)
{
    struct gsp_err err = {0};
    struct gsp_ring *ring = NULL;
    const struct gsp_ring_spec spec = {.table = &table,
                                       .row_capacity = (uint32_t)rows,
                                       .lane_max = 1,
                                       .rank = GSP_NULL_I64,
                                       .host = "bench"};
    if (gsp_ring_create(folder_fd, &spec, &ring, &err) != 0)
        die(err.msg);
    uint32_t ids[MODULES];
    for (uint32_t m = 0; m < MODULES; m++) {
        char name[32];
        snprintf(name, sizeof(name), "layers.%u.attn", m);
        ids[m] = gsp_ring_intern(ring, gsp_sv_of(name));
    }
    for (uint64_t i = 0; i < rows; i++) {
        const struct row row = {.ts_ns = (int64_t)i * 1000,
                                .mono_ns = (int64_t)i * 1000,
                                .step = (int64_t)(i / 100),
                                .duration = duration_of(i),
                                .module = ids[module_of(i)]};
        if (!gsp_ring_append(ring, &row))
            die("a row was lost");
    }
    gsp_ring_close(ring);
}

static double ms_since(int64_t begin)
{
    return (double)(gsp_now_ns() - begin) / 1e6;
}

/* The same query written by hand, including NULLs. */
static double loop_in_c(struct gsp_ring_view *view, struct groups *out)
{
    struct gsp_ring_range span;
    if (gsp_ring_ranges(view, &span, 1, NULL) != 1)
        die("no rows");
    struct {
        double sum;
        double max;
        int64_t count;
        int64_t values; /* that are not NULL */
    } sums[MODULES + 1] = {{0}};
    const int64_t begin = gsp_now_ns();
    for (uint64_t from = span.from; from < span.to;) {
        size_t n = span.to - from;
        const double *duration = gsp_ring_values(view, 0, 3, from, &n);
        const uint32_t *module = gsp_ring_values(view, 0, 4, from, &n);
        for (size_t i = 0; i < n; i++) {
            const uint32_t id = module[i] <= MODULES ? module[i] : 0;
            sums[id].count++;
            if (gsp_is_null_f64(duration[i]))
                continue;
            sums[id].values++;
            sums[id].sum += duration[i];
            sums[id].max = sums[id].max > duration[i] ? sums[id].max : duration[i];
        }
        from += n;
    }
    const double ms = ms_since(begin);
    struct gsp_ring_dict dict;
    if (gsp_ring_dict_read(view, &dict, NULL) != 0)
        die("no strings");
    out->count = 0;
    for (uint32_t id = 1; id < dict.count; id++) {
        struct group *group = &out->at[out->count++];
        snprintf(group->name, sizeof(group->name), "%.*s", (int)dict.strings[id].len,
                 dict.strings[id].p);
        group->count = sums[id].count;
        group->mean = sums[id].sum / (double)sums[id].values;
        group->max = sums[id].max;
    }
    gsp_ring_dict_free(&dict);
    return ms;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct group *)a)->name, ((const struct group *)b)->name);
}

static const char GROUP_SQL[] = "SELECT module, count(*), avg(duration), max(duration) FROM "
                                "python.bench GROUP BY module ORDER BY module";

static double query(struct gsp_store *store, const char *sql, struct groups *out)
{
    struct gsp_err err = {0};
    struct gsp_rows *rows = NULL;
    const int64_t begin = gsp_now_ns();
    if (gsp_store_query(store, gsp_sv_of(sql), &rows, NULL, &err) != 0)
        die(err.msg);
    struct gsp_batch_view view;
    int rc = 0;
    if (out)
        out->count = 0;
    while ((rc = gsp_rows_next(rows, &view, &err)) > 0) {
        for (size_t i = 0; out && i < view.row_count && out->count < MODULES; i++) {
            struct group *group = &out->at[out->count++];
            const struct gsp_sv name =
                rows->columns[0].dict[((const uint32_t *)view.values[0].data)[i]];
            snprintf(group->name, sizeof(group->name), "%.*s", (int)name.len, name.p);
            group->count = ((const int64_t *)view.values[1].data)[i];
            group->mean = ((const double *)view.values[2].data)[i];
            group->max = ((const double *)view.values[3].data)[i];
        }
    }
    if (rc < 0)
        die(err.msg);
    gsp_rows_free(rows);
    return ms_since(begin);
}

/* The same rows in a table of DuckDB. */
static duckdb_connection own_table(const struct gsp_duckdb *duck, uint64_t rows)
{
    duckdb_database db = NULL;
    duckdb_connection con = NULL;
    duckdb_config config = NULL;
    duckdb_result result;
    char sql[512];
    if (duck->create_config(&config) != DuckDBSuccess ||
        duck->open_ext(NULL, &db, config, NULL) != DuckDBSuccess ||
        duck->connect(db, &con) != DuckDBSuccess)
        die("cannot start DuckDB");
    snprintf(sql, sizeof(sql),
             "CREATE SCHEMA python; CREATE TABLE python.bench AS SELECT i * 1000 AS ts_ns, i // "
             "100 AS step, (i %% 1000)::DOUBLE / 1024 AS duration, 'layers.' || ((((i * "
             "2654435761) & 4294967295) >> 16) %% %u) || '.attn' AS module FROM range(%llu) r(i)",
             MODULES, (unsigned long long)rows);
    if (duck->query(con, sql, &result) != DuckDBSuccess)
        die(duck->result_error(&result));
    duck->destroy_result(&result);
    return con;
}

static double query_own(const struct gsp_duckdb *duck, duckdb_connection con, const char *sql)
{
    duckdb_result result;
    const int64_t begin = gsp_now_ns();
    if (duck->query(con, sql, &result) != DuckDBSuccess)
        die(duck->result_error(&result));
    const double ms = ms_since(begin);
    duck->destroy_result(&result);
    return ms;
}

static bool same(const struct groups *a, const struct groups *b)
{
    bool ok = a->count == b->count && a->count > 0;
    for (size_t i = 0; ok && i < a->count; i++) {
        ok = strcmp(a->at[i].name, b->at[i].name) == 0 && a->at[i].count == b->at[i].count &&
             a->at[i].max == b->at[i].max && fabs(a->at[i].mean - b->at[i].mean) < 1e-9;
    }
    return ok;
}

static void print_list(const char *name, const double *values, int count)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < count; i++)
        printf("%s%.4f", i ? ", " : "", values[i]);
    printf("], ");
}

static void measure(const char *folder, int folder_fd, const char *library, uint64_t rows,
                    int rounds)
{
    struct gsp_err err = {0};
    struct gsp_ring_view *view = NULL;
    struct gsp_store *store = NULL;
    const struct gsp_duckdb *duck = NULL;
    struct gsp_ring_dir place = {.pid = getpid()};
    snprintf(place.path, sizeof(place.path), "%s", folder);
    if (gsp_ring_open(folder_fd, RING_FILE, &view, &err) != 0 ||
        gsp_store__engine_load(library, &duck, &err) != 0 ||
        gsp_store_open(&(struct gsp_store_options){.library = library}, &store, &err) != 0 ||
        gsp_store_add_ring_dir(store, &place, &err) != 0 || gsp_store_lock(store, &err) != 0)
        die(err.msg);
    duckdb_connection own = own_table(duck, rows);
    static struct groups by_loop;
    static struct groups by_sql;
    double times[7][ROUNDS_MAX];
    char window[256];
    char where[256];
    const unsigned long long from = rows / 2 * 1000;
    snprintf(window, sizeof(window),
             "SELECT count(*) FROM gsprof_rows('python.bench', ts_from := %llu, ts_to := %llu)",
             from, from + (WINDOW - 1) * 1000ULL);
    snprintf(where, sizeof(where),
             "SELECT count(*) FROM python.bench WHERE ts_ns BETWEEN %llu AND %llu", from,
             from + (WINDOW - 1) * 1000ULL);
    for (int i = 0; i < rounds; i++) {
        times[0][i] = loop_in_c(view, &by_loop);
        const int64_t before = gsp_cputime_ns();
        times[1][i] = query(store, GROUP_SQL, &by_sql);
        const int64_t between = gsp_cputime_ns();
        times[2][i] = query_own(duck, own, GROUP_SQL);
        times[5][i] = (double)(between - before) / 1e6;
        times[6][i] = (double)(gsp_cputime_ns() - between) / 1e6;
        times[3][i] = query(store, window, NULL);
        times[4][i] = query(store, where, NULL);
    }
    qsort(by_loop.at, by_loop.count, sizeof(by_loop.at[0]), by_name);
    printf("{");
    print_list("loop_ms", times[0], rounds);
    print_list("ring_ms", times[1], rounds);
    print_list("own_ms", times[2], rounds);
    print_list("window_ms", times[3], rounds);
    print_list("where_ms", times[4], rounds);
    print_list("ring_cpu_ms", times[5], rounds);
    print_list("own_cpu_ms", times[6], rounds);
    printf("\"groups\": {");
    for (size_t i = 0; i < by_sql.count; i++)
        printf("%s\"%s\": [%lld, %.17g, %.17g]", i ? ", " : "", by_sql.at[i].name,
               (long long)by_sql.at[i].count, by_sql.at[i].mean, by_sql.at[i].max);
    printf("}, \"same\": %s}\n", same(&by_loop, &by_sql) ? "true" : "false");
    gsp_store_close(store);
    gsp_ring_view_close(view);
}

static int hold(uint64_t rows)
{
    struct gsp_err err = {0};
    struct gsp_ring_dir place;
    int folder_fd = -1;
    const struct gsp_ring_dir_spec about = {.pid = getpid(), .rank = GSP_NULL_I64};
    if (gsp_ring_dir_create(&about, &folder_fd, &err) != 0)
        die(err.msg);
    fill(folder_fd, rows);
    printf("{\"pid\": %d}\n", (int)getpid());
    fflush(stdout);
    while (getchar() != EOF) {
    }
    if (gsp_ring_dir_find(getpid(), &place, &err) != 0)
        die(err.msg);
    unlinkat(folder_fd, RING_FILE, 0);
    unlinkat(folder_fd, "meta.json", 0);
    close(folder_fd);
    return rmdir(place.path) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "hold") == 0)
        return hold(strtoull(argv[2], NULL, 10));
    if (argc != 5 || strcmp(argv[1], "group") != 0)
        die("usage: sql group ROWS ROUNDS LIBRARY, or sql hold ROWS");
    const uint64_t rows = strtoull(argv[2], NULL, 10);
    const int rounds = atoi(argv[3]);
    if (rows < WINDOW * 2 || rows > GSP_RING_ROWS_MAX || rounds < 1 || rounds > ROUNDS_MAX)
        die("ROWS or ROUNDS is out of range");
    char folder[] = "/dev/shm/gsprof-bench-XXXXXX";
    if (!mkdtemp(folder))
        die("cannot create a folder in /dev/shm");
    const int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fill(folder_fd, rows);
    measure(folder, folder_fd, argv[4], rows, rounds);
    unlinkat(folder_fd, RING_FILE, 0);
    close(folder_fd);
    return rmdir(folder) == 0 ? 0 : 1;
}
