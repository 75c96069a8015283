/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/buf.h"
#include "base/file.h"
#include "profile_fixture.h"
#include "store/macros.h"
#include "store/profile_tables.h"
#include "store/store.h"

#define DOC   GSP_TEST_DATA "/../../../docs/sql.md"
#define START INT64_C(1700000000000000000)
#define MS    INT64_C(1000000)
#define STEPS INT64_C(20)

static void add_batch(struct gsp_store *store, enum gsp_table_id id, int64_t pid, int64_t rank,
                      void (*fill)(struct gsp_batch *, int64_t))
{
    struct gsp_batch *batch = NULL;
    struct gsp_err err = {0};
    tap_require(gsp_store_batch_new(gsp_wire_table_at(id), "box", pid, rank, &batch, NULL) ==
                GSP_OK);
    fill(batch, rank);
    const int rc = gsp_store_add_batch(store, batch, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
}

/* Steps take 100 ms; 110 ms in rank 1; step 7 of rank 0 takes 150 ms. */
static void fill_steps(struct gsp_batch *batch, int64_t rank)
{
    for (int64_t i = 0; i < STEPS; i++) {
        const double duration = rank == 1 ? 0.11 : i == 7 ? 0.15 : 0.1;
        const struct gsp_row_python_torch_step row = {.ts_ns = START + (i + 1) * 100 * MS,
                                                      .step = i,
                                                      .duration = duration,
                                                      .samples_per_sec = gsp_null_f64()};
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
}

/* Memory grows by 1 MB in each step. */
static void fill_trace(struct gsp_batch *batch, int64_t rank)
{
    static const char *const MODULES[] = {"embed", "block.0", "block.1", "head"};
    (void)rank;
    for (int64_t i = 0; i < STEPS * 4; i++) {
        const int64_t step = i / 4;
        const struct gsp_row_python_torch_trace row = {
            .ts_ns = START + i * 25 * MS,
            .step = step,
            .seq = i % 4,
            .module = gsp_store_batch_intern(batch, gsp_sv_of(MODULES[i % 4])),
            .stage = gsp_store_batch_intern(batch, gsp_sv_of("forward")),
            .allocated = 100 + (double)step,
            .max_allocated = 200,
            .cached = 300,
            .duration = 0.001 * (double)(1 + i % 4)};
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
}

static void fill_gpu(struct gsp_batch *batch, int64_t rank)
{
    (void)rank;
    for (int64_t i = 0; i < 40; i++) {
        const struct gsp_row_gpu_metrics row = {
            .ts_ns = START + i * 50 * MS, .util_percent = (double)i, .memory_used_bytes = 1000};
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
}

static void fill_runs(struct gsp_batch *batch, int64_t rank)
{
    (void)rank;
    struct gsp_row_gsprof_run row = {.name = gsp_store_batch_intern(batch, gsp_sv_of("before")),
                                     .ts_from = START,
                                     .ts_to = START + 999 * MS};
    tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    row = (struct gsp_row_gsprof_run){.name = gsp_store_batch_intern(batch, gsp_sv_of("after")),
                                      .ts_from = START + 1000 * MS,
                                      .ts_to = START + 3000 * MS};
    tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
}

static void fill_sessions(struct gsp_batch *batch, int64_t rank)
{
    (void)rank;
    for (int64_t i = 0; i < 3; i++) {
        const bool is_second = i == 1;
        const struct gsp_row_session_list row = {
            .ts_ns = START + i * 100 * MS,
            .name = gsp_store_batch_intern(batch, gsp_sv_of(i < 2 ? "epoch_5" : "all")),
            .status = gsp_store_batch_intern(batch, gsp_sv_of(i < 2 ? "done" : "active")),
            .first_frame = 2 * i + 1,
            .last_frame = i == 2 ? GSP_NULL_I64 : 2 * i + (is_second ? 3 : 2),
            .end_ns = i == 2 ? GSP_NULL_I64 : START + 900 * MS,
            .freq_ms = 200};
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
}

static void fill_frames(struct gsp_batch *batch, int64_t rank)
{
    (void)rank;
    for (int64_t i = 1; i <= 8; i++) {
        const struct gsp_row_session_frame row = {
            .ts_ns = START + i * 200 * MS,
            .frame_id = i,
            .metric = gsp_store_batch_intern(batch, gsp_sv_of("system.cpu.util_percent")),
            .value = (double)i};
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
}

/* A sample every 10 ms for 2 s: two of three in load(), called by main(), the others in main().
 * In the second half all are in load(). The monitor thread always waits. */
static struct gsp_profile *profile(void)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    gsp_model_profile_meta(p)->start_ns = START;
    gsp_model_profile_meta(p)->duration_ns = 2000 * MS;
    gsp_model_profile_meta(p)->losses.late = 3;
    const uint32_t thread = fix_thread(p, fix_process(p, 7, "rank 0: x"), 7, "MainThread");
    const uint32_t run = fix_stack(p, GSP_NONE, fix_frame(p, "main", "a.py", 9));
    const uint32_t load = fix_stack(p, run, fix_frame(p, "load", "a.py", 3));
    const uint32_t monitor = fix_thread(p, fix_process(p, 7, "rank 0: x"), 8, "monitor");
    const uint32_t wait = fix_stack(p, GSP_NONE, fix_frame(p, "wait", "b.py", 5));
    for (int64_t i = 0; i < 200; i++) {
        fix_add(p, thread, i >= 100 || i % 3 ? load : run, i * 10000, GSP_SAMPLE_HAS_GIL);
        fix_add(p, monitor, wait, i * 10000, 0);
    }
    return p;
}

static struct gsp_store *open_store(void)
{
    struct gsp_store *store = NULL;
    struct gsp_err err = {0};
    int rc = gsp_store_open(NULL, &store, &err);
    if (rc == GSP_E_NOTSUP)
        tap_skip(err.msg);
    tap_require(rc == GSP_OK);
    add_batch(store, GSP_TABLE_python_torch_step, 7, 0, fill_steps);
    add_batch(store, GSP_TABLE_python_torch_step, 8, 1, fill_steps);
    add_batch(store, GSP_TABLE_python_torch_trace, 7, 0, fill_trace);
    add_batch(store, GSP_TABLE_gpu_metrics, GSP_NULL_I64, GSP_NULL_I64, fill_gpu);
    add_batch(store, GSP_TABLE_gsprof_run, GSP_NULL_I64, GSP_NULL_I64, fill_runs);
    add_batch(store, GSP_TABLE_session_list, GSP_NULL_I64, GSP_NULL_I64, fill_sessions);
    add_batch(store, GSP_TABLE_session_frame, GSP_NULL_I64, GSP_NULL_I64, fill_frames);
    struct gsp_profile *p = profile();
    tap_require(gsp_store_add_profile(store, p, &err) == GSP_OK);
    gsp_model_profile_free(p);
    rc = gsp_store_lock(store, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    return store;
}

static void put_cell(struct gsp_buf *out, const struct gsp_rows_column *column,
                     const struct gsp_values *values, size_t row)
{
    const int64_t *i64 = values->data;
    const double *f64 = values->data;
    const struct gsp_sv *text = values->data;
    const uint32_t *ids = values->data;
    if (gsp_model_values_is_null(values, row)) {
        gsp_buf_puts(out, "NULL");
        return;
    }
    switch (column->kind) {
    case GSP_CELL_I64:
        gsp_buf_printf(out, "%" PRId64, i64[row]);
        break;
    case GSP_CELL_F64:
        gsp_buf_printf(out, "%.4g", f64[row]);
        break;
    case GSP_CELL_TEXT:
        gsp_buf_putsv(out, text[row]);
        break;
    case GSP_CELL_DICT:
        gsp_buf_putsv(out, column->dict[ids[row]]);
        break;
    case GSP_CELL_I128:
    case GSP_CELL_BOOL:
    case GSP_CELL_JSON:
        gsp_buf_putc(out, '?');
        break;
    }
}

/* Appends all rows: cells separated by spaces, rows by newlines. Returns the number of rows. */
static size_t query(struct gsp_store *store, struct gsp_sv sql, struct gsp_buf *out)
{
    struct gsp_err err = {0};
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view view;
    size_t count = 0;
    int rc = gsp_store_query(store, sql, &rows, NULL, &err);
    if (rc != GSP_OK)
        printf("# %.*s\n# %s\n", (int)sql.len, sql.p, err.msg);
    tap_require(rc == GSP_OK);
    while ((rc = gsp_rows_next(rows, &view, &err)) == 1) {
        for (size_t i = 0; i < view.row_count; i++, count++) {
            for (size_t c = 0; c < rows->column_count; c++) {
                gsp_buf_puts(out, c ? " " : "");
                put_cell(out, &rows->columns[c], &view.values[c], i);
            }
            gsp_buf_putc(out, '\n');
        }
    }
    tap_eq_int(rc, 0);
    gsp_rows_free(rows);
    return count;
}

static void check(struct gsp_store *store, const char *sql, const char *expected)
{
    gsp_auto_buf text = {0};
    query(store, gsp_sv_of(sql), &text);
    if (!tap_eq_str(gsp_buf_cstr(&text), expected))
        printf("# %s\n", sql);
}

TAP_TEST(macros_return_correct_rows)
{
    struct gsp_store *store = open_store();
    check(store, "SELECT func, self_s, total_s, samples FROM gsprof.hot_functions()",
          "load 1.66 1.66 166\nmain 0.34 2 200\n");
    check(store, "SELECT func, self_s FROM gsprof.hot_functions(ts_from := 1700000001000000000)",
          "load 1\nmain 0\n");
    check(store, "SELECT lineno, samples FROM gsprof.hot_lines()", "3 166\n9 34\n");
    check(store, "SELECT func, self_s FROM gsprof.hot_functions(idle := true)",
          "wait 2\nload 1.66\nmain 0.34\n");
    check(store, "SELECT lineno FROM gsprof.hot_lines(idle := true) LIMIT 1", "5\n");
    check(store, "SELECT module, calls, p50_ms FROM gsprof.module_percentiles()",
          "head 20 4\nblock.1 20 3\nblock.0 20 2\nembed 20 1\n");
    check(store,
          "SELECT step, rank, duration, hot_func, (hot_pct > 60)::VARCHAR, gpu_util_percent "
          "FROM gsprof.slow_steps(n := 2)",
          "7 0 0.15 load true 16\n0 1 0.11 NULL NULL 2\n");
    check(store, "SELECT func, self_s FROM gsprof.step_functions(15, the_rank := 0)",
          "load 0.11\nmain 0\n");
    check(store, "SELECT mb_per_step, highest_mb FROM gsprof.memory_trend()", "1 119\n");
    check(store,
          "SELECT growth_mb, since_first_mb FROM gsprof.memory_growth() ORDER BY step LIMIT 2",
          "NULL 0\n1 1\n");
    check(store, "SELECT rank, steps, slowest FROM gsprof.stragglers()", "1 20 19\n0 20 1\n");
    check(store, "SELECT func, a_self_pct, b_self_pct FROM gsprof.compare_runs('before', 'after')",
          "load 66 100\nmain 34 0\n");
    check(store, "SELECT frame_id FROM gsprof.session_frames('epoch_5') ORDER BY 1", "3\n4\n5\n");
    check(store, "SELECT max(frame_id) FROM gsprof.session_frames('all')", "8\n");
    check(store, "SELECT max(frame_id) FROM gsprof.session_frames('none')", "NULL\n");
    gsp_store_close(store);
}

TAP_TEST(examples_in_the_docs_run)
{
    gsp_auto_buf page = {0};
    struct gsp_store *store = open_store();
    tap_require(gsp_file_read(DOC, 1U << 20, &page, NULL) == GSP_OK);
    const char *at = gsp_buf_cstr(&page);
    unsigned examples = 0;
    while ((at = strstr(at, "```sql\n"))) {
        at += strlen("```sql\n");
        const char *end = strstr(at, "```");
        tap_require(end != NULL);
        gsp_auto_buf text = {0};
        const struct gsp_sv sql = {at, (size_t)(end - at)};
        if (!tap_check(query(store, sql, &text) > 0))
            printf("# no rows: %.*s\n", (int)sql.len, sql.p);
        at = end + 3;
        examples++;
    }
    tap_check(examples > 15);
    gsp_store_close(store);
}

TAP_TEST(the_docs_list_all_macros)
{
    gsp_auto_buf page = {0};
    struct gsp_macro macro;
    size_t count = 0;
    tap_require(gsp_file_read(DOC, 1U << 20, &page, NULL) == GSP_OK);
    for (; gsp_store__macro_at(count, &macro); count++)
        if (!tap_check(gsp_store__macro_is_used(gsp_buf_sv(&page), macro.name)))
            printf("# %.*s\n", (int)macro.name.len, macro.name.p);
    tap_check(count >= 11 && count < GSP_MACROS_MAX);
}

TAP_TEST(macro_names_match_whole_words)
{
    tap_check(gsp_store__macro_is_used(gsp_sv_of("FROM gsprof.STEPS()"), gsp_sv_of("steps")));
    tap_check(!gsp_store__macro_is_used(gsp_sv_of("FROM slow_steps()"), gsp_sv_of("steps")));
    tap_check(!gsp_store__macro_is_used(gsp_sv_of("steps2"), gsp_sv_of("steps")));
    tap_check(gsp_store__macro_is_used(gsp_sv_of("steps"), gsp_sv_of("steps")));
    tap_check(!gsp_store__macro_is_used(gsp_sv_of(""), gsp_sv_of("steps")));
}

TAP_MAIN()
