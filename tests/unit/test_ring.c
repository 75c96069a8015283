/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "ring/ring_internal.h"
#include "ring_fixture.h"

#define TRACE (&(struct gsp_ring_spec){.table = gsp_wire_table_at(GSP_TABLE_python_torch_trace)})

static void append(struct gsp_ring *ring, uint64_t writer, uint64_t n)
{
    const struct gsp_row_python_torch_trace row = ring_row(writer, n);
    struct gsp_lane *lane = gsp_ring_lane(ring);
    if (lane)
        gsp_append_python_torch_trace(lane, &row);
}

static int64_t i64_at(const struct gsp_ring_view *view, uint32_t lane, uint32_t column, uint64_t n)
{
    int64_t v = 0;
    gsp_ring_copy(view, lane, column, n, 1, &v);
    return v;
}

TAP_TEST(rows_round_trip)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 100);
    for (uint64_t n = 0; n < 40; n++)
        append(ring, 7, n);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_range spans[4];
    uint64_t overwritten = 99;
    tap_eq_int(gsp_ring_ranges(view, spans, 4, &overwritten), 1);
    tap_eq_int(spans[0].from, 0);
    tap_eq_int(spans[0].to, 40);
    tap_eq_int(overwritten, 0);
    struct ring_seen seen = {0};
    ring_check(view, &seen);
    tap_eq_int(seen.good, 40);
    tap_eq_int(seen.torn, 0);
    const struct gsp_ring_info *info = gsp_ring_info(view);
    tap_eq_str(info->schema, "python");
    tap_eq_str(info->table, "torch_trace");
    tap_eq_str(info->host, "here");
    tap_eq_int(info->rank, 3);
    tap_eq_int(info->pid, getpid());
    tap_check(info->start_time > 0);
    tap_eq_int(info->row_capacity, 100);
    tap_eq_int(info->column_count, 14);
    tap_eq_str(info->columns[4].name, "module");
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    tap_eq_int(state.rows, 40);
    tap_eq_int(state.newest_ns, 39);
    tap_eq_int(state.status, 0);
    tap_check(!state.damaged);
    gsp_ring_close(ring);
    gsp_ring_state(view, &state);
    tap_eq_int(state.status, GSP_RING_CLOSED);
    gsp_ring_view_close(view);
    ring_folder_remove(folder);
}

