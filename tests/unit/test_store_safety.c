/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/time.h"
#include "store_query.h"
#include "tap.h"

/* @ is replaced by the path of a file that no query may read. */
static const char *const REFUSED[] = {
    "COPY (SELECT 1) TO '@.out'",
    "COPY python.torch_trace FROM '@'",
    "COPY python.torch_trace TO '@.out' (FORMAT parquet)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '@.out'",
    "EXPLAIN COPY (SELECT 1) TO '@.out'",
    "EXPLAIN (FORMAT json, ANALYZE) COPY (SELECT 1) TO '@.out'",
    "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
    "EXPLAIN ANALYZE DROP VIEW python.torch_trace",
    "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
    "EXPLAIN ANALYZE EXPLAIN ANALYZE COPY (SELECT 1) TO '@.out'",
    "ATTACH '@.db'",
    "ATTACH '@.db' AS other (READ_ONLY)",
    "ATTACH ':memory:' AS other",
    "ATTACH IF NOT EXISTS '@.db' AS other (TYPE sqlite)",
    "DETACH memory",
    "USE system",
    "SELECT * FROM read_csv('@')",
    "SELECT * FROM read_csv_auto('@')",
    "SELECT * FROM read_csv(['@', '@'])",
    "SELECT * FROM sniff_csv('@')",
    "SELECT * FROM read_text('@')",
    "SELECT * FROM read_blob('@')",
    "SELECT * FROM read_json('@')",
    "SELECT * FROM read_json_objects('@')",
    "SELECT * FROM read_ndjson('@')",
    "SELECT * FROM read_parquet('@')",
    "SELECT * FROM parquet_scan('@')",
    "SELECT * FROM parquet_metadata('@')",
    "SELECT * FROM parquet_schema('@')",
    "SELECT * FROM parquet_file_metadata('@')",
    "SELECT * FROM parquet_kv_metadata('@')",
    "SELECT * FROM read_duckdb('@')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM glob('@*')",
    "SELECT * FROM '@'",
    "FROM '@.csv'",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT (SELECT content FROM read_text('@'))",
    "WITH x AS (SELECT * FROM read_text('@')) SELECT * FROM x",
    "SELECT * FROM query('SELECT * FROM read_text(''@'')')",
    "SELECT * FROM query_table('@')",
    "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
    "SELECT * FROM read_parquet('s3://bucket/x')",
    "SELECT * FROM 'https://127.0.0.1:1/x.parquet'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '@'",
    "FORCE INSTALL spatial FROM community",
    "UPDATE EXTENSIONS",
    "PRAGMA database_list",
    ";PRAGMA database_list",
    "/* x */;/*y*/ PRAGMA database_list",
    "\xc2\xa0PRAGMA database_list",
    "\xe2\x80\x8bPRAGMA database_list",
    "\xef\xbb\xbfPRAGMA database_list",
    "--\rPRAGMA database_list /*\nSELECT 1 --*/",
    "EXPLAIN PRAGMA database_list",
    "SELECT * FROM enable_logging('QueryLog', storage='stdout')",
    "SELECT * FROM \"Enable_Logging\"()",
    "SELECT * FROM system.main.enable_logging\xc2\xa0()",
    "SELECT * FROM disable_profiling /* x */ ()",
    "SELECT 1$$ $$, * FROM enable_logging() --$$",
    "FROM checkpoint()",
    "FROM force_checkpoint()",
    "FROM query('FROM enable_' || 'logging()')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM enable_logging()'))",
    "FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
    "SELECT write_log('x')",
    "SELECT 'x'.write_log()",
    "PRAGMA enable_external_access=true",
    "PRAGMA enable_profiling",
    "PRAGMA profiling_output='@.out'",
    "PRAGMA disable_verification",
    "PRAGMA memory_limit='100GB'",
    "PRAGMA import_database('@')",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET memory_limit = '100GB'",
    "SET temp_directory = '/tmp'",
    "SET VARIABLE x = 1",
    "RESET enable_external_access",
    "CREATE TABLE t (a INT)",
    "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE VIEW v AS SELECT 1",
    "CREATE OR REPLACE VIEW python.torch_trace AS SELECT 1",
    "CREATE SCHEMA s",
    "CREATE MACRO m() AS 1",
    "CREATE SEQUENCE s",
    "CREATE TYPE t AS ENUM ('a')",
    "CREATE SECRET s (TYPE s3)",
    "CREATE INDEX i ON t (a)",
    "DROP VIEW python.torch_trace",
    "DROP SCHEMA python CASCADE",
    "ALTER VIEW python.torch_trace RENAME TO x",
    "COMMENT ON VIEW python.torch_trace IS 'x'",
    "INSERT INTO python.torch_trace VALUES (1)",
    "UPDATE python.torch_trace SET step = 1",
    "DELETE FROM python.torch_trace",
    "MERGE INTO python.torch_trace USING (SELECT 1) ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE python.torch_trace",
    "EXPORT DATABASE '@.dir'",
    "IMPORT DATABASE '@.dir'",
    "CALL pragma_version()",
    "CALL enable_logging()",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP VIEW python.torch_trace",
    "SELECT 1;;SELECT 2;",
    "SELECT getenv('HOME')",
    "SELECT * FROM read_csv('/proc/self/environ')",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM pg_read_file('@')",
    "SELECT * FROM system('id')",
    "SELECT load_extension('x')",
    "",
    ";",
    "-- nothing",
};

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    tap_require(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void expand(const char *sql, const char *path, struct gsp_buf *out)
{
    gsp_buf_clear(out);
    for (; *sql; sql++)
        if (*sql == '@')
            gsp_buf_puts(out, path);
        else
            gsp_buf_putc(out, *sql);
}

TAP_TEST(forbidden_statements_are_refused)
{
    char folder[] = "/tmp/gsprof-test-XXXXXX";
    char path[128];
    tap_require(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/secret", folder);
    put_file(path, "a,b\nopen sesame,1\n");
    struct gsp_store *store = open_store(NULL);
    lock_store(store);
    gsp_auto_buf sql = {0};
    gsp_auto_buf out = {0};
    for (size_t i = 0; i < GSP_COUNT(REFUSED); i++) {
        expand(REFUSED[i], path, &sql);
        const char *text = gsp_buf_cstr(&sql);
        const char *answer = query(store, text, &out);
        const bool refused = strncmp(answer, "! ", 2) == 0 && !strstr(answer, "sesame");
        if (!refused)
            printf("# %s\n#   %.200s\n", text, answer);
        tap_check(refused);
    }
    /* Nothing was changed or written. */
    tap_eq_str(query(store, "SELECT count(*) FROM python.torch_trace", &out), "0");
    gsp_auto_buf expected = {0};
    gsp_buf_printf(&expected, "%d", (int)GSP_TABLE_COUNT);
    tap_eq_str(query(store, "SELECT count(*) FROM information_schema.tables", &out),
               gsp_buf_cstr(&expected));
    tap_eq_str(query(store,
                     "SELECT value FROM duckdb_settings() WHERE name IN "
                     "('enable_external_access', 'lock_configuration') ORDER BY name",
                     &out),
               "false;true");
    gsp_store_close(store);
    tap_eq_int(unlink(path), 0);
    tap_eq_int(rmdir(folder), 0);
}

TAP_TEST(allowed_statements_run)
{
    static const char *const ALLOWED[] = {
        "SELECT 1",
        "SELECT 1;",
        "  /* a */ SELECT 1 -- b",
        "FROM python.torch_trace",
        "VALUES (1), (2)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "TABLE python.torch_trace",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "EXPLAIN SELECT * FROM python.torch_trace",
        "EXPLAIN ANALYZE SELECT * FROM python.torch_trace",
        "EXPLAIN (FORMAT json) SELECT 1",
        "explain analyze (select 1)",
        "SELECT * FROM system.cpu",
        "SELECT system.cpu.cpu FROM \"system\".cpu",
        "SELECT 'system.cpu' AS \"system\"",
        "SELECT comment FROM duckdb_views() WHERE schema_name = 'python'",
        "PIVOT (SELECT 1 AS a, 2 AS b) ON a IN (1) USING sum(b)",
        "DESCRIBE python.torch_trace",
        "SHOW TABLES",
        "SUMMARIZE python.torch_trace",
    };
    struct gsp_store *store = open_store(NULL);
    lock_store(store);
    gsp_auto_buf out = {0};
    for (size_t i = 0; i < GSP_COUNT(ALLOWED); i++) {
        const char *answer = query(store, ALLOWED[i], &out);
        if (!tap_check(strncmp(answer, "! ", 2) != 0))
            printf("# %s\n#   %.200s\n", ALLOWED[i], answer);
    }
    tap_eq_str(query(store,
                     "SELECT comment FROM duckdb_columns() WHERE schema_name = 'python' AND "
                     "table_name = 'torch_trace' AND column_name = 'duration'",
                     &out),
               "duration of the call (s)");
    gsp_store_close(store);
}

static void expect_error_at(struct gsp_store *store, const char *sql, uint32_t line,
                            uint32_t column, const char *candidate)
{
    struct gsp_rows *rows = NULL;
    struct gsp_sql_error where;
    struct gsp_err err = {0};
    if (!tap_eq_int(gsp_store_query(store, gsp_sv_of(sql), &rows, &where, &err), GSP_E_USAGE)) {
        gsp_rows_free(rows);
        return;
    }
    const bool ok = tap_eq_int(where.line, line) && tap_eq_int(where.column, column) &&
                    tap_eq_str(where.candidate, candidate) && tap_check(!strchr(err.msg, '\n'));
    if (!ok)
        printf("# %s: %s\n", sql, err.msg);
}

TAP_TEST(errors_have_a_position_and_a_suggestion)
{
    struct gsp_store *store = open_store(NULL);
    lock_store(store);
    expect_error_at(store, "SELECT * FROM python.torch_trac", 1, 15, "torch_trace");
    expect_error_at(store, "SELECT * FROM torch_trace", 1, 15, "python.torch_trace");
    expect_error_at(store, "SELECT modules\nFROM python.torch_trace", 1, 8, "module");
    expect_error_at(store, "SELECT module,\n  '\xc3\xa4\xc3\xb6', stepp\nFROM python.torch_trace",
                    2, 9, "step");
    expect_error_at(store, "SELECT uper(module) FROM python.torch_trace", 1, 8, "upper");
    expect_error_at(store, "SELECT 1 +\n FROM WHERE x", 2, 2, "");
    expect_error_at(store, "SELECT utl_percent FROM system.cpu", 1, 8, "util_percent");
    expect_error_at(store, "SELECT util_percent FROM system.cpu WHERE utl_percent = 1", 1, 43,
                    "util_percent");
    expect_error_at(store, "SELECT 'a'::INTEGER", 1, 11, "");
    gsp_store_close(store);
}

TAP_TEST(greedy_queries_fail_with_limit)
{
    /* The memory of ASan counts too, and the engine crashes when an allocation fails elsewhere. */
    if (TAP_IS_SANITIZED)
        tap_skip("needs a build without ASan: it limits the memory of the process");
    struct gsp_store *store = open_store(&(struct gsp_store_options){
        .memory_bytes = 100U << 20, .timeout_ns = 10 * GSP_NS_PER_S, .limit_process = true});
    lock_store(store);
    static const char *const GREEDY[] = {
        "SELECT length(repeat('x', 2000000000))",
        "SELECT max(length(repeat('abc', 100000000 + range::INT))) FROM range(100)",
        "SELECT list(range) FROM range(1000000000)",
        "SELECT string_agg(repeat('x', 1000), ',') FROM range(10000000)",
        "SELECT count(DISTINCT hash(a.range, b.range)) FROM range(10000) a, range(10000) b",
    };
    gsp_auto_buf out = {0};
    for (size_t i = 0; i < GSP_COUNT(GREEDY); i++) {
        const char *answer = query(store, GREEDY[i], &out);
        if (!tap_check(strncmp(answer, "! LIMIT ", 8) == 0))
            printf("# %s\n#   %.200s\n", GREEDY[i], answer);
        tap_eq_str(query(store, "SELECT 1", &out), "1");
    }
    gsp_store_close(store);
}

static struct gsp_store *interrupted;

/* gsp_store_interrupt() is signal-safe: it sets a flag and posts a semaphore. */
static void on_alarm(int sig)
{
    (void)sig;
    gsp_store_interrupt(interrupted); /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
}

static const char ENDLESS[] =
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT max(x) FROM r";

TAP_TEST(a_signal_interrupts_a_query)
{
    interrupted = open_store(NULL);
    lock_store(interrupted);
    tap_require(signal(SIGALRM, on_alarm) != SIG_ERR);
    gsp_auto_buf out = {0};
    for (int i = 0; i < 3; i++) {
        alarm(1);
        tap_eq_str(query(interrupted, ENDLESS, &out), "! INTR the query was interrupted");
        tap_eq_str(query(interrupted, "SELECT 1", &out), "1");
    }
    gsp_store_interrupt(interrupted);
    tap_eq_str(query(interrupted, "SELECT 2", &out), "2");
    gsp_store_close(interrupted);
}

TAP_TEST(unfreed_rows_are_an_error)
{
    struct gsp_store *store = open_store(NULL);
    struct gsp_rows *rows = NULL;
    struct gsp_rows *more = NULL;
    tap_eq_int(gsp_store_query(store, gsp_sv_of("SELECT 1"), &rows, NULL, NULL), GSP_E_USAGE);
    lock_store(store);
    tap_eq_int(gsp_store_query(store, gsp_sv_of("SELECT 1"), &rows, NULL, NULL), GSP_OK);
    tap_eq_int(gsp_store_query(store, gsp_sv_of("SELECT 1"), &more, NULL, NULL), GSP_E_USAGE);
    tap_eq_int(gsp_store_lock(store, NULL), GSP_E_USAGE);
    tap_eq_int(gsp_store_query(store, (struct gsp_sv){"SELECT 1\0x", 10}, &more, NULL, NULL),
               GSP_E_USAGE);
    gsp_store_close(store); /* frees rows */
}

TAP_MAIN()
