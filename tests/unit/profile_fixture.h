/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_fixture.h -- a small profile for tests of formats, and checks for equality.
 */
#pragma once

#include <inttypes.h>

#include "base/buf.h"
#include "base/file.h"
#include "export/format.h"
#include "model/profile.h"
#include "tap.h"

static inline uint32_t fix_string(struct gsp_profile *profile, const char *text)
{
    uint32_t id = GSP_NONE;
    tap_require(gsp_model_profile_string(profile, gsp_sv_of(text), &id, NULL) == GSP_OK);
    return id;
}

static inline uint32_t fix_frame(struct gsp_profile *profile, const char *name, const char *file,
                                 uint32_t line)
{
    struct gsp_frame frame = {.name = fix_string(profile, name),
                              .file = fix_string(profile, file),
                              .line = line,
                              .first_line = line > 4 ? line - 4 : line};
    uint32_t id = GSP_NONE;
    tap_require(gsp_model_profile_frame(profile, &frame, &id, NULL) == GSP_OK);
    return id;
}

static inline uint32_t fix_stack(struct gsp_profile *profile, uint32_t caller, uint32_t frame)
{
    uint32_t id = GSP_NONE;
    tap_require(gsp_model_profile_stack(profile, caller, frame, &id, NULL) == GSP_OK);
    return id;
}

static inline uint32_t fix_process(struct gsp_profile *profile, int32_t pid, const char *name)
{
    struct gsp_process process = {.pid = pid,
                                  .ppid = pid == 100 ? -1 : 100,
                                  .name = fix_string(profile, name),
                                  .cmdline = fix_string(profile, "python3 app.py --fast"),
                                  .version = fix_string(profile, "3.11.7")};
    uint32_t i = GSP_NO_INDEX;
    tap_require(gsp_model_profile_process(profile, &process, &i, NULL) == GSP_OK);
    return i;
}

static inline uint32_t fix_thread(struct gsp_profile *profile, uint32_t process, uint64_t os_id,
                                  const char *name)
{
    struct gsp_thread thread = {.process = process,
                                .os_id = os_id,
                                .python_id = 140000000000000 + os_id,
                                .name = fix_string(profile, name),
                                .is_main = strcmp(name, "MainThread") == 0};
    uint32_t i = GSP_NO_INDEX;
    tap_require(gsp_model_profile_thread(profile, &thread, &i, NULL) == GSP_OK);
    return i;
}

static inline void fix_add(struct gsp_profile *profile, uint32_t thread, uint32_t stack,
                           int64_t time_us, uint32_t flags)
{
    struct gsp_sample sample = {.time_ns = time_us * 1000,
                                .weight = 10000000,
                                .thread = thread,
                                .stack = stack,
                                .flags = flags};
    tap_require(gsp_model_profile_add(profile, &sample, NULL) == GSP_OK);
}

/* Two processes, three threads, a recursion, a gap, a thread that starts late, and names that need
 * escaping. */
static inline struct gsp_profile *fix_small(void)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    *gsp_model_profile_meta(p) = (struct gsp_model_profile_meta){
        .start_ns = 1700000000123456000,
        .duration_ns = 100000000,
        .period_ns = 10000000,
        .ticks = 10,
        .losses = {.torn = 1, .late = 2, .failed = 3, .gone = 4, .skipped = 5}};
    uint32_t app = fix_process(p, 100, "python3");
    uint32_t worker = fix_process(p, 101, "python3 worker");
    uint32_t main_thread = fix_thread(p, app, 100, "MainThread");
    uint32_t loader = fix_thread(p, app, 105, "loader \"1\";<x>");
    uint32_t other = fix_thread(p, worker, 101, "MainThread");

    uint32_t root = fix_stack(p, GSP_NONE, fix_frame(p, "<module>", "/srv/app.py", 40));
    uint32_t run = fix_stack(p, root, fix_frame(p, "main", "/srv/app.py", 30));
    uint32_t load = fix_stack(p, run, fix_frame(p, "load", "/srv/pkg/features.py", 12));
    uint32_t load_again = fix_stack(p, load, fix_frame(p, "load", "/srv/pkg/features.py", 14));
    uint32_t odd =
        fix_stack(p, run, fix_frame(p, "a;b\n<&\"\xc3\xa9%3B", "/srv/pkg/__init__.py", 3));
    uint32_t boot = fix_stack(
        p, GSP_NONE, fix_frame(p, "Thread._bootstrap", "/usr/lib/python3.11/threading.py", 995));
    struct gsp_frame native = {.name = fix_string(p, "sgemm"),
                               .file = fix_string(p, "/usr/lib/libblas.so.3"),
                               .kind = GSP_FRAME_NATIVE};
    uint32_t native_id = GSP_NONE;
    tap_require(gsp_model_profile_frame(p, &native, &native_id, NULL) == GSP_OK);
    uint32_t blas = fix_stack(p, boot, native_id);

    const uint32_t busy = GSP_SAMPLE_ON_CPU | GSP_SAMPLE_HAS_GIL;
    fix_add(p, main_thread, load, 3, busy);
    fix_add(p, other, root, 3, GSP_SAMPLE_ON_CPU);
    fix_add(p, main_thread, load, 10005, busy);
    fix_add(p, main_thread, load_again, 20001, busy);
    fix_add(p, loader, blas, 20001, GSP_SAMPLE_ON_CPU);
    fix_add(p, main_thread, odd, 30012, 0);
    fix_add(p, loader, blas, 30013, GSP_SAMPLE_ON_CPU);
    fix_add(p, other, run, 60002, busy);
    fix_add(p, main_thread, run, 70002, busy);
    fix_add(p, loader, GSP_NONE, 80004, 0);
    return p;
}

