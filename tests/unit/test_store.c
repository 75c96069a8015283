/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/store.h"
#include "store_query.h"
#include "tap.h"

static struct gsp_batch *new_trace(void)
{
    struct gsp_batch *batch = NULL;
    tap_require(gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_python_torch_trace), "node1", 77, 3,
                                    &batch, NULL) == GSP_OK);
    return batch;
}

static void add_trace(struct gsp_batch *batch, int64_t step, const char *module, double duration)
{
    const struct gsp_row_python_torch_trace row = {
        .ts_ns = 1000 + step,
        .mono_ns = step,
        .step = step,
        .seq = GSP_NULL_I64,
        .module = module ? gsp_store_batch_intern(batch, gsp_sv_of(module)) : GSP_NULL_STR,
        .stage = gsp_store_batch_intern(batch, gsp_sv_of("forward")),
        .allocated = gsp_null_f64(),
        .max_allocated = gsp_null_f64(),
        .cached = gsp_null_f64(),
        .duration = duration,
        .thread_id = 5,
        .flops = gsp_null_f64(),
    };
    tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
}

static struct gsp_store *trace_store(void)
{
    struct gsp_store *store = open_store(NULL);
    struct gsp_batch *batch = new_trace();
    add_trace(batch, 100, "zeta", 0.5);
    add_trace(batch, 101, "alpha", 0.25);
    add_trace(batch, 102, NULL, 1);
    add_trace(batch, 103, "alpha", 0.75);
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
    lock_store(store);
    return store;
}

TAP_TEST(a_new_store_has_every_table_and_no_other)
{
    struct gsp_store *store = open_store(NULL);
    lock_store(store);
    gsp_auto_buf out = {0};
    gsp_auto_buf expected = {0};
    gsp_buf_printf(&expected, "%d", (int)GSP_TABLE_COUNT);
    tap_eq_str(query(store, "SELECT count(*) FROM information_schema.tables", &out),
               gsp_buf_cstr(&expected));
    for (size_t i = 0; i < GSP_TABLE_COUNT; i++) {
        gsp_auto_buf sql = {0};
        gsp_buf_printf(&sql, "SELECT count(*) FROM %s.%s", gsp_wire_table_at(i)->schema,
                       gsp_wire_table_at(i)->name);
        tap_eq_str(query(store, gsp_buf_cstr(&sql), &out), "0");
        gsp_buf_clear(&sql);
        gsp_buf_printf(&sql, "SELECT * FROM %s.%s", gsp_wire_table_at(i)->schema,
                       gsp_wire_table_at(i)->name);
        tap_eq_str(query(store, gsp_buf_cstr(&sql), &out), "");
    }
    gsp_store_close(store);
}

TAP_TEST(rows_of_a_batch)
{
    struct gsp_store *store = trace_store();
    gsp_auto_buf out = {0};
    tap_eq_str(query(store, "SELECT * FROM python.torch_trace WHERE step > 101", &out),
               "1102,node1,77,3,102,NULL,NULL,forward,NULL,NULL,NULL,1,5,NULL,NULL,NULL;"
               "1103,node1,77,3,103,NULL,alpha,forward,NULL,NULL,NULL,0.75,5,NULL,NULL,NULL");
    tap_eq_str(query(store,
                     "SELECT module, count(*), avg(duration), max(duration) FROM "
                     "python.torch_trace GROUP BY module ORDER BY module",
                     &out),
               "alpha,2,0.5,0.75;zeta,1,0.5,0.5;NULL,1,1,1");
    tap_eq_str(query(store, "SELECT count(*) FROM python.torch_trace WHERE module = 'nope'", &out),
               "0");
    tap_eq_str(query(store, "SELECT step FROM python.torch_trace WHERE module LIKE 'al%'", &out),
               "101;103");
    tap_eq_str(query(store, "SELECT count(*) FROM python.torch_trace", &out), "4");
    tap_eq_str(query(store, "SELECT sum(step) FROM python.torch_trace", &out), "406");
    gsp_store_close(store);
}

