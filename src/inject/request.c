/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visit_request.c -- what visit.py is told: what to do, and of inject also the package's modules,
 * so that the target need not look for files while it holds its interpreter's lock.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "inject/run_python.h"
#include "proc/task.h"

#define FILE_BYTES   (1U << 20)
#define PACKAGE      "gsprof"
#define PYTHON_END   ".py"
#define CACHE        "__pycache__"
/* The head of a compiled file: its version, how it is checked, the source's time and size. */
#define HEAD_BYTES   16U
#define HEAD_FLAGS   4U
#define HEAD_TIME    8U
#define HEAD_SIZE    12U
#define IS_UNCHECKED 1U

static uint32_t u32_at(const struct gsp_buf *bytes, size_t offset)
{
    uint32_t value;
    memcpy(&value, bytes->p + offset, sizeof(value));
    return value;
}

/* What the interpreter would take for the source's compiled form: that it is of its version is for
 * itself to see. */
static bool is_fresh(const struct gsp_buf *bytes, const struct stat *source)
{
    if (bytes->len <= HEAD_BYTES)
        return false;
    const uint32_t flags = u32_at(bytes, HEAD_FLAGS);
    return flags == IS_UNCHECKED ||
           (flags == 0 && u32_at(bytes, HEAD_TIME) == (uint32_t)source->st_mtim.tv_sec &&
            u32_at(bytes, HEAD_SIZE) == (uint32_t)source->st_size);
}

static void put_hex(struct gsp_json *json, const struct gsp_buf *bytes)
{
    static const char digits[] = "0123456789abcdef";
    gsp_auto_buf text = {0};
    for (size_t i = 0; i < bytes->len; i++) {
        const unsigned char byte = (unsigned char)bytes->p[i];
        gsp_buf_putc(&text, digits[byte >> 4U]);
        gsp_buf_putc(&text, digits[byte & 15U]);
    }
    gsp_json_sv(json, gsp_buf_sv(&text));
}

static bool is_source(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && strcmp(dot, PYTHON_END) == 0;
}

static int is_part(const struct dirent *one)
{
    return is_source(one->d_name) || strstr(one->d_name, ".so") != NULL;
}

struct package {
    const char *folder;
    const char *tag;   /* of compiled files, "cpython-311" */
    bool needs_source; /* nobody keeps what is compiled */
};

/* One module by its whole name: [compiled, source].  Where both are empty the target reads it. */
static void put_module(struct gsp_json *json, const struct package *package, const char *file)
{
    gsp_auto_buf name = {0};
    gsp_auto_buf path = {0};
    gsp_auto_buf bytes = {0};
    struct stat st;
    const int stem = (int)(strlen(file) - (sizeof(PYTHON_END) - 1));
    gsp_buf_puts(&name, PACKAGE);
    if (strcmp(file, "__init__" PYTHON_END) != 0)
        gsp_buf_printf(&name, ".%.*s", stem, file);
    gsp_buf_printf(&path, "%s/%s", package->folder, file);
    const char *text = gsp_buf_cstr(&path);
    if (!gsp_buf_cstr(&name) || !text || stat(text, &st) != 0)
        return;
    gsp_auto_buf compiled = {0};
    gsp_buf_printf(&compiled, "%s/" CACHE "/%.*s.%s.pyc", package->folder, stem, file,
                   package->tag);
    const char *cached = gsp_buf_cstr(&compiled);
    const bool has = cached && gsp_file_read(cached, FILE_BYTES, &bytes, NULL) == GSP_OK &&
                     is_fresh(&bytes, &st);
    if (!has)
        bytes.len = 0;
    const bool as_source =
        !has && package->needs_source && gsp_file_read(text, FILE_BYTES, &bytes, NULL) == GSP_OK;
    gsp_json_key(json, name.p);
    gsp_json_arr_begin(json);
    put_hex(json, has ? &bytes : &(struct gsp_buf){0});
    gsp_json_sv(json, as_source ? gsp_buf_sv(&bytes) : gsp_sv_of(""));
    gsp_json_arr_end(json);
}

/* Whether the target leaves what it compiles for the next time. */
static bool keeps_compiled(pid_t pid, const char *folder)
{
    gsp_auto_buf value = {0};
    const bool is_told = gsp_proc_env(pid, "PYTHONDONTWRITEBYTECODE", &value) && value.len > 0;
    return !is_told && access(folder, W_OK) == 0;
}

static void put_package(struct gsp_json *json, const struct gsp_visit *visit, const char *where,
                        const struct gsp_py_runtime *runtime)
{
    gsp_auto_buf folder = {0};
    char tag[32];
    struct dirent **found = NULL;
    gsp_buf_printf(&folder, "%s/" PACKAGE, where);
    const char *path = gsp_buf_cstr(&folder);
    const int listed = path ? scandir(path, &found, is_part, alphasort) : 0;
    const int count = listed > 0 ? listed : 0;
    snprintf(tag, sizeof(tag), "cpython-3%u%s", GSP_PY_MINOR(runtime->layout.version),
             runtime->layout.free_threaded ? "t" : "");
    const struct package package = {path, tag, path && !keeps_compiled(visit->pid, path)};
    gsp_json_key(json, "modules");
    gsp_json_obj_begin(json);
    for (int i = 0; i < count; i++)
        if (is_source(found[i]->d_name))
            put_module(json, &package, found[i]->d_name);
    gsp_json_obj_end(json);
    gsp_json_key(json, "libraries");
    gsp_json_arr_begin(json);
    for (int i = 0; i < count; i++) {
        if (!is_source(found[i]->d_name))
            gsp_json_str(json, found[i]->d_name);
        free(found[i]);
    }
    gsp_json_arr_end(json);
    free(found);
}

void gsp_visit__put_request(const struct gsp_visit *visit, const struct gsp_visit__files *files,
                            const char *package, const struct gsp_py_runtime *runtime,
                            struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_auto_buf scope = {0};
    /* 1: only those above a process may look at it, unless it lets others. */
    const bool may_trace =
        gsp_file_read("/proc/sys/kernel/yama/ptrace_scope", 64, &scope, NULL) != GSP_OK ||
        !gsp_sv_starts(gsp_buf_sv(&scope), "1");
    /* Objects and strings of JSON are also Python. */
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "what", visit->what);
    gsp_json_put_str(&json, "claim", files->claim);
    gsp_json_put_str(&json, "answer", files->answer);
    gsp_json_put_str(&json, "package", package);
    gsp_json_put_str(&json, "code", visit->code ? visit->code : "");
    gsp_json_put_i64(&json, "may_trace", may_trace);
    gsp_json_put_i64(&json, "may_follow", !visit->is_unfollowed);
    gsp_json_key(&json, "settings");
    gsp_json_obj_begin(&json);
    for (size_t i = 0; i < visit->setting_count; i++)
        gsp_json_put_str(&json, gsp_wire_setting_row(visit->settings[i].id)->name,
                         visit->settings[i].value);
    gsp_json_obj_end(&json);
    if (strcmp(visit->what, "inject") == 0)
        put_package(&json, visit, package, runtime);
    gsp_json_obj_end(&json);
}
