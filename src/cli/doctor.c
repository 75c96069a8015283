/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "base/time.h"
#include "collect/collect.h"
#include "proc/mem.h"
#include "proc/perf.h"
#include "proc/task.h"
#include "py/locate.h"

static bool is_python_name(struct gsp_sv name)
{
    return gsp_sv_starts(name, "python") || gsp_sv_starts(name, "Python");
}

/* Whether the executable or the first argument is named python. */
static bool may_be_python(pid_t pid, const struct gsp_buf *cmdline)
{
    gsp_auto_buf exe = {0};
    gsp_proc_exe(pid, &exe);
    if (is_python_name(gsp_sv_basename(gsp_buf_sv(&exe))))
        return true;
    struct gsp_sv first = gsp_buf_sv(cmdline);
    const char *blank = first.len ? memchr(first.p, ' ', first.len) : NULL;
    if (blank)
        first.len = (size_t)(blank - first.p);
    return is_python_name(gsp_sv_basename(first));
}

static void add_process(pid_t pid, struct gsp_doctor *out)
{
    gsp_auto_buf cmdline = {0};
    gsp_proc_cmdline(pid, &cmdline);
    struct gsp_perm perm;
    if (!may_be_python(pid, &cmdline))
        return;
    gsp_proc_perm_read("", pid, &perm);
    if (perm.state == 'Z')
        return;
    if (out->process_count == GSP_DOCTOR_ROWS_MAX) {
        out->process_more++;
        return;
    }
    struct gsp_doctor_process *row = &out->processes[out->process_count++];
    gsp_auto_buf shown = {0};
    gsp_buf_term(&shown, gsp_buf_sv(&cmdline));
    const char *text = gsp_buf_cstr(&shown);
    row->pid = pid;
    snprintf(row->cmdline, sizeof(row->cmdline), "%s", text ? text : "");

    struct gsp_err err = {0};
    struct gsp_mem *mem = NULL;
    struct gsp_py_runtime runtime = {0};
    row->rc = gsp_proc_perm_check(pid, &err);
    if (row->rc == GSP_OK)
        row->rc = gsp_proc_mem_open_pid(pid, &mem, &err);
    if (row->rc == GSP_OK)
        row->rc = gsp_py_locate(pid, mem, &runtime, &err);
    gsp_proc_mem_free(mem);
    if (row->rc == GSP_OK)
        snprintf(row->version, sizeof(row->version), "%s", runtime.version);
    else
        snprintf(row->reason, sizeof(row->reason), "%s", err.msg);
}

static void find_processes(struct gsp_doctor *out)
{
    DIR *folder = opendir("/proc");
    if (!folder)
        return;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        int64_t pid = 0;
        if (isdigit((unsigned char)entry->d_name[0]) &&
            gsp_parse_i64(entry->d_name, 1, INT_MAX, &pid, NULL) == GSP_OK &&
            pid != (int64_t)getpid())
            add_process((pid_t)pid, out);
    }
    closedir(folder);
}

bool gsp_cli__doctor_version_of(const char *path, char *out, size_t cap)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    static const char prefix[] = "python3.";
    size_t len = sizeof(prefix) - 1;
    snprintf(out, cap, "%s", "");
    if (strncmp(name, prefix, len) != 0 || !isdigit((unsigned char)name[len]))
        return false;
    char *end = NULL;
    unsigned long minor = strtoul(name + len, &end, 10);
    bool is_free = end[0] == 't' && end[1] == '\0';
    if (minor > 999 || (*end != '\0' && !is_free))
        return false;
    snprintf(out, cap, "3.%lu%s", minor, is_free ? "t" : "");
    return minor >= GSP_PY_MINOR_MIN && minor <= GSP_PY_MINOR_MAX;
}

/* Excludes wrapper scripts, such as pyenv's shims. */
static bool is_elf(const char *path)
{
    char head[4] = "";
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
           memcmp(head, "\177ELF", sizeof(head)) == 0;
}