TAP_TEST(time_range)
{
    struct gsp_store *store = trace_store();
    gsp_auto_buf out = {0};
    tap_eq_str(query(store,
                     "SELECT step FROM gsprof_rows('python.torch_trace', ts_from := 1101, "
                     "ts_to := 1102)",
                     &out),
               "101;102");
    tap_eq_str(
        query(store, "SELECT step FROM gsprof_rows('python.torch_trace', ts_from := 1103)", &out),
        "103");
    tap_check(strncmp(query(store, "FROM gsprof_rows('nope')", &out), "! USAGE", 7) == 0);
    tap_check(strncmp(query(store, "FROM gsprof_rows(NULL)", &out), "! USAGE", 7) == 0);
    tap_check(strncmp(query(store, "FROM gsprof_rows('python.torch_trace', ts_from := NULL)", &out),
                      "! USAGE", 7) == 0);
    gsp_store_close(store);
}

TAP_TEST(batches_of_one_table_are_combined)
{
    struct gsp_store *store = open_store(NULL);
    struct gsp_batch *a = new_trace();
    struct gsp_batch *b = new_trace();
    add_trace(a, 1, "x", 1);
    add_trace(b, 2, "a", 2);
    add_trace(b, 3, "x", 3);
    tap_require(gsp_store_add_batch(store, a, NULL) == GSP_OK);
    tap_require(gsp_store_add_batch(store, b, NULL) == GSP_OK);
    lock_store(store);
    gsp_auto_buf out = {0};
    tap_eq_str(query(store,
                     "SELECT module, sum(duration) FROM python.torch_trace GROUP BY ALL ORDER BY 1",
                     &out),
               "a,2;x,4");
    gsp_store_close(store);
}

TAP_TEST(invalid_utf8_is_replaced)
{
    struct gsp_store *store = open_store(NULL);
    struct gsp_batch *batch = new_trace();
    add_trace(batch, 1, "bad \xff byte", 1);
    add_trace(batch, 2, "it's \"quoted\"", 1);
    add_trace(batch, 3, "", 1);
    struct gsp_row_python_torch_trace row = {.step = 4};
    row.module = gsp_store_batch_intern(batch, (struct gsp_sv){"a\0b", 3});
    tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
    lock_store(store);
    gsp_auto_buf out = {0};
    tap_eq_str(query(store, "SELECT module FROM python.torch_trace ORDER BY step", &out),
               "bad \xef\xbf\xbd byte;it's \"quoted\";;a\xef\xbf\xbd"
               "b");
    gsp_store_close(store);
}

TAP_TEST(many_strings_sort_like_text)
{
    static const uint32_t COUNTS[] = {255, 256, 70000};
    for (size_t k = 0; k < GSP_COUNT(COUNTS); k++) {
        struct gsp_store *store = open_store(NULL);
        struct gsp_batch *batch = new_trace();
        for (uint32_t i = 0; i < COUNTS[k]; i++) {
            char name[32];
            (void)snprintf(name, sizeof(name), "m%08x", i * 2654435761U);
            add_trace(batch, i, i % 100 == 99 ? NULL : name, 1);
        }
        tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
        lock_store(store);
        gsp_auto_buf out = {0};
        tap_eq_str(query(store,
                         "SELECT count(*) FROM (SELECT module::VARCHAR AS m, lag(module::VARCHAR) "
                         "OVER (ORDER BY module) AS before FROM python.torch_trace WHERE module IS "
                         "NOT NULL) WHERE m < before",
                         &out),
                   "0");
        gsp_auto_buf expected = {0};
        gsp_buf_printf(&expected, "%u,%u", COUNTS[k], COUNTS[k] - COUNTS[k] / 100);
        tap_eq_str(query(store, "SELECT count(*), count(module) FROM python.torch_trace", &out),
                   gsp_buf_cstr(&expected));
        tap_eq_str(query(store, "SELECT module FROM python.torch_trace WHERE step = 1", &out),
                   "m9e3779b1");
        gsp_store_close(store);
    }
}

