/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ring/writer.h"
#include "store_query.h"
#include "tap.h"

/* A temporary ring directory. */
struct fixture {
    struct gsp_ring_dir dir;
    int fd;
};

static struct fixture new_folder(void)
{
    struct fixture f = {.fd = -1};
    (void)snprintf(f.dir.path, sizeof(f.dir.path), "/tmp/gsprof-test-XXXXXX");
    tap_require(mkdtemp(f.dir.path) != NULL);
    f.fd = open(f.dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tap_require(f.fd >= 0);
    return f;
}

static void end_folder(struct fixture *f)
{
    static const char *const NAMES[] = {"python.torch_trace.ring", "python.span.ring",
                                        "my.numbers.ring", "python.torch_step.ring"};
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        (void)unlinkat(f->fd, NAMES[i], 0);
    close(f->fd);
    tap_check(rmdir(f->dir.path) == 0);
}

static struct gsp_ring *new_ring(const struct fixture *f, const struct gsp_table *table,
                                 uint32_t rows)
{
    struct gsp_ring *ring = NULL;
    struct gsp_err err = {0};
    const struct gsp_ring_spec spec = {
        .table = table, .row_capacity = rows, .rank = 2, .host = "box", .text_bytes = 4096};
    if (gsp_ring_create(f->fd, &spec, &ring, &err) != GSP_OK)
        printf("# %s\n", err.msg);
    tap_require(ring != NULL);
    return ring;
}

static void append(struct gsp_ring *ring, int64_t step, const char *module)
{
    const struct gsp_row_python_torch_trace row = {
        .ts_ns = 5000 + step,
        .mono_ns = step,
        .step = step,
        .seq = step,
        .module = module ? gsp_ring_intern(ring, gsp_sv_of(module)) : GSP_NULL_STR,
        .allocated = gsp_null_f64(),
        .duration = (double)step,
        .thread_id = step,
    };
    tap_require(gsp_ring_append(ring, &row));
}

static struct gsp_store *store_over(const struct fixture *f)
{
    struct gsp_store *store = open_store(NULL);
    struct gsp_err err = {0};
    if (gsp_store_add_ring_dir(store, &f->dir, &err) != GSP_OK)
        printf("# %s\n", err.msg);
    lock_store(store);
    return store;
}

#define TRACE gsp_wire_table_at(GSP_TABLE_python_torch_trace)

TAP_TEST(a_growing_ring)
{
    struct fixture f = new_folder();
    struct gsp_ring *ring = new_ring(&f, TRACE, 100);
    append(ring, 1, "zeta");
    append(ring, 2, NULL);
    struct gsp_store *store = store_over(&f);
    gsp_auto_buf out = {0};
    tap_check(gsp_store_warning(store, 0) == NULL);
    tap_eq_str(query(store,
                     "SELECT ts_ns, host, rank, step, module, allocated FROM "
                     "python.torch_trace",
                     &out),
               "5001,box,2,1,zeta,NULL;5002,box,2,2,NULL,NULL");
    tap_eq_str(query(store,
                     "SELECT DISTINCT pid = getpid FROM python.torch_trace, (SELECT 1 AS "
                     "getpid)",
                     &out),
               "false");
    append(ring, 3, "alpha");
    tap_eq_str(query(store, "SELECT step, module FROM python.torch_trace ORDER BY module", &out),
               "3,alpha;1,zeta;2,NULL");
    for (int i = 0; i < 300; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "m%03d", i);
        append(ring, 4 + i, name);
    }
    tap_eq_str(query(store,
                     "SELECT count(*), min(step), max(step), min(module), max(module) FROM "
                     "python.torch_trace",
                     &out),
               "100,204,303,m200,m299");
    tap_eq_str(query(store, "SELECT source, cause, count, rank FROM gsprof.loss", &out),
               "python.torch_trace,overwritten,203,2");
    gsp_auto_fd file = openat(f.fd, "python.torch_trace.ring", O_RDWR | O_CLOEXEC);
    const uint64_t lost[] = {5, 0, 7};
    tap_require(pwrite(file, lost, sizeof(lost), offsetof(struct gsp_ring_head, rows_lost)) ==
                (ssize_t)sizeof(lost));
    tap_eq_str(query(store, "SELECT cause, count FROM gsprof.loss", &out),
               "overwritten,203;no lane,5;file not opened,7");
    gsp_ring_close(ring);
    tap_eq_str(query(store, "SELECT count(*) FROM python.torch_trace WHERE module > 'm2'", &out),
               "100");
    gsp_store_close(store);
    end_folder(&f);
}