static void add_python(const char *folder, const char *name, struct gsp_doctor *out)
{
    char path[PATH_MAX];
    char real[PATH_MAX];
    char version[16];
    int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return;
    if (!realpath(path, real) || !is_elf(real) || out->python_count == GSP_DOCTOR_ROWS_MAX)
        return;
    bool supported = gsp_cli__doctor_version_of(real, version, sizeof(version));
    for (size_t i = 0; i < out->python_count; i++)
        if (strcmp(out->pythons[i].path, real) == 0)
            return;
    struct gsp_doctor_python *row = &out->pythons[out->python_count++];
    snprintf(row->path, sizeof(row->path), "%.*s", (int)sizeof(row->path) - 1, real);
    snprintf(row->version, sizeof(row->version), "%s", version);
    row->supported = supported;
}

/* python, python3, python3.11, python3.13t; not python3-config or pythonw. */
static bool is_interpreter_name(const char *name)
{
    if (strncmp(name, "python", 6) != 0)
        return false;
    size_t len = strspn(name + 6, "0123456789.");
    return name[6 + len] == '\0' || (name[6 + len] == 't' && name[6 + len + 1] == '\0');
}

static void find_pythons(struct gsp_doctor *out)
{
    struct gsp_sv rest = gsp_sv_of(getenv("PATH"));
    struct gsp_sv part;
    while (gsp_sv_split(&rest, ':', &part)) {
        char folder[PATH_MAX];
        if (part.len == 0 || part.len >= sizeof(folder))
            continue;
        snprintf(folder, sizeof(folder), "%.*s", (int)part.len, part.p);
        DIR *dir = opendir(folder);
        for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
            if (is_interpreter_name(e->d_name))
                add_python(folder, e->d_name, out);
        if (dir)
            closedir(dir);
    }
}

static uint32_t intern_nothing(struct gsp_collect_sink *sink, enum gsp_table_id table,
                               struct gsp_sv text)
{
    (void)sink;
    (void)table;
    return text.len > 0;
}

static void put_nothing(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *row)
{
    (void)sink;
    (void)table;
    (void)row;
}

/* Opens and reads each source once, because missing values show only then. */
static void check_sources(struct gsp_doctor *out)
{
    const struct gsp_collect_env env = gsp_collect_env_here();
    const struct gsp_collect_tick tick = {gsp_realtime_ns(), gsp_now_ns()};
    struct gsp_collect_sink sink = {intern_nothing, put_nothing};
    struct gsp_collect *collect = NULL;
    struct gsp_collect_state state;
    if (gsp_collect_open(&env, &collect, NULL) != GSP_OK)
        return;
    gsp_collect_read(collect, &tick, &sink);
    while (out->source_count < GSP_DOCTOR_SOURCES_MAX &&
           gsp_collect_state(collect, out->source_count, &state)) {
        struct gsp_doctor_source *row = &out->sources[out->source_count++];
        snprintf(row->name, sizeof(row->name), "%s", state.name);
        snprintf(row->doc, sizeof(row->doc), "%s", state.doc);
        snprintf(row->trouble, sizeof(row->trouble), "%s", state.trouble ? state.trouble : "");
        row->open = state.open;
    }
    gsp_collect_close(collect);
}

void gsp_cli__doctor_check(struct gsp_doctor *out)
{
    *out = (struct gsp_doctor){0};
    if (uname(&out->system) < 0)
        snprintf(out->system.release, sizeof(out->system.release), "unknown");
    gsp_proc_perm_read("", 0, &out->perm);
    int rc = gsp_proc_perm_selftest(&out->selftest);
    if (rc == GSP_OK)
        out->selftest = (struct gsp_err){0};
    if (gsp_proc_perf_selftest(&out->events) == GSP_OK)
        out->events = (struct gsp_err){0};
    find_processes(out);
    find_pythons(out);
    check_sources(out);
}