static int fill_backtrace(void *ctx, struct gsp_batch *batch, struct gsp_err *err)
{
    int *calls = ctx;
    (*calls)++;
    if (*calls > 3)
        return gsp_err_set(err, GSP_E_NOPROC, 0, "the process is gone");
    const struct gsp_row_python_backtrace row = {
        .pid = *calls,
        .rank = GSP_NULL_I64,
        .func = gsp_store_batch_intern(batch, gsp_sv_of(*calls == 1 ? "main" : "other")),
        .locals = gsp_sv_of("{\"x\": 1}"),
    };
    return gsp_store_batch_append(batch, &row, err);
}

TAP_TEST(live_tables_are_filled_once_per_query)
{
    struct gsp_store *store = open_store(NULL);
    int calls = 0;
    tap_require(gsp_store_add_live(store, gsp_wire_table_at(GSP_TABLE_python_backtrace),
                                   fill_backtrace, &calls, NULL) == GSP_OK);
    lock_store(store);
    gsp_auto_buf out = {0};
    tap_eq_str(query(store, "SELECT 1", &out), "1");
    tap_eq_int(calls, 0);
    tap_eq_str(query(store, "SELECT pid, func, locals FROM python.backtrace", &out),
               "1,main,{\"x\": 1}");
    tap_eq_str(query(store,
                     "SELECT a.pid, b.func FROM python.backtrace a JOIN python.backtrace b USING "
                     "(pid)",
                     &out),
               "2,other");
    tap_eq_int(calls, 2);
    tap_eq_str(query(store, "SELECT func FROM python.backtrace", &out), "other");
    tap_eq_str(query(store, "SELECT func FROM python.backtrace", &out),
               "! NOPROC the process is gone");
    tap_eq_str(query(store, "SELECT 2", &out), "2");
    gsp_store_close(store);
}

TAP_TEST(every_type_is_formatted)
{
    static const struct {
        const char *sql;
        const char *expected;
    } CASES[] = {
        {"true", "true"},
        {"(-5)::TINYINT", "-5"},
        {"(-500)::SMALLINT", "-500"},
        {"70000::INTEGER", "70000"},
        {"9223372036854775807", "9223372036854775807"},
        {"200::UTINYINT", "200"},
        {"60000::USMALLINT", "60000"},
        {"4000000000::UINTEGER", "4000000000"},
        {"18446744073709551615::UBIGINT", "18446744073709551615"},
        {"(-7)::HUGEINT", "-7"},
        {"340282366920938463463374607431768211455::UHUGEINT",
         "340282366920938463463374607431768211455"},
        {"1.5::FLOAT", "1.5"},
        {"2.25::DOUBLE", "2.25"},
        {"12.34::DECIMAL(4,2)", "12.34"},
        {"-12345.678::DECIMAL(9,3)", "-12345.678"},
        {"12345678901.5::DECIMAL(18,1)", "1.23456789e+10"},
        {"1.25::DECIMAL(38,2)", "1.25"},
        {"'text'", "text"},
        {"'a longer text than twelve bytes'", "a longer text than twelve bytes"},
        {"'a\\xFFb'::BLOB", "a\\xFFb"},
        {"'10110'::BIT", "10110"},
        {"DATE '2024-02-29'", "2024-02-29"},
        {"DATE '0001-01-01'", "0001-01-01"},
        {"'infinity'::DATE", "infinity"},
        {"TIME '12:34:56.5'", "12:34:56.5"},
        {"TIMESTAMP '1969-12-31 23:59:59.999'", "1969-12-31 23:59:59.999"},
        {"'2024-03-01 00:00:01'::TIMESTAMP_S", "2024-03-01 00:00:01"},
        {"'2024-03-01 00:00:01.25'::TIMESTAMP_MS", "2024-03-01 00:00:01.25"},
        {"'2024-03-01 00:00:01.000000001'::TIMESTAMP_NS", "2024-03-01 00:00:01.000000001"},
        {"'2024-03-01 00:00:01+00'::TIMESTAMPTZ", "2024-03-01 00:00:01+00"},
        {"'-infinity'::TIMESTAMP", "-infinity"},
        {"'01:02:03+05:30'::TIMETZ", "01:02:03+05:30"},
        {"INTERVAL '14 months 3 days 4 seconds'", "1 year 2 months 3 days 00:00:04"},
        {"INTERVAL '0 seconds'", "00:00:00"},
        {"'00112233-4455-6677-8899-aabbccddeeff'::UUID", "00112233-4455-6677-8899-aabbccddeeff"},
        {"'b'::ENUM('a', 'b')", "b"},
        {"[1, NULL, 3]", "[1,null,3]"},
        {"[1.5, 2.5]::DOUBLE[2]", "[1.5,2.5]"},
        {"{'a': 1, 'b': ['x', 'y\"']}", "{\"a\":1,\"b\":[\"x\",\"y\\\"\"]}"},
        {"MAP {'k': 1, 'l': NULL}", "{\"k\":1,\"l\":null}"},
        {"MAP {1: DATE '2024-01-01'}", "{\"1\":\"2024-01-01\"}"},
        {"union_value(num := 2)", "2"},
        {"'{\"j\": [1]}'::JSON", "{\"j\": [1]}"},
        {"[123456789012345678901234567890::HUGEINT]", "[123456789012345678901234567890]"},
        {"NULL", "NULL"},
        {"NULL::INTEGER[]", "NULL"},
        {"'123456789012345678901234567890'::BIGNUM", "123456789012345678901234567890"},
        {"'-256'::BIGNUM", "-256"},
        {"[]", "[]"},
    };
    struct gsp_store *store = open_store(NULL);
    lock_store(store);
    gsp_auto_buf out = {0};
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        gsp_auto_buf sql = {0};
        gsp_buf_printf(&sql, "SELECT %s", CASES[i].sql);
        tap_eq_str(query(store, gsp_buf_cstr(&sql), &out), CASES[i].expected);
    }
    /* All types of the engine, with their extreme values and NULL. */
    const char *all = query(store, "FROM test_all_types()", &out);
    tap_check(strncmp(all, "! ", 2) != 0 ||
              strncmp(all, "! USAGE a column has an unsupported type", 39) == 0);
    gsp_store_close(store);
}

