/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "store/run.h"

#define META_VERSION 1

int gsp_store_run_path(char out[GSP_RUN_PATH_MAX], const char *folder, const char *name,
                       struct gsp_err *err)
{
    const size_t len = strlen(folder);
    const char *slash = len > 0 && folder[len - 1] == '/' ? "" : "/";
    const int n = snprintf(out, GSP_RUN_PATH_MAX, "%s%s%s", folder, slash, name);
    if (n < 0 || n >= (int)GSP_RUN_PATH_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the path %.160s... is too long", folder);
    return GSP_OK;
}

struct gsp_sv gsp_store_run_name(const char *path)
{
    struct gsp_sv text = gsp_sv_of(path);
    while (text.len > 1 && text.p[text.len - 1] == '/')
        text.len--;
    return gsp_sv_basename(text);
}

static void put_known(struct gsp_json *json, const char *key, int64_t value, bool is_known)
{
    if (gsp_json_key_or_null(json, key, is_known))
        gsp_json_i64(json, value);
}

static void put_number(struct gsp_json *json, const char *key, int64_t value)
{
    put_known(json, key, value, value != GSP_NULL_I64);
}

static void put_times(struct gsp_json *json, const struct gsp_run_meta *about)
{
    put_known(json, "start_ns", about->start_ns, about->start_ns > 0);
    put_known(json, "end_ns", about->end_ns, about->end_ns > 0);
    put_known(json, "duration_ns", about->duration_ns, about->duration_ns > 0);
    put_known(json, "period_ns", about->period_ns, about->period_ns > 0);
}

static void put_program(struct gsp_json *json, const struct gsp_run_meta *about)
{
    gsp_json_put_arr_begin(json, "argv");
    for (size_t i = 0; about->argv[i]; i++)
        gsp_json_str(json, about->argv[i]);
    gsp_json_arr_end(json);
    gsp_json_put_str(json, "cwd", about->cwd);
    gsp_json_put_str(json, "kernel", about->kernel);
    put_number(json, "status", about->status);
    put_number(json, "signal", about->signal);
    gsp_json_put_str(json, "ending", about->ending);
}

static void put_processes(struct gsp_json *json, const struct gsp_run_meta *about)
{
    gsp_json_put_arr_begin(json, "processes");
    for (size_t i = 0; i < about->process_count; i++) {
        const struct gsp_run_process *process = &about->processes[i];
        gsp_json_obj_begin(json);
        gsp_json_put_i64(json, "pid", process->pid);
        put_number(json, "rank", process->rank);
        gsp_json_put_str(json, "name", process->name);
        gsp_json_put_str(json, "cmdline", process->cmdline);
        gsp_json_put_str(json, "python", process->python);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_meta(struct gsp_buf *out, const char *path, const struct gsp_run_meta *about)
{
    static const char *const STATES[] = {[GSP_RUN_COMPLETE] = "complete",
                                         [GSP_RUN_RUNNING] = "running",
                                         [GSP_RUN_PARTIAL] = "partial"};
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "version", META_VERSION);
    gsp_json_put_str(&json, "gsprof_version", GSP_VERSION);
    gsp_json_put_sv(&json, "name", about->name ? gsp_sv_of(about->name) : gsp_store_run_name(path));
    gsp_json_put_str(&json, "state", STATES[about->state]);
    gsp_json_put_str(&json, "host", about->host);
    gsp_json_put_str(&json, "command", about->command);
    put_times(&json, about);
    if (about->argv)
        put_program(&json, about);
    gsp_json_put_str(&json, "unit", about->unit);
    gsp_json_put_u64(&json, "samples", about->samples);
    put_processes(&json, about);
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
}

int gsp_store_run_write_meta(const char *path, const struct gsp_run_meta *about, bool replace,
                             struct gsp_err *err)
{
    char name[GSP_RUN_PATH_MAX];
    gsp_auto_buf text = {0};
    struct gsp_newfile file = {.fd = -1};
    put_meta(&text, path, about);
    int rc = text.failed ? gsp_err_nomem(err) : gsp_store_run_path(name, path, GSP_RUN_META, err);
    if (rc == GSP_OK)
        rc = gsp_newfile_open(&file, name, replace, err);
    if (rc == GSP_OK)
        rc = gsp_fd_write_all(file.fd, text.p, text.len, err);
    if (rc == GSP_OK)
        return gsp_newfile_commit(&file, err);
    gsp_newfile_abort(&file);
    return rc;
}