TAP_TEST(a_time_range_of_a_ring)
{
    struct fixture f = new_folder();
    struct gsp_ring *ring = new_ring(&f, TRACE, 10000);
    for (int i = 0; i < 12345; i++)
        append(ring, i, "m");
    struct gsp_store *store = store_over(&f);
    gsp_auto_buf out = {0};
    tap_eq_str(query(store,
                     "SELECT count(*), min(step), max(step) FROM "
                     "gsprof_rows('python.torch_trace', ts_from := 15000, ts_to := 15999)",
                     &out),
               "1000,10000,10999");
    tap_eq_str(
        query(store, "SELECT count(*) FROM gsprof_rows('python.torch_trace', ts_to := 10)", &out),
        "0");
    gsp_store_close(store);
    gsp_ring_close(ring);
    end_folder(&f);
}

TAP_TEST(user_tables_and_rings_created_later)
{
    static const struct gsp_column COLUMNS[] = {
        {"ts_ns", "", "", GSP_I64, 0},  {"mono_ns", "", "", GSP_I64, 8}, {"n", "", "", GSP_I64, 16},
        {"flag", "", "", GSP_BOOL, 24}, {"note", "", "", GSP_TEXT, 32},
    };
    static const struct gsp_table NUMBERS = {"my", "numbers", "", COLUMNS, GSP_SCOPE_TARGET, 5, 48};
    struct fixture f = new_folder();
    struct gsp_store *store = store_over(&f);
    gsp_auto_buf out = {0};
    tap_check(strncmp(query(store, "FROM my.numbers", &out), "! USAGE", 7) == 0);
    struct gsp_ring *ring = new_ring(&f, &NUMBERS, 100);
    const struct {
        int64_t ts_ns;
        int64_t mono_ns;
        int64_t n;
        uint64_t flag;
        struct gsp_sv note;
    } rows[] = {{1, 1, 10, 1, gsp_sv_of("first")},
                {2, 2, 20, 0, {NULL, 0}},
                {3, 3, 30, GSP_NULL_BOOL, gsp_sv_of("")}};
    for (size_t i = 0; i < GSP_COUNT(rows); i++)
        tap_require(gsp_ring_append(ring, &rows[i]));
    tap_eq_str(query(store, "SELECT * EXCLUDE (pid) FROM my.numbers", &out),
               "1,box,2,10,true,first;2,box,2,20,false,NULL;3,box,2,30,NULL,");
    tap_eq_str(query(store,
                     "SELECT table_schema FROM information_schema.tables WHERE table_name = "
                     "'numbers'",
                     &out),
               "my");
    gsp_ring_close(ring);
    gsp_store_close(store);
    end_folder(&f);
}

TAP_TEST(overwritten_text_is_null_and_counted)
{
    struct fixture f = new_folder();
    struct gsp_ring *ring = new_ring(&f, gsp_wire_table_at(GSP_TABLE_python_span), 100);
    static char long_text[1001];
    memset(long_text, 'x', sizeof(long_text) - 1);
    for (int i = 0; i < 10; i++) {
        const struct gsp_row_python_span row = {.span_id = i, .attributes = gsp_sv_of(long_text)};
        tap_require(gsp_ring_append(ring, &row));
    }
    struct gsp_store *store = store_over(&f);
    gsp_auto_buf out = {0};
    tap_eq_str(query(store,
                     "SELECT count(*), count(attributes) = 4 OR count(attributes) = 3, "
                     "max(length(attributes)) FROM python.span",
                     &out),
               "10,true,1000");
    tap_check(
        strstr(query(store, "SELECT cause, count FROM gsprof.loss", &out), "text overwritten"));
    gsp_store_close(store);
    gsp_ring_close(ring);
    end_folder(&f);
}