TAP_TEST(limits_are_reported)
{
    struct gsp_store *store =
        open_store(&(struct gsp_store_options){.row_limit = 3, .timeout_ns = 50000000});
    lock_store(store);
    gsp_auto_buf out = {0};
    tap_eq_str(query(store, "SELECT * FROM range(3)", &out), "0;1;2");
    tap_eq_str(query(store, "SELECT * FROM range(4)", &out), "0;1;2 ...");
    tap_eq_str(query(store, "SELECT * FROM range(100000)", &out), "0;1;2 ...");
    tap_eq_str(query(store,
                     "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT "
                     "max(x) FROM r",
                     &out),
               "! TIMEOUT the query took longer than 0.05 s");
    tap_eq_str(query(store, "SELECT 1", &out), "1");
    gsp_store_close(store);
}

static void path_in(char *folder, char *path, size_t cap, const char *name)
{
    (void)snprintf(path, cap, "%s/%s", folder, name);
}

TAP_TEST(files_and_batches_are_combined)
{
    char folder[] = "/tmp/gsprof-test-XXXXXX";
    char path[128];
    char other[128];
    tap_require(mkdtemp(folder) != NULL);
    path_in(folder, path, sizeof(path), "it's.parquet");
    path_in(folder, other, sizeof(other), "broken.parquet");
    struct gsp_store *store = open_store(NULL);
    struct gsp_batch *batch = new_trace();
    for (int i = 0; i < 5000; i++)
        add_trace(batch, i, i % 2 ? "odd" : "even", 1);
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
    tap_require(gsp_store_allow_output(store, path, NULL) == GSP_OK);
    lock_store(store);
    struct gsp_err err = {0};
    struct gsp_sql_error where;
    uint64_t written = 0;
    const char *sql = "SELECT * EXCLUDE (flops) FROM python.torch_trace; -- the end";
    tap_eq_int(gsp_store_query_to_file(store, gsp_sv_of(sql), &written, &where, &err), GSP_OK);
    tap_eq_int((int64_t)written, 5000);
    tap_eq_int(gsp_store_query_to_file(store, gsp_sv_of("DROP VIEW python.torch_trace"), NULL,
                                       &where, &err),
               GSP_E_PERM);
    tap_eq_int(gsp_store_query_to_file(store, gsp_sv_of("SELECT nope"), NULL, &where, &err),
               GSP_E_USAGE);
    tap_eq_int(where.column, 8);
    gsp_store_close(store);

    FILE *file = fopen(other, "w");
    tap_require(file && fputs("PAR1 not really PAR1", file) >= 0 && fclose(file) == 0);
    store = open_store(NULL);
    batch = new_trace();
    add_trace(batch, 9999, "odd", 1);
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
    const char *const paths[] = {path, other, "/nowhere/x.parquet"};
    tap_require(gsp_store_add_parquet(store, "python", "torch_trace", paths, 3, NULL) == GSP_OK);
    tap_require(gsp_store_add_parquet(store, "my", "own", paths, 1, NULL) == GSP_OK);
    tap_check(gsp_store_warning(store, 0) && strstr(gsp_store_warning(store, 0), "broken"));
    tap_check(gsp_store_warning(store, 1) && strstr(gsp_store_warning(store, 1), "/nowhere"));
    tap_check(gsp_store_warning(store, 2) == NULL);
    lock_store(store);
    gsp_auto_buf out = {0};
    tap_eq_str(query(store,
                     "SELECT module, count(*), count(flops), max(step) FROM python.torch_trace "
                     "GROUP BY module ORDER BY module",
                     &out),
               "even,2500,0,4998;odd,2501,0,9999");
    tap_eq_str(query(store, "SELECT count(*), any_value(host) FROM my.own", &out), "5000,node1");
    tap_eq_int(unlink(path), 0);
    tap_check(strncmp(query(store, "SELECT count(*) FROM my.own", &out), "! ", 2) == 0);
    gsp_store_close(store);
    tap_eq_int(unlink(other), 0);
    tap_eq_int(rmdir(folder), 0);
}