TAP_TEST(old_rows_are_overwritten_and_counted)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 100);
    for (uint64_t n = 0; n < 1234; n++)
        append(ring, 7, n);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_range span;
    uint64_t overwritten = 0;
    tap_eq_int(gsp_ring_ranges(view, &span, 1, &overwritten), 1);
    tap_eq_int(span.to, 1234);
    tap_eq_int(span.to - span.from, 100);
    tap_eq_int(overwritten, 1134);
    tap_eq_int(i64_at(view, 0, 0, span.from), 1134);
    tap_eq_int(i64_at(view, 0, 0, 1233), 1233);
    struct ring_seen seen = {0};
    ring_check(view, &seen);
    tap_eq_int(seen.good, 100);
    /* After one more row, an earlier copy of the oldest is no longer valid. */
    append(ring, 7, 1234);
    tap_eq_int(gsp_ring_oldest_row(view, 0), 1135);
    tap_check(gsp_ring_oldest_row(view, 1) == UINT64_MAX);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(spans_narrow_by_time)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 1000);
    for (uint64_t n = 0; n < 5000; n++)
        append(ring, 1, n / 2 * 10); /* two rows for each time */
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_range all;
    tap_eq_int(gsp_ring_ranges(view, &all, 1, NULL), 1);
    tap_eq_int(all.from, 4000);
    struct gsp_ring_range span = all;
    gsp_ring_range_narrow(view, &span, 21000, 21005);
    tap_eq_int(span.from, 4200);
    tap_eq_int(span.to, 4202);
    span = all;
    gsp_ring_range_narrow(view, &span, INT64_MIN, INT64_MAX);
    tap_eq_int(span.from, 4000);
    tap_eq_int(span.to, 5000);
    span = all;
    gsp_ring_range_narrow(view, &span, 21001, 21009);
    tap_eq_int(span.to - span.from, 0);
    span = all;
    gsp_ring_range_narrow(view, &span, 99999999, INT64_MAX);
    tap_eq_int(span.to - span.from, 0);
    /* Rows that were overwritten since count as older than all others. */
    for (uint64_t n = 5000; n < 5500; n++)
        append(ring, 1, n / 2 * 10);
    span = all;
    gsp_ring_range_narrow(view, &span, 20000, 24000);
    tap_eq_int(span.to, 4802);
    tap_eq_int(span.from, 4500);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(values_are_borrowed_up_to_the_end_of_the_ring)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 9); /* ten slots */
    for (uint64_t n = 0; n < 14; n++)
        append(ring, 1, n);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_range span;
    tap_require(gsp_ring_ranges(view, &span, 1, NULL) == 1);
    size_t n = span.to - span.from;
    tap_eq_int(n, 9);
    const int64_t *ts = gsp_ring_values(view, 0, 0, span.from, &n);
    tap_eq_int(n, 5);
    tap_eq_int(ts[0], 5);
    n = 4;
    ts = gsp_ring_values(view, 0, 0, 10, &n);
    tap_eq_int(n, 4);
    tap_eq_int(ts[3], 13);
    n = 4;
    tap_check(gsp_ring_values(view, 0, 14, 0, &n) == NULL && n == 0);
    n = 4;
    tap_check(gsp_ring_values(view, 1, 0, 0, &n) == NULL && n == 0);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(strings_get_ids)
{
    int folder = ring_folder();
    struct gsp_ring *ring = NULL;
    struct gsp_ring_spec spec = *TRACE;
    spec.string_max = 4;
    spec.string_bytes = 64;
    tap_require(gsp_ring_create(folder, &spec, &ring, NULL) == 0);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_dict dict;
    tap_require(gsp_ring_dict_read(view, &dict, NULL) == 0);
    tap_eq_int(dict.count, 1);
    gsp_ring_dict_free(&dict);

    uint32_t a = gsp_ring_intern(ring, gsp_sv_of("layer.0"));
    uint32_t b = gsp_ring_intern(ring, gsp_sv_of(""));
    uint32_t c = gsp_ring_intern(ring, (struct gsp_sv){"a\0b", 3});
    tap_check(a != 0 && b != 0 && c != 0 && a != b && b != c && a != c);
    tap_eq_int(gsp_ring_intern(ring, gsp_sv_of("layer.0")), a);
    tap_eq_int(gsp_ring_intern(ring, gsp_sv_of("")), b);
    tap_eq_int(gsp_ring_intern(ring, (struct gsp_sv){NULL, 0}), GSP_NULL_STR);
    tap_require(gsp_ring_dict_read(view, &dict, NULL) == 0);
    tap_eq_int(dict.count, 4);
    tap_check(gsp_sv_eq(dict.strings[a], gsp_sv_of("layer.0")));
    tap_check(dict.strings[b].p != NULL && dict.strings[b].len == 0);
    tap_check(gsp_sv_eq(dict.strings[c], (struct gsp_sv){"a\0b", 3}));
    tap_check(dict.strings[0].p == NULL);
    gsp_ring_dict_free(&dict);

    /* Bytes run out first, then ids. Existing strings stay. */
    char big[65] = {0};
    memset(big, 'x', 64);
    tap_eq_int(gsp_ring_intern(ring, gsp_sv_of(big)), GSP_NULL_STR);
    tap_check(gsp_ring_intern(ring, gsp_sv_of("fourth")) != GSP_NULL_STR);
    tap_eq_int(gsp_ring_intern(ring, gsp_sv_of("fifth")), GSP_NULL_STR);
    tap_eq_int(gsp_ring_intern(ring, gsp_sv_of("layer.0")), a);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    tap_eq_int(state.status, GSP_RING_NO_STRINGS);
    tap_eq_int(state.strings_lost, 2);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(the_newest_texts_are_kept)
{
    int folder = ring_folder();
    struct gsp_ring *ring = NULL;
    struct gsp_ring_spec spec = {.table = gsp_wire_table_at(GSP_TABLE_python_variables),
                                 .row_capacity = 100,
                                 .text_bytes = 4096};
    tap_require(gsp_ring_create(folder, &spec, &ring, NULL) == 0);
    char text[2048];
    for (int i = 0; i < 60; i++) {
        memset(text, 'a' + i % 26, sizeof(text));
        struct gsp_row_python_variables row = {.ts_ns = i, .step = i, .value = {text, 100}};
        tap_check(gsp_ring_append(ring, &row));
    }
    /* Twice the maximum length; the truncation falls inside the character é. */
    memset(text, 'z', sizeof(text));
    text[1023] = (char)0xc3;
    text[1024] = (char)0xa9;
    struct gsp_row_python_variables row = {.ts_ns = 60, .value = {text, sizeof(text)}};
    tap_check(gsp_ring_append(ring, &row));
    row.value = (struct gsp_sv){NULL, 0};
    tap_check(gsp_ring_append(ring, &row));
    row.value = (struct gsp_sv){"", 0};
    tap_check(gsp_ring_append(ring, &row));

    struct gsp_ring_view *view = ring_view(folder, "python.variables.ring");
    const struct gsp_ring_info *info = gsp_ring_info(view);
    uint32_t column = 0;
    while (strcmp(info->columns[column].name, "value") != 0)
        column++;
    int found = 0;
    gsp_auto_buf out = {0};
    bool null = false;
    for (int i = 0; i < 60; i++) {
        gsp_buf_clear(&out);
        if (gsp_ring_text_read(view, 0, (uint64_t)i64_at(view, 0, column, i), &out, &null)) {
            found++;
            tap_eq_int(out.len, 100);
            tap_check(out.p[0] == 'a' + i % 26 && out.p[99] == 'a' + i % 26);
        } else {
            tap_check(!null);
            tap_eq_int(found, 0); /* only the oldest are missing */
        }
    }
    tap_eq_int(found, (4096 - 1023) / 100);
    gsp_buf_clear(&out);
    tap_check(gsp_ring_text_read(view, 0, (uint64_t)i64_at(view, 0, column, 60), &out, &null));
    tap_eq_int(out.len, 1023);
    gsp_buf_clear(&out);
    tap_check(!gsp_ring_text_read(view, 0, (uint64_t)i64_at(view, 0, column, 61), &out, &null));
    tap_check(null);
    tap_check(gsp_ring_text_read(view, 0, (uint64_t)i64_at(view, 0, column, 62), &out, &null));
    tap_eq_int(out.len, 0);
    tap_check(!null);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(a_user_table_with_every_type)
{
    const struct gsp_column_spec columns[] = {{"flag", NULL, NULL, GSP_BOOL},
                                              {"name", NULL, NULL, GSP_STR},
                                              {"note", NULL, NULL, GSP_TEXT},
                                              {"loss", "", "of the batch", GSP_F64},
                                              {"last", NULL, NULL, GSP_BOOL}};
    const struct gsp_table_spec made = {.schema = "user",
                                        .name = "losses",
                                        .columns = columns,
                                        .column_count = 5,
                                        .scope = GSP_SCOPE_TARGET};
    struct {
        int64_t ts_ns;
        int64_t mono_ns;
        uint8_t flag;
        uint32_t name;
        struct gsp_sv note;
        double loss;
        uint8_t last;
    } row = {5, 6, 1, 0, gsp_sv_of("first"), 0.5, GSP_NULL_BOOL};
    struct gsp_table *table = NULL;
    tap_require(gsp_wire_table_new(&made, &table, NULL) == 0);
    tap_eq_int(table->row_bytes, sizeof(row));
    int folder = ring_folder();
    struct gsp_ring *ring = NULL;
    struct gsp_ring_spec spec = {.table = table, .row_capacity = 10};
    tap_require(gsp_ring_create(folder, &spec, &ring, NULL) == 0);
    row.name = gsp_ring_intern(ring, gsp_sv_of("mse"));
    tap_check(gsp_ring_append(ring, &row));
    struct gsp_ring_view *view = ring_view(folder, "user.losses.ring");
    tap_eq_int(i64_at(view, 0, 0, 0), 5);
    tap_eq_int(i64_at(view, 0, 1, 0), 6);
    tap_eq_int(i64_at(view, 0, 2, 0), 1);
    tap_eq_int(i64_at(view, 0, 3, 0), row.name);
    double loss = 0;
    gsp_ring_copy(view, 0, 5, 0, 1, &loss);
    tap_check(loss == 0.5);
    tap_eq_int(i64_at(view, 0, 6, 0), GSP_NULL_BOOL);
    gsp_auto_buf note = {0};
    bool null = true;
    tap_check(gsp_ring_text_read(view, 0, (uint64_t)i64_at(view, 0, 4, 0), &note, &null));
    tap_check(gsp_sv_eq(gsp_buf_sv(&note), gsp_sv_of("first")));
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    gsp_wire_table_free(table);
    ring_folder_remove(folder);
}

TAP_TEST(a_ring_is_created_completely_or_not_at_all)
{
    int folder = ring_folder();
    struct gsp_err err = {0};
    struct gsp_ring *ring = ring_make(folder, 10);
    struct gsp_ring *second = NULL;
    tap_eq_int(gsp_ring_create(folder, TRACE, &second, &err), GSP_E_EXISTS);
    tap_check(second == NULL);
    struct gsp_ring_spec spec = *TRACE;
    spec.row_capacity = UINT32_MAX;
    tap_eq_int(gsp_ring_create(folder, &spec, &second, &err), GSP_E_LIMIT);
    spec.table = NULL;
    tap_eq_int(gsp_ring_create(folder, &spec, &second, &err), GSP_E_USAGE);
    int names = 0;
    DIR *dir = opendir(ring_folder_path);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
        names += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    closedir(dir);
    tap_eq_int(names, 1);
    struct gsp_ring_view *view = NULL;
    tap_eq_int(gsp_ring_open(folder, "python.nothing.ring", &view, &err), GSP_E_NOFILE);
    tap_eq_int(gsp_ring_open(folder, "../x.ring", &view, &err), GSP_E_USAGE);
    tap_require(symlinkat(RING_FILE, folder, "python.link.ring") == 0);
    tap_eq_int(gsp_ring_open(folder, "python.link.ring", &view, &err), GSP_E_PERM);
    tap_require(renameat(folder, RING_FILE, folder, "python.other.ring") == 0);
    tap_eq_int(gsp_ring_open(folder, "python.other.ring", &view, &err), GSP_E_FORMAT);
    gsp_ring_close(ring);
    gsp_ring_close(NULL);
    gsp_ring_abandon(NULL);
    ring_folder_remove(folder);
}

TAP_TEST(a_ring_from_before_exec_is_replaced)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 10);
    append(ring, 1, 5);
    struct gsp_ring_view *old = ring_view(folder, RING_FILE);
    struct gsp_ring *second = NULL;
    /* A reader in this process has mapped the file, so it may still have a writer. */
    tap_eq_int(gsp_ring_create(folder, TRACE, &second, NULL), GSP_E_EXISTS);
    gsp_ring_close(ring);
    gsp_ring_view_close(old);
    tap_require(gsp_ring_create(folder, TRACE, &second, NULL) == 0);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    tap_eq_int(state.rows, 0);
    gsp_ring_view_close(view);
    gsp_ring_close(second);
    /* A ring of another process stays, even if that process has ended. */
    struct gsp_ring_spec spec = *TRACE;
    spec.pid = 1;
    spec.start_time = 2;
    tap_eq_int(gsp_ring_create(folder, &spec, &second, NULL), GSP_E_EXISTS);
    ring_folder_remove(folder);
}

