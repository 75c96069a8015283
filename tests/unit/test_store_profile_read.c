/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_fixture.h"
#include "store/profile_read.h"
#include "store/profile_tables.h"
#include "store_query.h"

static struct gsp_store *store_of(const struct gsp_profile *first, const struct gsp_profile *second)
{
    struct gsp_store *store = open_store(&(struct gsp_store_options){0});
    tap_require(gsp_store_add_profile(store, first, NULL) == GSP_OK);
    if (second)
        tap_require(gsp_store_add_profile(store, second, NULL) == GSP_OK);
    lock_store(store);
    return store;
}

static struct gsp_profile *read_back(struct gsp_store *store, const struct gsp_profile_source *from)
{
    struct gsp_profile *out = NULL;
    struct gsp_err err = {0};
    tap_require(gsp_model_profile_new(true, &out, NULL) == GSP_OK);
    const int rc = gsp_store__profile_read(store, from, out, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    return out;
}

/* Ignores the first line of functions, which rows do not have. */
static bool is_same(const struct gsp_profile *a, uint32_t x, const struct gsp_profile *b,
                    uint32_t y)
{
    for (; x != GSP_NONE && y != GSP_NONE;
         x = gsp_model_profile_stack_caller(a, x), y = gsp_model_profile_stack_caller(b, y)) {
        const struct gsp_frame *f =
            gsp_model_profile_frame_at(a, gsp_model_profile_stack_frame(a, x));
        const struct gsp_frame *g =
            gsp_model_profile_frame_at(b, gsp_model_profile_stack_frame(b, y));
        if (!fix_same_string(a, f->name, b, g->name) || !fix_same_string(a, f->file, b, g->file) ||
            f->line != g->line || f->kind != g->kind)
            return false;
    }
    return x == y;
}

TAP_TEST(a_profile_is_read_back_from_its_rows)
{
    struct gsp_profile *a = fix_small();
    struct gsp_store *store = store_of(a, NULL);
    const int64_t start_ns = gsp_model_profile_meta_get(a)->start_ns;
    static const struct gsp_run_process known[] = {
        {.pid = 101, .rank = GSP_NULL_I64, .cmdline = "python3 w.py", .python = "3.11.2"}};
    struct gsp_profile *b = read_back(
        store,
        &(struct gsp_profile_source){.start_ns = start_ns, .processes = known, .process_count = 1});
    struct gsp_sample_iter x;
    struct gsp_sample_iter y;
    struct gsp_sample s;
    struct gsp_sample t;
    gsp_model_sample_iter_init(&x, a);
    gsp_model_sample_iter_init(&y, b);
    while (gsp_model_sample_iter_next(&x, &s)) {
        tap_require(gsp_model_sample_iter_next(&y, &t));
        tap_require(s.time_ns == t.time_ns && s.weight == t.weight && s.flags == t.flags);
        const struct gsp_thread *theirs = gsp_model_profile_thread_at(a, s.thread);
        const struct gsp_thread *ours = gsp_model_profile_thread_at(b, t.thread);
        tap_check(theirs->os_id == ours->os_id && fix_same_string(a, theirs->name, b, ours->name));
        tap_eq_int(ours->is_main, ours->os_id != 105);
        tap_require(is_same(a, s.stack, b, t.stack));
    }
    tap_check(!gsp_model_sample_iter_next(&y, &t));
    const struct gsp_losses *losses = &gsp_model_profile_meta_get(b)->losses;
    tap_check(losses->torn == 1 && losses->late == 2 && losses->failed == 3);
    const struct gsp_process *worker = gsp_model_profile_process_at(b, 1);
    tap_eq_int(worker->pid, 101);
    tap_check(gsp_sv_eq(gsp_model_profile_string_at(b, worker->name), gsp_sv_of("python3 w.py")));
    tap_check(gsp_sv_eq(gsp_model_profile_string_at(b, worker->version), gsp_sv_of("3.11.2")));
    gsp_store_close(store);
    gsp_model_profile_free(a);
    gsp_model_profile_free(b);
}

TAP_TEST(equal_stacks_of_two_sources_are_merged)
{
    struct gsp_profile *a = fix_small();
    struct gsp_store *store = store_of(a, a);
    struct gsp_profile *b = read_back(store, &(struct gsp_profile_source){0});
    tap_eq_int(gsp_model_profile_sample_count(b), 2 * gsp_model_profile_sample_count(a));
    tap_eq_int(gsp_model_profile_stack_count(b), gsp_model_profile_stack_count(a));
    tap_eq_int(gsp_model_profile_thread_count(b), gsp_model_profile_thread_count(a));
    gsp_store_close(store);
    gsp_model_profile_free(a);
    gsp_model_profile_free(b);
}

static struct gsp_profile *named(const char *name, int64_t start_ns)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    gsp_model_profile_meta(p)->start_ns = start_ns;
    const uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 105, name);
    fix_add(p, thread, fix_stack(p, GSP_NONE, fix_frame(p, "f", "f.py", 3)), 5, 0);
    return p;
}