static inline bool fix_same_string(const struct gsp_profile *a, uint32_t x,
                                   const struct gsp_profile *b, uint32_t y)
{
    return gsp_sv_eq(gsp_model_profile_string_at(a, x), gsp_model_profile_string_at(b, y));
}

static inline bool fix_same_frame(const struct gsp_profile *a, uint32_t x,
                                  const struct gsp_profile *b, uint32_t y)
{
    const struct gsp_frame *f = gsp_model_profile_frame_at(a, x);
    const struct gsp_frame *g = gsp_model_profile_frame_at(b, y);
    return f && g && fix_same_string(a, f->name, b, g->name) &&
           fix_same_string(a, f->file, b, g->file) && f->line == g->line &&
           f->first_line == g->first_line && f->kind == g->kind;
}

static inline bool fix_same_stack(const struct gsp_profile *a, uint32_t x,
                                  const struct gsp_profile *b, uint32_t y)
{
    while (x != GSP_NONE && y != GSP_NONE) {
        if (!fix_same_frame(a, gsp_model_profile_stack_frame(a, x), b,
                            gsp_model_profile_stack_frame(b, y)))
            return false;
        x = gsp_model_profile_stack_caller(a, x);
        y = gsp_model_profile_stack_caller(b, y);
    }
    return x == y;
}

static inline bool fix_same_thread(const struct gsp_profile *a, uint32_t x,
                                   const struct gsp_profile *b, uint32_t y)
{
    const struct gsp_thread *t = gsp_model_profile_thread_at(a, x);
    const struct gsp_thread *u = gsp_model_profile_thread_at(b, y);
    if (!t || !u)
        return false;
    const struct gsp_process *p = gsp_model_profile_process_at(a, t->process);
    const struct gsp_process *q = gsp_model_profile_process_at(b, u->process);
    return t->os_id == u->os_id && t->python_id == u->python_id && t->is_main == u->is_main &&
           fix_same_string(a, t->name, b, u->name) && p->pid == q->pid && p->ppid == q->ppid &&
           fix_same_string(a, p->name, b, q->name) &&
           fix_same_string(a, p->cmdline, b, q->cmdline) &&
           fix_same_string(a, p->version, b, q->version);
}