static uint64_t rows_in(int folder, const char *file)
{
    struct gsp_ring_view *view = ring_view(folder, file);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    gsp_ring_view_close(view);
    return state.rows;
}

TAP_TEST(earlier_rings_are_kept)
{
    static const char *const files[] = {RING_FILE, "python.torch_trace.1.ring",
                                        "python.torch_trace.2.ring", "python.torch_trace.3.ring"};
    int folder = ring_folder();
    struct gsp_ring_spec spec = *TRACE;
    struct gsp_ring *ring = NULL;
    struct gsp_ring_view *view = NULL;
    spec.keeps_old = true;
    tap_eq_int(gsp_ring_open_newest(folder, "python", "torch_trace", &view, NULL), GSP_E_NOFILE);
    for (unsigned i = 0; i < GSP_RING_GENERATIONS; i++) {
        tap_require(gsp_ring_create(folder, &spec, &ring, NULL) == 0);
        for (unsigned k = 0; k <= i; k++)
            append(ring, 1, k);
        gsp_ring_close(ring);
        for (unsigned k = 0; k <= i; k++)
            tap_eq_int(rows_in(folder, files[k]), k + 1);
        tap_require(gsp_ring_open_newest(folder, "python", "torch_trace", &view, NULL) == 0);
        tap_eq_int(gsp_ring_info(view)->life, i);
        gsp_ring_view_close(view);
    }
    /* At the limit, the oldest is replaced. */
    tap_require(gsp_ring_create(folder, &spec, &ring, NULL) == 0);
    tap_eq_int(rows_in(folder, files[0]), 0);
    tap_eq_int(rows_in(folder, files[1]), 2);
    tap_require(gsp_ring_open_newest(folder, "python", "torch_trace", &view, NULL) == 0);
    tap_eq_int(gsp_ring_info(view)->life, 0);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

static void *append_some(void *arg)
{
    append(arg, (uint64_t)gettid(), 0);
    append(arg, (uint64_t)gettid(), 1);
    return NULL;
}

TAP_TEST(threads_return_their_lanes_at_their_end)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 1000);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        tap_require(pthread_create(&thread, NULL, append_some, ring) == 0);
        pthread_join(thread, NULL);
    }
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    tap_eq_int(state.lane_count, 1);
    tap_eq_int(state.rows, 400);
    tap_eq_int(state.rows_lost, 0);
    struct ring_seen seen = {0};
    ring_check(view, &seen);
    tap_eq_int(seen.good, 400);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(a_new_ring_does_not_get_the_lanes_of_a_closed_one)
{
    int folder = ring_folder();
    for (int i = 0; i < 300; i++) {
        struct gsp_ring *ring = ring_make(folder, 10);
        append(ring, 1, (uint64_t)i);
        struct gsp_ring_view *view = ring_view(folder, RING_FILE);
        struct gsp_ring_range span;
        tap_eq_int(gsp_ring_ranges(view, &span, 1, NULL), 1);
        tap_eq_int(i64_at(view, 0, 0, 0), i);
        gsp_ring_view_close(view);
        gsp_ring_close(ring);
        unlinkat(folder, RING_FILE, 0);
    }
    ring_folder_remove(folder);
}