TAP_TEST(a_thread_has_its_last_name)
{
    struct gsp_profile *early = named("python3", 1700000000000000000);
    struct gsp_profile *late = named("loader", 1700000001000000000);
    struct gsp_store *store = store_of(late, early);
    struct gsp_profile *b = read_back(store, &(struct gsp_profile_source){0});
    tap_require(gsp_model_profile_thread_count(b) == 1);
    const struct gsp_thread *thread = gsp_model_profile_thread_at(b, 0);
    tap_check(gsp_sv_eq(gsp_model_profile_string_at(b, thread->name), gsp_sv_of("loader")));
    gsp_store_close(store);
    gsp_model_profile_free(early);
    gsp_model_profile_free(late);
    gsp_model_profile_free(b);
}

/* Adds a row of process.metrics with the name of a process. */
static void add_metrics(struct gsp_store *store, int64_t pid, const char *name, int64_t ts_ns)
{
    struct gsp_batch *batch = NULL;
    struct gsp_row_process_metrics row;
    tap_require(gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_process_metrics), "node1", pid,
                                    GSP_NULL_I64, &batch, NULL) == GSP_OK);
    memset(&row, 0, sizeof(row));
    row.ts_ns = ts_ns;
    row.pid = pid;
    row.rank = GSP_NULL_I64;
    row.name = gsp_store_batch_intern(batch, gsp_sv_of(name));
    tap_require(gsp_store_batch_append(batch, &row, NULL) == GSP_OK);
    tap_require(gsp_store_add_batch(store, batch, NULL) == GSP_OK);
}

static void check_name(const struct gsp_profile *profile, uint32_t process, const char *expected)
{
    gsp_auto_buf name = {0};
    const struct gsp_process *at = gsp_model_profile_process_at(profile, process);
    tap_require(at);
    gsp_buf_putsv(&name, gsp_model_profile_string_at(profile, at->name));
    tap_eq_str(gsp_buf_cstr(&name), expected);
}

TAP_TEST(a_worker_has_its_last_name)
{
    struct gsp_profile *a = fix_small();
    struct gsp_store *store = open_store(&(struct gsp_store_options){0});
    static const struct gsp_run_process known[] = {
        {.pid = 100, .rank = GSP_NULL_I64, .cmdline = "venv/bin/python3 w.py"},
        {.pid = 101, .rank = GSP_NULL_I64, .cmdline = "venv/bin/python3 w.py"}};
    tap_require(gsp_store_add_profile(store, a, NULL) == GSP_OK);
    add_metrics(store, 100, "python3", 1700000000000000000);
    add_metrics(store, 101, "python3", 1700000000000000000);
    add_metrics(store, 101, "pt_data_worker", 1700000001000000000);
    lock_store(store);
    struct gsp_profile *b =
        read_back(store, &(struct gsp_profile_source){.processes = known, .process_count = 2});
    check_name(b, 0, "python3 w.py");
    check_name(b, 1, "pt_data_worker: python3 w.py");
    gsp_store_close(store);
    gsp_model_profile_free(a);
    gsp_model_profile_free(b);
}

TAP_TEST(an_empty_store_gives_no_samples)
{
    struct gsp_store *store = open_store(&(struct gsp_store_options){0});
    lock_store(store);
    struct gsp_profile *b =
        read_back(store, &(struct gsp_profile_source){.start_ns = 5, .end_ns = 9});
    tap_eq_int(gsp_model_profile_sample_count(b), 0);
    tap_eq_int(gsp_model_profile_meta_get(b)->duration_ns, 4);
    gsp_store_close(store);
    gsp_model_profile_free(b);
}

static int refuse(void *user, const struct gsp_sample *sample, struct gsp_err *err)
{
    (void)user;
    (void)sample;
    return gsp_err_set(err, GSP_E_NOWRITE, 0, "full");
}

TAP_TEST(a_failing_callback_stops_reading)
{
    struct gsp_profile *a = fix_small();
    struct gsp_profile *b = NULL;
    struct gsp_store *store = store_of(a, NULL);
    tap_require(gsp_model_profile_new(false, &b, NULL) == GSP_OK);
    const struct gsp_profile_source from = {.take = refuse};
    tap_eq_int(gsp_store__profile_read(store, &from, b, NULL), GSP_E_NOWRITE);
    gsp_store_close(store);
    gsp_model_profile_free(a);
    gsp_model_profile_free(b);
}

TAP_MAIN()
