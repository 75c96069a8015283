/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c -- the request for target_script.py. For inject it includes the modules of the package,
 * so that the target does not search for files while it holds the GIL.
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
/* The header of a .pyc file (PEP 552): magic number, flags, time and size of the source. */
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

/* Whether a .pyc file matches its source. The target checks the magic number. */
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

static int is_module_file(const struct dirent *one)
{
    return is_source(one->d_name) || strstr(one->d_name, ".so") != NULL;
}

struct package {
    const char *folder;
    const char *tag;   /* of .pyc files: "cpython-311" */
    bool needs_source; /* the target does not write .pyc files */
};

/* Adds "gsprof.name": [compiled, source]. If both are empty, the target reads the file. */
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
    gsp_json_put_arr_begin(json, name.p);
    put_hex(json, has ? &bytes : &(struct gsp_buf){0});
    gsp_json_sv(json, as_source ? gsp_buf_sv(&bytes) : gsp_sv_of(""));
    gsp_json_arr_end(json);
}

/* Whether the target writes .pyc files. */
static bool writes_compiled(pid_t pid, const char *folder)
{
    gsp_auto_buf value = {0};
    const bool is_off = gsp_proc_env(pid, "PYTHONDONTWRITEBYTECODE", &value) && value.len > 0;
    return !is_off && access(folder, W_OK) == 0;
}

static void put_package(struct gsp_json *json, const struct gsp_python_call *script,
                        const char *parent, const struct gsp_py_runtime *runtime)
{
    gsp_auto_buf folder = {0};
    char tag[32];
    struct dirent **found = NULL;
    gsp_buf_printf(&folder, "%s/" PACKAGE, parent);
    const char *path = gsp_buf_cstr(&folder);
    const int listed = path ? scandir(path, &found, is_module_file, alphasort) : 0;
    const int count = listed > 0 ? listed : 0;
    snprintf(tag, sizeof(tag), "cpython-3%u%s", GSP_PY_MINOR(runtime->layout.version),
             runtime->layout.free_threaded ? "t" : "");
    const struct package package = {path, tag, path && !writes_compiled(script->pid, path)};
    gsp_json_put_obj_begin(json, "modules");
    for (int i = 0; i < count; i++)
        if (is_source(found[i]->d_name))
            put_module(json, &package, found[i]->d_name);
    gsp_json_obj_end(json);
    gsp_json_put_arr_begin(json, "libraries");
    for (int i = 0; i < count; i++) {
        if (!is_source(found[i]->d_name))
            gsp_json_str(json, found[i]->d_name);
        free(found[i]);
    }
    gsp_json_arr_end(json);
    free(found);
}

void gsp_inject__request_put(const struct gsp_python_call *script,
                             const struct gsp_inject__script_files *files, const char *package,
                             const struct gsp_py_runtime *runtime, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_auto_buf scope = {0};
    /* 1: only ancestors of a process may trace it, unless it allows others (PR_SET_PTRACER). */
    const bool may_trace =
        gsp_file_read("/proc/sys/kernel/yama/ptrace_scope", 64, &scope, NULL) != GSP_OK ||
        !gsp_sv_starts(gsp_buf_sv(&scope), "1");
    /* JSON objects and strings are valid Python. */
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "what", script->what);
    gsp_json_put_str(&json, "claim", files->claim);
    gsp_json_put_str(&json, "answer", files->answer);
    gsp_json_put_str(&json, "package", package);
    gsp_json_put_str(&json, "code", script->code ? script->code : "");
    gsp_json_put_i64(&json, "may_trace", may_trace);
    gsp_json_put_i64(&json, "may_follow", !script->no_follower);
    gsp_json_put_obj_begin(&json, "settings");
    for (size_t i = 0; i < script->setting_count; i++)
        gsp_json_put_str(&json, gsp_wire_setting_row(script->settings[i].id)->name,
                         script->settings[i].value);
    gsp_json_obj_end(&json);
    if (strcmp(script->what, "inject") == 0)
        put_package(&json, script, package, runtime);
    gsp_json_obj_end(&json);
}