TAP_TEST(a_full_dictionary_gives_null_and_a_warning)
{
    struct fixture f = new_folder();
    struct gsp_ring *ring = NULL;
    const struct gsp_ring_spec spec = {
        .table = TRACE, .row_capacity = 100, .rank = 2, .host = "box", .string_max = 20};
    tap_require(gsp_ring_create(f.fd, &spec, &ring, NULL) == GSP_OK);
    for (int i = 0; i < 50; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "m%03d", i);
        append(ring, i, name);
    }
    struct gsp_store *store = store_over(&f);
    gsp_auto_buf out = {0};
    /* No warning if the query reads no string. */
    tap_eq_str(query(store, "SELECT max(step) FROM python.torch_trace", &out), "49");
    tap_check(gsp_store_warning(store, 0) == NULL);
    tap_eq_str(query(store, "SELECT count(*), count(module) FROM python.torch_trace", &out),
               "50,20");
    tap_eq_str(gsp_store_warning(store, 0),
               "30 values of python.torch_trace are NULL because its dictionary is full");
    tap_eq_str(query(store, "SELECT source, cause, count FROM gsprof.loss", &out),
               "python.torch_trace,dictionary full,30");
    /* Warns once, and again for new losses. */
    query(store, "SELECT count(module) FROM python.torch_trace", &out);
    tap_check(gsp_store_warning(store, 1) == NULL);
    append(ring, 50, "one more");
    query(store, "SELECT count(module) FROM python.torch_trace", &out);
    tap_eq_str(gsp_store_warning(store, 1),
               "1 value of python.torch_trace is NULL because its dictionary is full");
    gsp_ring_close(ring);
    gsp_store_close(store);
    end_folder(&f);
}

/* Counts the remaining rows of a result. */
static uint64_t count_rest(struct gsp_rows *rows)
{
    struct gsp_batch_view view;
    uint64_t count = 0;
    while (gsp_rows_next(rows, &view, NULL) > 0)
        count += view.row_count;
    return count;
}

TAP_TEST(rows_overwritten_during_a_query_give_a_warning)
{
    struct fixture f = new_folder();
    const int64_t all = 1000000;
    struct gsp_ring *ring = new_ring(&f, TRACE, (uint32_t)all);
    for (int64_t i = 0; i < all; i++)
        append(ring, i, NULL);
    struct gsp_store *store = store_over(&f);
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view view;
    gsp_auto_buf out = {0};
    /* The writer overwrites all rows while the result is read; the engine has buffered only some of
     * them. */
    const struct gsp_sv sql = gsp_sv_of("SELECT step, seq, ts_ns FROM python.torch_trace");
    tap_require(gsp_store_query(store, sql, &rows, NULL, NULL) == GSP_OK);
    tap_require(gsp_rows_next(rows, &view, NULL) == 1);
    uint64_t given = view.row_count;
    for (int64_t i = 0; i < all; i++)
        append(ring, all + i, NULL);
    given += count_rest(rows);
    gsp_rows_free(rows);
    tap_check(given < (uint64_t)all);
    const uint64_t missed = (uint64_t)all - given;
    gsp_auto_buf expected = {0};
    gsp_buf_printf(&expected, "%llu rows of python.torch_trace were overwritten during the query",
                   (unsigned long long)missed);
    const char *warning = gsp_store_warning(store, 0);
    tap_check(warning && gsp_sv_starts(gsp_sv_of(warning), gsp_buf_cstr(&expected)));
    gsp_buf_clear(&expected);
    gsp_buf_printf(&expected, "%llu", (unsigned long long)missed);
    tap_eq_str(
        query(store, "SELECT count FROM gsprof.loss WHERE cause = 'overwritten while read'", &out),
        gsp_buf_cstr(&expected));
    /* No second warning for a complete result. */
    query(store, "SELECT count(*) FROM python.torch_trace", &out);
    tap_check(gsp_store_warning(store, 1) == NULL);
    gsp_ring_close(ring);
    gsp_store_close(store);
    end_folder(&f);
}

