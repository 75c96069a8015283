/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "profile_fixture.h"
#include "report/document.h"
#include "report/document_write.h"
#include "store/profile_tables.h"
#include "store_query.h"
#include "wire/table.h"

#define START_NS 1700000000000000000LL
#define STEPS    40

static struct gsp_batch *new_batch(enum gsp_table_id table, int64_t pid, int64_t rank)
{
    struct gsp_batch *batch = NULL;
    tap_require(gsp_store_batch_new(gsp_wire_table_at(table), "box", pid, rank, &batch, NULL) ==
                GSP_OK);
    return batch;
}

static void add_steps(struct gsp_store *store, int64_t rank)
{
    struct gsp_batch *batch = new_batch(GSP_TABLE_python_torch_step, 100 + rank, rank);
    for (int64_t i = 0; i < STEPS; i++) {
        const struct gsp_row_python_torch_step row = {.ts_ns = START_NS + (i + 1) * 100000000,
                                                      .mono_ns = i,
                                                      .step = i,
                                                      /* Durations that are not finite. */
                                                      .duration = i == 3   ? (double)INFINITY
                                                                  : i == 4 ? (double)NAN
                                                                           : 0.1,
                                                      .sampled = i % 2 == 0,
                                                      .samples_per_sec = gsp_null_f64(),
                                                      .overhead_ns = GSP_NULL_I64};
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
}

static void add_trace(struct gsp_store *store)
{
    struct gsp_batch *batch = new_batch(GSP_TABLE_python_torch_trace, 100, 0);
    for (int64_t i = 0; i < 3 * (int64_t)GSP_REPORT_VALUES_MAX; i++) {
        const struct gsp_row_python_torch_trace row = {
            .ts_ns = START_NS + i * 100000,
            .mono_ns = i,
            .step = i / 100,
            .seq = i,
            .module = gsp_store_batch_intern(batch, gsp_sv_of(i % 3 ? "layers.0" : "layers")),
            .stage = gsp_store_batch_intern(batch, gsp_sv_of("forward")),
            .class = gsp_store_batch_intern(batch, gsp_sv_of(i % 3 ? "Linear" : "Sequential")),
            .device = GSP_NULL_STR,
            .allocated = gsp_null_f64(),
            .max_allocated = gsp_null_f64(),
            .cached = gsp_null_f64(),
            .duration = i == 5 ? (double)NAN : 0.001,
            .thread_id = 100,
            .flops = gsp_null_f64()};
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
}

static void add_spans(struct gsp_store *store)
{
    static const struct {
        const char *name;
        int64_t from_ms, ms;
        uint32_t depth;
    } spans[] = {{"epoch", 0, 1000, 0}, {"load", 0, 100, 1},   {"read", 50, 20, 2},
                 {"event", 60, 0, 3},   {"load", 200, 100, 1}, {"epoch", 1000, 500, 0}};
    struct gsp_batch *batch = new_batch(GSP_TABLE_python_span, 100, 0);
    for (size_t i = 0; i < GSP_COUNT(spans); i++) {
        const struct gsp_row_python_span row = {
            .ts_ns = START_NS + (spans[i].from_ms + spans[i].ms) * 1000000,
            .mono_ns = (int64_t)i,
            .span_id = (int64_t)i,
            .name = gsp_store_batch_intern(batch, gsp_sv_of(spans[i].name)),
            .phase = strcmp(spans[i].name, "epoch") == 0
                         ? GSP_NULL_STR
                         : gsp_store_batch_intern(batch, gsp_sv_of("data")),
            .start_ns = START_NS + spans[i].from_ms * 1000000,
            .duration_ns = spans[i].ms * 1000000,
            .parent = GSP_NULL_I64,
            .thread_id = 100};
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
}

/* Two processes: one grows by 10 MB per second, the other has 50 MB for ten seconds. */
static void add_memory(struct gsp_store *store, int64_t pid, int64_t looks, bool grows)
{
    struct gsp_batch *batch = new_batch(GSP_TABLE_process_metrics, pid, GSP_NULL_I64);
    for (int64_t i = 0; i < looks; i++) {
        struct gsp_row_process_metrics row;
        memset(&row, 0, sizeof(row));
        row.ts_ns = START_NS + i * 200000000;
        row.pid = pid;
        row.rank = GSP_NULL_I64;
        row.name = gsp_store_batch_intern(batch, gsp_sv_of("python3"));
        row.state = gsp_store_batch_intern(batch, gsp_sv_of("R"));
        row.cpu_percent = i == 0 ? (double)NAN : 50;
        row.rss_bytes = grows ? 100000000 + i * 2000000 : 50000000;
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
}

static struct gsp_report *open_digest(struct gsp_store *store,
                                      const struct gsp_report_open_opts *opts)
{
    struct gsp_report *report = NULL;
    struct gsp_err err = {0};
    const int rc = gsp_report_open_store(store, NULL, "some/run/", opts, &report, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK && report);
    return report;
}

static void add_collectives(struct gsp_store *store, int64_t rank)
{
    struct gsp_batch *batch = new_batch(GSP_TABLE_python_collective, 100 + rank, rank);
    for (int64_t i = 0; i < 10; i++) {
        struct gsp_row_python_collective row;
        memset(&row, 0, sizeof(row));
        row.ts_ns = START_NS + i;
        row.op = gsp_store_batch_intern(batch, gsp_sv_of("all_reduce"));
        row.duration = 0.1;
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
}

TAP_TEST(document_of_tables)
{
    struct gsp_store *store = open_store(&(struct gsp_store_options){0});
    add_steps(store, 0);
    add_steps(store, 1);
    add_trace(store);
    add_spans(store);
    add_collectives(store, 0);
    add_collectives(store, 1);
    add_memory(store, 100, 200, true);
    add_memory(store, 101, 50, false);
    lock_store(store);
    struct gsp_report *report = open_digest(store, &(struct gsp_report_open_opts){.values = true});
    tap_check(gsp_sv_eq(report->name, gsp_sv_of("run")));
    tap_eq_int(report->start_ns, START_NS);
    tap_check(fabs(report->duration_s - 39.8) < 1e-6);

    tap_eq_int(report->step_count, 2 * (STEPS - 2));
    tap_check(fabs(report->steps[2].t - 0.1) < 1e-6);
    tap_eq_int(report->steps[3].rank, 1);

    tap_eq_int(report->module_count, 2);
    tap_check(gsp_sv_eq(report->modules[0].module, gsp_sv_of("layers.0")));
    tap_check(gsp_sv_eq(report->modules[0].class_name, gsp_sv_of("Linear")));
    tap_eq_int(report->modules[0].calls, 2 * GSP_REPORT_VALUES_MAX - 1);
    tap_check(report->modules[0].value_count <= GSP_REPORT_VALUES_MAX);
    tap_check(report->modules[0].value_count >= GSP_REPORT_VALUES_MAX / 2);
    /* Twenty of forty steps of each rank were traced, one of them without a duration. */
    tap_check(fabs(report->modules[1].share - 2.0 / (2 * 19 * 0.1)) < 1e-9);

    const uint32_t depths[] = {0, 1, 2, 3, 1, 0};
    tap_require(report->span_count == GSP_COUNT(depths));
    for (size_t i = 0; i < GSP_COUNT(depths); i++) {
        tap_eq_int(report->spans[i].depth, depths[i]);
        tap_eq_int(report->spans[i].is_data, i == 1 || i == 4);
    }
    tap_eq_int(report->rank_count, 2);
    tap_check(fabs(report->ranks[1].collective_s - 1.0) < 1e-9);
    tap_eq_int(report->span_name_count, 4);

    const struct gsp_report_chart *cpu = gsp_report_chart_find(report, "cpu");
    tap_require(cpu != NULL && cpu->series_count == 2);
    tap_check(isnan(cpu->series[0].v[0]) && cpu->series[0].stats.count == 199);
    tap_check(!gsp_report_chart_find(report, "gpu_util"));
    const struct gsp_report_chart *steps = gsp_report_chart_find(report, "steps");
    tap_require(steps != NULL && steps->series_count == 2);

    tap_check(fabs(report->memory.peak_rss_bytes - 498000000) < 1);
    tap_check(fabs(report->memory.growth_bytes_per_s / 1e7 - 1) < 0.1);
    gsp_report_free(report);
    gsp_store_close(store);
}

static void add_pressure(struct gsp_store *store)
{
    static const char *const RESOURCES[] = {"cpu", "memory"};
    struct gsp_batch *batch = new_batch(GSP_TABLE_system_pressure, GSP_NULL_I64, GSP_NULL_I64);
    for (int64_t i = 0; i < 10; i++) {
        const struct gsp_row_system_pressure row = {
            .ts_ns = START_NS + i / 2 * 1000000000,
            .resource = gsp_store_batch_intern(batch, gsp_sv_of(RESOURCES[i % 2])),
            /* No value before the first second; no program waits for memory. */
            .some_percent = i < 2   ? (double)NAN
                            : i % 2 ? 0
                                    : 40 + (double)i,
            .full_percent = gsp_null_f64(),
            .some_avg10_percent = gsp_null_f64(),
            .full_avg10_percent = gsp_null_f64()};
        tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    }
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
}

TAP_TEST(pressure_has_a_chart)
{
    struct gsp_store *store = open_store(&(struct gsp_store_options){0});
    add_pressure(store);
    lock_store(store);
    struct gsp_report *report = open_digest(store, NULL);
    const struct gsp_report_chart *chart = gsp_report_chart_find(report, "pressure");
    tap_require(chart != NULL && chart->series_count == 1);
    tap_check(gsp_sv_eq(chart->series[0].name, gsp_sv_of("cpu")));
    tap_check(fabs(chart->series[0].stats.max - 48) < 1e-9);
    gsp_report_free(report);
    gsp_store_close(store);
}

/* An allocation in an import: module, three frames of the import system, one of gsprof, module. */
static void add_allocation(struct gsp_store *store)
{
    static const char *const FILES[] = {"b.py",
                                        "<frozen importlib._bootstrap_external>",
                                        "/opt/lib/gsprof/_imports.py",
                                        "<frozen importlib._bootstrap>",
                                        "<frozen importlib._bootstrap>",
                                        "a.py"};
    struct gsp_batch *stacks = new_batch(GSP_TABLE_python_stack, 100, GSP_NULL_I64);
    struct gsp_batch *sites = new_batch(GSP_TABLE_python_allocation, 100, GSP_NULL_I64);
    for (size_t i = 0; i < GSP_COUNT(FILES); i++) {
        struct gsp_row_python_stack row;
        memset(&row, 0, sizeof(row));
        row.stack_id = 7;
        row.depth = (int64_t)i;
        row.func = gsp_store_batch_intern(stacks, gsp_sv_of(i % 5 ? "load" : "<module>"));
        row.file = gsp_store_batch_intern(stacks, gsp_sv_of(FILES[i]));
        row.lineno = (int64_t)i + 1;
        row.frame_type = gsp_store_batch_intern(stacks, gsp_sv_of("Python"));
        tap_require(gsp_store_batch_append(stacks, &row, NULL) == GSP_OK);
    }
    struct gsp_row_python_allocation row;
    memset(&row, 0, sizeof(row));
    row.ts_ns = START_NS;
    row.stack_id = 7;
    row.bytes = 1000;
    row.count = 2;
    row.kind = gsp_store_batch_intern(sites, gsp_sv_of("peak"));
    row.allocator = gsp_store_batch_intern(sites, gsp_sv_of("malloc"));
    tap_require(gsp_store_batch_append(sites, &row, NULL) == GSP_OK);
    tap_require(gsp_store_add_batch(store, stacks, NULL) == GSP_OK);
    tap_require(gsp_store_add_batch(store, sites, NULL) == GSP_OK);
}

TAP_TEST(an_import_is_one_mark_in_the_stack_of_a_site)
{
    static const char *const NAMES[] = {"<module>", "(import)", "<module>"};
    struct gsp_store *store = open_store(&(struct gsp_store_options){0});
    add_allocation(store);
    lock_store(store);
    struct gsp_report *report = open_digest(store, NULL);
    tap_require(report->memory.site_count == 1);
    const struct gsp_report_site *site = &report->memory.sites[0];
    tap_require(site->frame_count == GSP_COUNT(NAMES));
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        tap_check(gsp_sv_eq(report->site_frames[site->frames[i]].func, gsp_sv_of(NAMES[i])));
    gsp_report_free(report);
    gsp_store_close(store);
}

TAP_TEST(every_table_is_csv)
{
    static const struct {
        enum gsp_report_csv_table table;
        const char *head;
        size_t lines;
    } tables[] = {
        {GSP_REPORT_CSV_MODULES, "module,class,stage,calls,", 3},
        {GSP_REPORT_CSV_STEPS, "t_s,step,rank,pid,duration_s\n0,0,0,100,0.1\n", STEPS - 1},
        {GSP_REPORT_CSV_SPANS, "t_s,name,pid,thread_id,depth,duration_s\n0,\"epoch\",", 7},
        {GSP_REPORT_CSV_METRICS, "metric,unit,series,t_s,value\n\"steps\",\"s\",\"rank 0\",",
         STEPS - 1}};
    struct gsp_store *store = open_store(&(struct gsp_store_options){0});
    add_steps(store, 0);
    add_trace(store);
    add_spans(store);
    lock_store(store);
    struct gsp_report *report = open_digest(store, NULL);
    for (size_t i = 0; i < GSP_COUNT(tables); i++) {
        gsp_auto_buf text = {0};
        size_t lines = 0;
        const struct gsp_report_write_opts how = {.table = tables[i].table};
        tap_require(gsp_report_write(report, GSP_REPORT_CSV, &how, &text, NULL) == GSP_OK);
        const char *csv = gsp_buf_cstr(&text);
        tap_require(csv != NULL);
        if (!tap_check(strncmp(csv, tables[i].head, strlen(tables[i].head)) == 0))
            printf("# %.100s\n", csv);
        for (const char *at = csv; *at; at++)
            lines += *at == '\n';
        tap_eq_int(lines, tables[i].lines);
    }
    gsp_report_free(report);
    gsp_store_close(store);
}

TAP_TEST(stacks_of_tables_are_those_of_their_profile)
{
    struct gsp_profile *profile = fix_small();
    struct gsp_store *store = open_store(&(struct gsp_store_options){0});
    tap_require(gsp_store_add_profile(store, profile, NULL) == GSP_OK);
    lock_store(store);
    struct gsp_report *a = open_digest(store, NULL);
    struct gsp_report *b = NULL;
    tap_require(gsp_report__open_profile(profile, "p", NULL, &b, NULL) == GSP_OK);
    tap_eq_int(a->stacks.seen, b->stacks.seen);
    tap_check(fabs(a->stacks.total - b->stacks.total) < 1e-9);
    tap_eq_int(a->stacks.function_count, b->stacks.function_count);
    tap_check(fabs(a->stacks.functions[0].own - b->stacks.functions[0].own) < 1e-9);
    gsp_report_free(a);
    gsp_report_free(b);
    gsp_store_close(store);
}

TAP_MAIN()
