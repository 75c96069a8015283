/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every installed interpreter runs data/objects.py, which prints the addresses of its objects and
 * the expected results.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "proc/mem.h"
#include "py/layout.h"
#include "py/object.h"
#include "tap.h"

struct target {
    FILE *out;
    int in;
    pid_t pid;
    struct gsp_mem *mem;
    int mem_fd; /* of /proc/PID/mem, if mem reads from it */
    const struct gsp_py_layout *layout;
    gsp_raddr frame;    /* of the last "locals" line */
    char expected[512]; /* of that line */
    char threads[1024]; /* "ident name" lines of the target */
    size_t checked;
};

/* An emulator for another kind of machine does not have process_vm_readv. The file is opened late:
 * a file opened before exec keeps referring to the old memory. */
static int slow_gather(void *self, const struct gsp_mem_span *spans, size_t count, size_t *done)
{
    struct target *t = self;
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)t->pid);
    if (t->mem_fd < 0)
        t->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
    for (*done = 0; *done < count; ++*done) {
        const struct gsp_mem_span *span = &spans[*done];
        if (pread(t->mem_fd, span->to, span->len, (off_t)span->addr) != (ssize_t)span->len)
            return GSP_E_FAULT;
    }
    return GSP_OK;
}

static void slow_free(void *self)
{
    const struct target *t = self;
    if (t->mem_fd >= 0)
        (void)close(t->mem_fd);
}

static void open_slowly(struct target *t)
{
    static const struct gsp_mem_ops ops = {slow_gather, slow_free};
    t->mem_fd = -1;
    tap_require(gsp_proc__mem_open_ops(&ops, t, &t->mem, NULL) == 0);
}