TAP_TEST(lanes_run_out_and_the_loss_is_counted)
{
    int folder = ring_folder();
    struct gsp_ring *ring = NULL;
    struct gsp_ring_spec spec = *TRACE;
    spec.lane_max = 1;
    tap_require(gsp_ring_create(folder, &spec, &ring, NULL) == 0);
    append(ring, 1, 0);
    pthread_t thread;
    tap_require(pthread_create(&thread, NULL, append_some, ring) == 0);
    pthread_join(thread, NULL);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    tap_eq_int(state.rows, 1);
    tap_eq_int(state.rows_lost, 2);
    tap_eq_int(state.status, GSP_RING_NO_SPACE);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

/* While limited, no descriptor can be opened. */
static void limit_descriptors(bool limited)
{
    static struct rlimit before;
    if (limited) {
        tap_require(getrlimit(RLIMIT_NOFILE, &before) == 0);
        const struct rlimit none = {0, before.rlim_max};
        tap_require(setrlimit(RLIMIT_NOFILE, &none) == 0);
    } else {
        tap_require(setrlimit(RLIMIT_NOFILE, &before) == 0);
    }
}

static struct gsp_ring_state state_of(int folder)
{
    struct gsp_ring_state state;
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct ring_seen seen = {0};
    gsp_ring_state(view, &state);
    ring_check(view, &seen);
    tap_eq_int(seen.torn, 0);
    tap_check(!state.damaged);
    gsp_ring_view_close(view);
    return state;
}

TAP_TEST(new_threads_get_lanes_without_descriptors)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 1000);
    append(ring, 1, 0);
    limit_descriptors(true);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        tap_require(pthread_create(&thread, NULL, append_some, ring) == 0);
        pthread_join(thread, NULL);
    }
    limit_descriptors(false);
    const struct gsp_ring_state state = state_of(folder);
    tap_eq_int(state.rows, 7);
    tap_eq_int(state.lane_count, 2);
    tap_eq_int(state.rows_lost + state.rows_no_file, 0);
    tap_eq_int(state.status, 0);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