TAP_TEST(a_file_that_is_not_a_ring_gives_a_warning)
{
    struct fixture f = new_folder();
    const int fd = openat(f.fd, "python.torch_step.ring", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    tap_require(fd >= 0);
    tap_require(write(fd, "GSPRING1 but nothing else", 25) == 25);
    close(fd);
    struct gsp_store *store = store_over(&f);
    const char *warning = gsp_store_warning(store, 0);
    tap_check(warning && strstr(warning, "python.torch_step.ring"));
    tap_check(gsp_store_warning(store, 1) == NULL);
    gsp_auto_buf out = {0};
    tap_eq_str(query(store, "SELECT count(*) FROM python.torch_step", &out), "0");
    gsp_store_close(store);
    end_folder(&f);
}

static uint64_t from_seven(const void *ctx, const struct gsp_ring_info *info, uint32_t lane)
{
    (void)info;
    return lane == 0 ? *(const uint64_t *)ctx : 0;
}

TAP_TEST(rows_in_segments_are_not_read_from_the_ring)
{
    struct fixture f = new_folder();
    struct gsp_ring *ring = new_ring(&f, TRACE, 100);
    for (int i = 0; i < 10; i++)
        append(ring, i, "m");
    struct gsp_store *store = open_store(NULL);
    const uint64_t seven = 7;
    tap_require(gsp_store__add_ring_dir_from(store, &f.dir,
                                             &(struct gsp_ring_start){from_seven, NULL, &seven},
                                             NULL) == GSP_OK);
    lock_store(store);
    gsp_auto_buf out = {0};
    tap_eq_str(query(store, "SELECT step FROM python.torch_trace", &out), "7;8;9");
    tap_eq_str(query(store, "SELECT count(*) FROM gsprof.loss", &out), "0");
    for (int i = 0; i < 100; i++)
        append(ring, 10 + i, "m");
    tap_eq_str(query(store, "SELECT count FROM gsprof.loss", &out), "3");
    gsp_store_close(store);
    gsp_ring_close(ring);
    end_folder(&f);
}

struct writer {
    struct gsp_ring *ring;
    _Atomic bool stop;
    _Atomic int64_t rows;
};

static void *write_rows(void *arg)
{
    struct writer *writer = arg;
    for (int64_t i = 1; !atomic_load_explicit(&writer->stop, memory_order_relaxed); i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "m%d", (int)(i % 700));
        append(writer->ring, i, i % 11 ? name : NULL);
        atomic_store_explicit(&writer->rows, i, memory_order_release);
    }
    return NULL;
}

TAP_TEST(no_row_is_torn_by_a_fast_writer)
{
    struct fixture f = new_folder();
    struct writer writer = {.ring = new_ring(&f, TRACE, 200000)};
    pthread_t threads[2];
    for (size_t i = 0; i < GSP_COUNT(threads); i++)
        tap_require(pthread_create(&threads[i], NULL, write_rows, &writer) == 0);
    while (atomic_load(&writer.rows) < 500000) {
    }
    struct gsp_store *store = store_over(&f);
    gsp_auto_buf out = {0};
    /* On a busy machine the writers may overwrite all rows during the query. The loss must then
     * show it, and the test queries again. */
    int found = 0;
    for (int i = 0; i < 300 && found < 30; i++) {
        const char *line =
            query(store,
                  "SELECT count(*) FILTER (step <> seq OR step <> thread_id OR step <> duration OR "
                  "ts_ns <> step + 5000 OR (step % 11 = 0) <> (module IS NULL) OR module <> 'm' || "
                  "(step % 700)), count(*) > 0 FROM python.torch_trace",
                  &out);
        if (strcmp(line, "0,true") == 0)
            found++;
        else if (!tap_eq_str(line, "0,false") ||
                 !tap_eq_str(query(store, "SELECT sum(count) > 0 FROM gsprof.loss", &out), "true"))
            break;
    }
    tap_check(found > 0);
    atomic_store(&writer.stop, true);
    for (size_t i = 0; i < GSP_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    gsp_store_close(store);
    gsp_ring_close(writer.ring);
    end_folder(&f);
}

TAP_MAIN()