static void start(struct target *t, const char *exe)
{
    int to[2];
    int from[2];
    char script[512];
    (void)snprintf(script, sizeof(script), "%s/objects.py", GSP_TEST_DATA);
    tap_require(pipe(to) == 0 && pipe(from) == 0);
    t->pid = fork();
    tap_require(t->pid >= 0);
    if (t->pid == 0) {
        (void)dup2(to[0], 0);
        (void)dup2(from[1], 1);
        (void)close(to[1]);
        (void)close(from[0]);
        /* Do not preload a sanitizer into the target. */
        (void)unsetenv("LD_PRELOAD");
        (void)execl(exe, exe, "-I", script, (char *)NULL);
        _exit(127);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    t->in = to[1];
    t->out = fdopen(from[0], "r");
    tap_require(t->out != NULL);
    if (process_vm_readv(getpid(), NULL, 0, NULL, 0, 0) < 0 && errno == ENOSYS)
        open_slowly(t);
    else
        tap_require(gsp_proc_mem_open_pid(t->pid, &t->mem, NULL) == 0);
}

static void stop(struct target *t)
{
    gsp_proc_mem_free(t->mem);
    (void)close(t->in);
    (void)fclose(t->out);
    (void)waitpid(t->pid, NULL, 0);
}

/* In `expected`, @ is the address and * is anything up to a space. */
static bool matches(const char *got, const char *expected, gsp_raddr addr)
{
    char hex[32];
    (void)snprintf(hex, sizeof(hex), "0x%" PRIx64, addr);
    while (*expected) {
        if (*expected == '@') {
            if (strncmp(got, hex, strlen(hex)) != 0)
                return false;
            got += strlen(hex);
        } else if (*expected == '*') {
            got += strcspn(got, " ");
        } else if (*expected != *got++) {
            return false;
        }
        expected++;
    }
    return *got == 0;
}

static void check_text(struct gsp_buf *got, const char *expected, gsp_raddr addr)
{
    const char *text = gsp_buf_cstr(got);
    if (!matches(text, expected, addr))
        tap_eq_str(text, expected);
}

static void on_repr(struct target *t, gsp_raddr addr, const char *expected)
{
    gsp_auto_buf got = {0};
    tap_eq_int(gsp_py_repr(t->mem, t->layout, addr, NULL, &got), 0);
    check_text(&got, expected, addr);
}

static void on_name(struct target *t, gsp_raddr addr, const char *expected)
{
    gsp_auto_buf got = {0};
    gsp_raddr value = 0;
    tap_eq_int(gsp_py__attr_find(t->mem, t->layout, addr, "_name", &value), 0);
    tap_eq_int(gsp_py__str_read(t->mem, t->layout, value, 100, &got), 0);
    check_text(&got, expected, addr);
    tap_eq_int(gsp_py__attr_find(t->mem, t->layout, addr, "absent", &value), 0);
    tap_eq_int(value, 0);
}

static void on_thread(struct target *t, gsp_raddr ident, const char *name)
{
    size_t len = strlen(t->threads);
    (void)snprintf(t->threads + len, sizeof(t->threads) - len, "%" PRIx64 " %s\n", ident, name);
}

static void collect_thread(void *arg, uint64_t ident, struct gsp_sv name)
{
    struct gsp_buf *out = arg;
    gsp_buf_printf(out, "%" PRIx64 " ", ident);
    gsp_buf_putsv(out, name);
    gsp_buf_putc(out, '\n');
}

static void on_interp(struct target *t, gsp_raddr addr, const char *expected)
{
    gsp_auto_buf got = {0};
    (void)expected;
    tap_eq_int(gsp_py_thread_names(t->mem, t->layout, addr, collect_thread, &got), 0);
    tap_eq_str(gsp_buf_cstr(&got), t->threads);
}

static void on_locals(struct target *t, gsp_raddr addr, const char *expected)
{
    t->frame = addr;
    (void)snprintf(t->expected, sizeof(t->expected), "%s", expected);
}

struct locals {
    struct target *t;
    struct gsp_buf out;
    bool past_args;
};

static void collect_local(void *arg, const struct gsp_py_local *local)
{
    struct locals *locals = arg;
    struct target *t = locals->t;
    gsp_buf_puts(&locals->out, locals->out.len > 0 ? " " : "");
    gsp_buf_putsv(&locals->out, local->name);
    gsp_buf_putc(&locals->out, '=');
    /* The text of functions and frames contains addresses and spaces. */
    gsp_auto_buf value = {0};
    tap_eq_int(gsp_py_repr(t->mem, t->layout, local->value, NULL, &value), 0);
    bool is_thing = gsp_sv_starts(gsp_buf_sv(&value), "<");
    gsp_buf_putsv(&locals->out, is_thing ? gsp_sv_of("<>") : gsp_buf_sv(&value));
    tap_check(!(locals->past_args && local->is_arg));
    locals->past_args = !local->is_arg;
}

/* From 3.11 on the member after f_back of a PyFrameObject points to the frame. */
static void on_code(struct target *t, gsp_raddr code, const char *expected)
{
    struct locals locals = {.t = t};
    uint64_t frame = t->frame;
    (void)expected;
    if (t->layout->frames != GSP_PY_FRAMES_OBJECTS) {
        tap_eq_int(gsp_proc_mem_read_u64(t->mem, t->frame + t->layout->frame_f_back + 8, &frame),
                   0);
    }
    tap_eq_int(gsp_py_locals(t->mem, t->layout, frame, code, collect_local, &locals), 0);
    check_text(&locals.out, t->expected, 0);
    gsp_buf_free(&locals.out);
}

static const struct {
    const char *kind;
    void (*run)(struct target *t, gsp_raddr addr, const char *expected);
} CHECKS[] = {
    {"repr", on_repr},     {"name", on_name}, {"thread", on_thread},
    {"interp", on_interp}, {"code", on_code}, {"locals", on_locals},
};

struct line {
    char kind[16];
    gsp_raddr addr;
    char expected[512];
};

/* kind TAB address TAB expected NEWLINE; writes NULs into text. */
static bool parse_line(char *text, struct line *out)
{
    char *addr = strchr(text, '\t');
    char *expected = addr ? strchr(addr + 1, '\t') : NULL;
    if (!expected)
        return false;
    *addr++ = 0;
    *expected++ = 0;
    expected[strcspn(expected, "\n")] = 0;
    out->addr = strtoull(addr, NULL, 16);
    (void)snprintf(out->kind, sizeof(out->kind), "%.15s", text);
    (void)snprintf(out->expected, sizeof(out->expected), "%.511s", expected);
    return true;
}

/* Reads all lines before any object: the objects must not change while they are read. */
static size_t read_lines(struct target *t, struct line *lines, size_t cap)
{
    char text[1024];
    size_t count = 0;
    while (count < cap && fgets(text, sizeof(text), t->out) && strcmp(text, "end\n") != 0)
        if (tap_check(parse_line(text, &lines[count])))
            count++;
    return count;
}

static void check_interpreter(const char *exe)
{
    static struct line lines[256];
    struct target t = {0};
    printf("# %s\n", exe);
    start(&t, exe);
    size_t count = read_lines(&t, lines, GSP_COUNT(lines));
    tap_require(count > 80);
    tap_require(strcmp(lines[0].kind, "version") == 0);
    t.layout =
        gsp_py_layout_find(GSP_PY_MINOR((uint32_t)lines[0].addr), lines[0].expected[0] == 't');
    tap_require(t.layout != NULL);
    for (size_t i = 1; i < count; i++) {
        for (size_t k = 0; k < GSP_COUNT(CHECKS); k++) {
            if (strcmp(lines[i].kind, CHECKS[k].kind) == 0) {
                CHECKS[k].run(&t, lines[i].addr, lines[i].expected);
                t.checked++;
            }
        }
    }
    tap_eq_int(t.checked, count - 1);
    stop(&t);
}

/* Checks the interpreters of a minor version from pyenv, tools/get-pythons.sh and the system. */
static void check_version(unsigned minor)
{
    static const char *const patterns[] = {
        "%s/.pyenv/versions/3.%u.*/bin/python3.%u",
        "%s/.cache/gsprof/pythons/3.%u/bin/python3.%u",
        "%s/.cache/gsprof/pythons/3.%ut/bin/python3.%ut",
    };
    glob_t found = {0};
    const char *home = getenv("HOME");
    for (size_t i = 0; i < GSP_COUNT(patterns); i++) {
        char pattern[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(pattern, sizeof(pattern), patterns[i], home ? home : "", minor, minor);
#pragma GCC diagnostic pop
        (void)glob(pattern, i == 0 ? 0 : GLOB_APPEND, NULL, &found);
    }
    char system_path[32];
    (void)snprintf(system_path, sizeof(system_path), "/usr/bin/python3.%u", minor);
    (void)glob(system_path, GLOB_APPEND, NULL, &found);
    if (found.gl_pathc == 0) {
        char need[64];
        (void)snprintf(need, sizeof(need), "needs CPython 3.%u (%s)", minor,
                       minor < 13 ? "pyenv" : "tools/get-pythons.sh");
        tap_skip(need);
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_interpreter(found.gl_pathv[i]);
    globfree(&found);
}

TAP_TEST(objects_of_3_8)
{
    check_version(8);
}

TAP_TEST(objects_of_3_9)
{
    check_version(9);
}

TAP_TEST(objects_of_3_10)
{
    check_version(10);
}

TAP_TEST(objects_of_3_11)
{
    check_version(11);
}

TAP_TEST(objects_of_3_12)
{
    check_version(12);
}

TAP_TEST(objects_of_3_13)
{
    check_version(13);
}

TAP_TEST(objects_of_3_14)
{
    check_version(14);
}

TAP_TEST(objects_of_3_15)
{
    check_version(15);
}

TAP_MAIN()