/* Appends in a thread that has changed its root. */
static void *append_elsewhere(void *arg)
{
    if (unshare(CLONE_FS) != 0 || chroot("/proc") != 0)
        return NULL;
    append_some(arg);
    return arg;
}

TAP_TEST(new_threads_get_lanes_in_another_root)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 1000);
    pthread_t thread;
    void *done = NULL;
    tap_require(pthread_create(&thread, NULL, append_elsewhere, ring) == 0);
    pthread_join(thread, &done);
    const struct gsp_ring_state state = state_of(folder);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
    if (!done)
        tap_skip("needs root for chroot");
    tap_eq_int(state.rows, 2);
    tap_eq_int(state.rows_lost + state.rows_no_file, 0);
}

TAP_TEST(a_file_that_cannot_be_opened_is_a_separate_cause_and_retried_soon)
{
    const struct timespec a_while = {0, 30000000};
    int folder = ring_folder();
    /* With this limit, no lanes are mapped in advance. */
    const struct rlimit bounded = {1 << 30, RLIM_INFINITY};
    tap_require(setrlimit(RLIMIT_FSIZE, &bounded) == 0);
    struct gsp_ring *ring = ring_make(folder, 1000);
    limit_descriptors(true);
    for (uint64_t n = 0; n < 5; n++)
        append(ring, 1, n);
    limit_descriptors(false);
    struct gsp_ring_state state = state_of(folder);
    tap_eq_int(state.rows, 0);
    tap_eq_int(state.rows_lost, 0);
    tap_eq_int(state.rows_no_file, 5);
    tap_eq_int(state.status, GSP_RING_NO_FILE);
    nanosleep(&a_while, NULL);
    append(ring, 1, 5);
    state = state_of(folder);
    tap_eq_int(state.rows, 1);
    tap_eq_int(state.rows_no_file, 5);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(a_child_does_not_write_to_the_ring_of_its_parent)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 1000);
    append(ring, 1, 0);
    pid_t child = fork();
    if (child == 0) {
        append(ring, 2, 0);
        bool refused = gsp_ring_lane(ring) == NULL;
        gsp_ring_abandon(ring);
        int own = mkdirat(folder, "child", 0700) == 0
                      ? openat(folder, "child", O_RDONLY | O_DIRECTORY)
                      : -1;
        struct gsp_ring *mine = NULL;
        bool made = gsp_ring_create(own, TRACE, &mine, NULL) == 0;
        if (made)
            append(mine, 2, 0);
        struct gsp_ring_view *view = NULL;
        struct gsp_ring_state state = {0};
        if (made && gsp_ring_open(own, RING_FILE, &view, NULL) == 0)
            gsp_ring_state(view, &state);
        gsp_ring_view_close(view);
        gsp_ring_close(mine);
        unlinkat(own, RING_FILE, 0);
        unlinkat(folder, "child", AT_REMOVEDIR);
        _exit(refused && state.rows == 1 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    tap_eq_int(status, 0);
    append(ring, 1, 1);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    tap_eq_int(state.rows, 2);
    tap_eq_int(state.lane_count, 1);
    tap_eq_int(state.status, 0);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

/* Ends this thread in a child, where its lanes still belong to the parent. */
static void *fork_and_end(void *arg)
{
    append(arg, 1, 0);
    pid_t child = fork();
    if (child == 0)
        return NULL;
    int status = 1;
    waitpid(child, &status, 0);
    /* This thread still owns the lane, although its copy in the child has ended. */
    struct gsp_lane *lane = gsp_ring_lane(arg);
    tap_check(lane && atomic_load(&lane->head->owner) == (uint32_t)gettid());
    return NULL;
}

TAP_TEST(a_thread_that_ends_in_a_child_does_not_return_the_lane)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 1000);
    pthread_t thread;
    tap_require(pthread_create(&thread, NULL, fork_and_end, ring) == 0);
    pthread_join(thread, NULL);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

/* Called by the next getpid() of this thread. */
static _Thread_local void (*at_getpid)(void);

/* Replaces the function of the C library, also for the ring code. */
pid_t getpid(void)
{
    void (*call)(void) = at_getpid;
    at_getpid = NULL;
    if (call)
        call();
    return (pid_t)syscall(SYS_getpid);
}

static atomic_bool handler_has_entered;

/* Performs the first and last step of creating a ring. The other steps allocate, which sanitizers
 * do not allow in a signal handler. */
static void enter_in_handler(int number)
{
    static struct gsp_ring ring;
    (void)number;
    const bool entered = gsp_ring__enter(&ring, NULL) == 0;
    gsp_ring__leave(&ring);
    atomic_store(&handler_has_entered, entered);
}

static void raise_signal(void)
{
    raise(SIGUSR1);
}

static void *end_under_a_signal(void *arg)
{
    append(arg, 1, 0);
    at_getpid = raise_signal; /* the end of the thread calls getpid() next */
    return NULL;
}

TAP_TEST(a_handler_creates_a_ring_while_its_thread_ends)
{
    const struct sigaction action = {.sa_handler = enter_in_handler};
    pthread_t thread;
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 1000);
    sigaction(SIGUSR1, &action, NULL);
    alarm(10); /* ends a deadlock */
    tap_require(pthread_create(&thread, NULL, end_under_a_signal, ring) == 0);
    pthread_join(thread, NULL);
    alarm(0);
    tap_check(atomic_load(&handler_has_entered));
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

/* Fills the file system of the folder except for `rest` bytes. */
static void fill_up(int folder, uint64_t rest)
{
    struct statvfs fs;
    const int fd = openat(folder, "filler", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    tap_require(fd >= 0 && fstatvfs(fd, &fs) == 0);
    tap_require(posix_fallocate(fd, 0, (off_t)(fs.f_bavail * fs.f_frsize - rest)) == 0);
    close(fd);
}

static void clear(int folder)
{
    unlinkat(folder, "filler", 0);
    unlinkat(folder, RING_FILE, 0);
}

static void check_full(int folder)
{
    struct gsp_ring_spec spec = *TRACE;
    struct gsp_err err = {0};
    struct gsp_ring *ring = NULL;
    /* The request exceeds the space: the ring is smaller, unless it must keep its size. */
    spec.string_bytes = 64 << 20;
    spec.keeps_size = true;
    tap_eq_int(gsp_ring_create(folder, &spec, &ring, &err), GSP_E_NOWRITE);
    tap_eq_int(err.sys, ENOSPC);
    spec.keeps_size = false;
    tap_require(gsp_ring_create(folder, &spec, &ring, &err) == 0);
    append(ring, 1, 0);
    tap_eq_int(state_of(folder).rows, 1);
    tap_eq_int(state_of(folder).status, GSP_RING_SMALL);
    gsp_ring_close(ring);
    clear(folder);
    /* Space for the head but not for a lane, then for one lane but not for two. */
    spec.string_bytes = 0;
    tap_require(gsp_ring_create(folder, &spec, &ring, &err) == 0);
    fill_up(folder, 0);
    append(ring, 1, 0);
    tap_eq_int(state_of(folder).rows, 0);
    tap_eq_int(state_of(folder).rows_lost, 1);
    tap_eq_int(state_of(folder).status, GSP_RING_NO_SPACE | GSP_RING_SMALL);
    gsp_ring_close(ring);
    clear(folder);
    tap_require(gsp_ring_create(folder, &spec, &ring, &err) == 0);
    append(ring, 1, 0);
    fill_up(folder, 0);
    for (uint64_t n = 1; n < 20000; n++)
        append(ring, 1, n);
    pthread_t thread;
    tap_require(pthread_create(&thread, NULL, append_some, ring) == 0);
    pthread_join(thread, NULL);
    tap_eq_int(state_of(folder).rows, 20000);
    tap_eq_int(state_of(folder).rows_lost, 2);
    gsp_ring_close(ring);
    clear(folder);
    /* The same without a descriptor. */
    tap_require(gsp_ring_create(folder, &spec, &ring, &err) == 0);
    fill_up(folder, 16 << 10);
    limit_descriptors(true);
    append(ring, 1, 0);
    limit_descriptors(false);
    tap_eq_int(state_of(folder).rows, 0);
    tap_eq_int(state_of(folder).rows_lost, 1);
    tap_eq_int(state_of(folder).status, GSP_RING_NO_SPACE | GSP_RING_SMALL);
    /* The bytes that the failed lane had reserved are free again. */
    tap_eq_int(mkdirat(folder, "more", 0700), 0);
    gsp_ring_close(ring);
}

TAP_TEST(a_full_file_system_is_an_error_not_a_signal)
{
    char path[] = "/tmp/gsprof-full-XXXXXX";
    tap_require(mkdtemp(path) != NULL);
    /* Rings may use 4 MB of it. */
    if (mount("none", path, "tmpfs", 0, "size=16m") != 0) {
        rmdir(path);
        tap_skip("needs root to mount a small file system");
    }
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    check_full(folder);
    close(folder);
    tap_check(umount(path) == 0);
    rmdir(path);
}

TAP_MAIN()