/* Like query(), for a statement with parameters. */
static const char *query_with(struct gsp_store *store, const char *sql,
                              const struct gsp_param *params, size_t count, struct gsp_buf *out)
{
    struct gsp_rows *rows = NULL;
    struct gsp_err err = {0};
    struct gsp_batch_view view;
    gsp_buf_clear(out);
    int rc = gsp_store_query_with(store, gsp_sv_of(sql), &(struct gsp_params){params, count}, &rows,
                                  NULL, &err);
    if (rc < 0)
        gsp_buf_printf(out, "! %s %s", gsp_err_name(rc), err.msg);
    else if (gsp_rows_next(rows, &view, NULL) == 1)
        for (size_t c = 0; c < rows->column_count; c++) {
            gsp_buf_puts(out, c ? "," : "");
            put_value(out, &rows->columns[c], &view.values[c], 0);
        }
    gsp_rows_free(rows);
    return gsp_buf_cstr(out);
}

TAP_TEST(parameters_are_bound_as_values)
{
    struct gsp_store *store = trace_store();
    gsp_auto_buf out = {0};
    const struct gsp_param three[] = {{.kind = GSP_PARAM_I64, .whole = 7},
                                      {.kind = GSP_PARAM_TEXT, .text = gsp_sv_of("' OR 1=1 --")},
                                      {.kind = GSP_PARAM_NULL}};
    const struct gsp_param named[] = {
        {.name = gsp_sv_of("m"), .kind = GSP_PARAM_TEXT, .text = gsp_sv_of("alpha")},
        {.name = gsp_sv_of("d"), .kind = GSP_PARAM_F64, .number = 0.5}};
    const struct gsp_param truth = {.kind = GSP_PARAM_BOOL, .truth = true};
    const struct gsp_param nul = {.kind = GSP_PARAM_TEXT, .text = {"a\0b", 3}};
    tap_eq_str(query_with(store, "SELECT ?, ?, ?", three, 3, &out), "7,' OR 1=1 --,NULL");
    tap_eq_str(query_with(store, "SELECT $2, $1, $1, $3", three, 3, &out), "' OR 1=1 --,7,7,NULL");
    tap_eq_str(query_with(store, "SELECT NOT ?", &truth, 1, &out), "false");
    tap_eq_str(query_with(store,
                          "SELECT count(*) FROM python.torch_trace WHERE module = $m AND "
                          "duration > $d",
                          named, 2, &out),
               "1");
    tap_eq_str(query_with(store, "SELECT ?, ?", three, 1, &out),
               "! USAGE no value given for the parameter $2");
    tap_eq_str(query_with(store, "SELECT ?", NULL, 0, &out),
               "! USAGE no value given for the parameter $1");
    tap_eq_str(query_with(store, "SELECT $3", three, 1, &out),
               "! USAGE $1 is missing: parameters must be numbered without a gap");
    tap_eq_str(query_with(store, "SELECT ?", three, 3, &out),
               "! USAGE the statement has 1 parameter, not 3");
    tap_eq_str(query_with(store, "SELECT $m", named, 2, &out),
               "! USAGE the statement has no parameter $d");
    tap_eq_str(query_with(store, "SELECT $x", named, 1, &out),
               "! USAGE the statement has no parameter $m");
    tap_eq_str(query_with(store, "SELECT $m", three, 1, &out),
               "! USAGE no value given for the parameter $m");
    tap_eq_str(query_with(store, "SELECT ?", &nul, 1, &out),
               "! USAGE the value of the parameter $1 contains a NUL");
    tap_eq_str(query_with(store, "SELECT 1", NULL, 0, &out), "1");
    gsp_store_close(store);
}