/* Checks that both have the same meta, threads and samples. */
static inline void fix_check_same(const struct gsp_profile *a, const struct gsp_profile *b)
{
    const struct gsp_model_profile_meta *m = gsp_model_profile_meta_get(a);
    const struct gsp_model_profile_meta *n = gsp_model_profile_meta_get(b);
    tap_eq_int(m->start_ns, n->start_ns);
    tap_eq_int(m->duration_ns, n->duration_ns);
    tap_eq_int(m->period_ns, n->period_ns);
    tap_eq_int(m->unit, n->unit);
    tap_eq_int(m->ticks, n->ticks);
    tap_check(memcmp(&m->losses, &n->losses, sizeof(m->losses)) == 0);
    tap_eq_int(gsp_model_profile_thread_count(a), gsp_model_profile_thread_count(b));
    tap_eq_int(gsp_model_profile_process_count(a), gsp_model_profile_process_count(b));
    tap_eq_int(gsp_model_profile_sample_count(a), gsp_model_profile_sample_count(b));
    for (uint32_t i = 0; i < gsp_model_profile_thread_count(a); i++)
        tap_check(fix_same_thread(a, i, b, i));
    struct gsp_sample_iter x;
    struct gsp_sample_iter y;
    struct gsp_sample s;
    struct gsp_sample t;
    gsp_model_sample_iter_init(&x, a);
    gsp_model_sample_iter_init(&y, b);
    while (gsp_model_sample_iter_next(&x, &s)) {
        tap_require(gsp_model_sample_iter_next(&y, &t));
        tap_require(s.time_ns == t.time_ns && s.weight == t.weight && s.flags == t.flags &&
                    s.thread == t.thread);
        tap_require(fix_same_stack(a, s.stack, b, t.stack));
    }
    tap_check(!gsp_model_sample_iter_next(&y, &t));
}

/* Writes the profile in a format; the caller frees *bytes. */
static inline void fix_write(const struct gsp_profile *profile, const char *format,
                             const struct gsp_view_options *view, struct gsp_buf *bytes)
{
    FILE *file = tmpfile();
    tap_require(file != NULL);
    struct gsp_out out;
    struct gsp_err err = {0};
    gsp_out_init(&out, fileno(file));
    tap_require(gsp_export_format_find(format) != NULL);
    int rc = gsp_export_format_find(format)->write(profile, view, &out, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    tap_require(gsp_out_finish(&out, NULL) == GSP_OK);
    rewind(file);
    tap_require(gsp_fd_read_all(fileno(file), 1U << 30, bytes, &err) == GSP_OK);
    fclose(file);
}

static inline int fix_read(struct gsp_sv bytes, const char *format, struct gsp_profile **out,
                           struct gsp_err *err)
{
    tap_require(gsp_model_profile_new(true, out, NULL) == GSP_OK);
    int rc = gsp_export_format_find(format)->read(bytes, *out, err);
    if (rc) {
        gsp_model_profile_free(*out);
        *out = NULL;
    }
    return rc;
}

/* Compares with tests/golden/<name>, or writes it if GSP_GOLDEN_WRITE is set. */
static inline void fix_check_golden(struct gsp_buf *bytes, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/../../golden/%s", GSP_TEST_DATA, name);
    if (getenv("GSP_GOLDEN_WRITE")) {
        FILE *file = fopen(path, "wb");
        tap_require(file != NULL);
        tap_eq_int(fwrite(bytes->p, 1, bytes->len, file), bytes->len);
        fclose(file);
        return;
    }
    struct gsp_buf golden = {0};
    tap_require(gsp_file_read(path, 1U << 26, &golden, NULL) == GSP_OK);
    bool same = gsp_sv_eq(gsp_buf_sv(bytes), gsp_buf_sv(&golden));
    tap_check(same);
    if (!same)
        printf("# differs from %s (GSP_GOLDEN_WRITE=1 updates it); now:\n# %.2000s\n", name,
               gsp_buf_cstr(bytes));
    gsp_buf_free(&golden);
}

/* Truncated or changed bytes must be rejected or read safely; the sanitizers check that. */
static inline void fix_mangle(struct gsp_sv bytes, const char *format, size_t step)
{
    struct gsp_profile *p = NULL;
    for (size_t len = 0; len < bytes.len; len += step) {
        char *copy = malloc(len + 1); /* so that ASan detects reads past the end */
        tap_require(copy != NULL);
        memcpy(copy, bytes.p, len);
        if (fix_read((struct gsp_sv){copy, len}, format, &p, NULL) == GSP_OK)
            gsp_model_profile_free(p);
        free(copy);
    }
    char *copy = malloc(bytes.len ? bytes.len : 1);
    tap_require(copy != NULL);
    for (size_t i = 0; i < bytes.len; i += step) {
        memcpy(copy, bytes.p, bytes.len);
        copy[i] = (char)(copy[i] ^ (1 << (i % 8)));
        if (fix_read((struct gsp_sv){copy, bytes.len}, format, &p, NULL) == GSP_OK)
            gsp_model_profile_free(p);
    }
    free(copy);
}