static void read_squares(const void *ctx, uint32_t column, uint64_t from, size_t n, void *out)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        const int64_t row = (int64_t)(from + i);
        if (column == 6)
            ((double *)out)[i] = row % 10 == 3 ? gsp_null_f64() : (double)(row * row);
        else if (column >= 3)
            ((uint32_t *)out)[i] = column == 4 ? (uint32_t)(row % 3) : GSP_NULL_STR;
        else
            ((int64_t *)out)[i] = row;
    }
}

static void count_free(void *ctx)
{
    ++*(int *)ctx;
}

TAP_TEST(computed_rows)
{
    struct gsp_store *store = open_store(NULL);
    struct gsp_batch *batch = NULL;
    gsp_auto_buf out = {0};
    int freed = 0;
    tap_require(gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_session_frame), "node1",
                                    GSP_NULL_I64, GSP_NULL_I64, &batch, NULL) == GSP_OK);
    tap_eq_int(gsp_store_batch_intern(batch, gsp_sv_of("one")), 1);
    tap_eq_int(gsp_store_batch_intern(batch, gsp_sv_of("two")), 2);
    const struct gsp_computed squares = {1000000, read_squares, count_free, &freed};
    tap_require(gsp_store_add_computed(store, batch, &squares, NULL) == GSP_OK);
    lock_store(store);
    tap_eq_str(query(store,
                     "SELECT count(*), count(value), sum(frame_id), max(value), min(host) "
                     "FROM session.frame",
                     &out),
               "1000000,900000,499999500000,9.99998e+11,node1");
    tap_eq_str(query(store,
                     "SELECT metric, count(*) FROM session.frame GROUP BY metric "
                     "ORDER BY metric NULLS FIRST",
                     &out),
               "NULL,333334;one,333333;two,333333");
    tap_eq_str(query(store, "SELECT value FROM session.frame WHERE frame_id = 777", &out),
               "603729");
    tap_eq_str(query(store,
                     "SELECT count(*), min(ts_ns), max(ts_ns) FROM "
                     "gsprof_rows('session.frame', ts_from := 100, ts_to := 2000)",
                     &out),
               "1901,100,2000");
    gsp_store_close(store);
    tap_eq_int(freed, 1);
}

TAP_MAIN()
