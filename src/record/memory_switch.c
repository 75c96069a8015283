/* SPDX-License-Identifier: Apache-2.0 */
#include "record/memory_switch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "inject/run_python.h"
#include "memlog/table.h"
#include "proc/task.h"
#include "ring/dir.h"
#include "wire/memory.h"

#define SETTING       "memory"
#define SETTING_BYTES "memory.interval"
#define ENV           "GSPROF_MEMORY"
#define ENV_BYTES     "GSPROF_MEMORY_INTERVAL"

static const char *mode_of(const struct gsp_memory_switch *self)
{
    return gsp_wire_memory_mode_name(self->exact ? GSP_MEMORY_EXACT : GSP_MEMORY_SAMPLED);
}

int gsp_record_memory_switch_check(struct gsp_memory_switch *self, struct gsp_err *err)
{
    int rc = self->bytes ? gsp_parse_size(self->bytes, &self->interval_bytes, err) : GSP_OK;
    if (rc == GSP_OK && self->bytes && self->exact)
        rc = gsp_err_set(err, GSP_E_USAGE, 0, "--bytes and --exact exclude each other");
    if (rc == GSP_OK && self->bytes && self->interval_bytes == 0)
        rc = gsp_err_set(err, GSP_E_USAGE, 0, "--bytes must be greater than zero");
    return rc;
}

int gsp_record_memory_switch_set_env(const struct gsp_memory_switch *self, struct gsp_err *err)
{
    char bytes[32];
    snprintf(bytes, sizeof(bytes), "%" PRIu64, self->interval_bytes);
    if (setenv(ENV, mode_of(self), 1) < 0 ||
        (self->interval_bytes && setenv(ENV_BYTES, bytes, 1) < 0))
        return gsp_err_nomem(err);
    return GSP_OK;
}

bool gsp_record__memory_switch_is_on(pid_t pid)
{
    struct gsp_ring_dir dir;
    struct gsp_memlog_table *table = NULL;
    int new_fd = -1;
    if (gsp_ring_dir_find(pid, &dir, NULL) < 0 || !dir.live ||
        gsp_ring_dir_open(&dir, &new_fd, NULL) < 0)
        return false;
    gsp_auto_fd fd = new_fd;
    bool on = gsp_memlog_table_open(fd, &table, NULL) == GSP_OK &&
              gsp_memlog_table_copy(table, NULL) == GSP_OK && !gsp_memlog_table_facts(table)->ended;
    gsp_memlog_table_close(table);
    return on;
}

static int put_setting(struct gsp_control_change *change, const char *name, const char *value,
                       struct gsp_err *err)
{
    const int id = gsp_wire_setting_row_find(gsp_sv_of(name));
    if (id < 0)
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "this build does not support counting allocations");
    change->id = (enum gsp_setting_id)id;
    return gsp_wire_setting_row_check((size_t)id, gsp_sv_of(value), change->value, err);
}

static int run_in_target(const struct gsp_memory_switch *self, const char *what, const char *mode,
                         struct gsp_err *err)
{
    struct gsp_control_change settings[2];
    struct gsp_python_call script = {.pid = self->pid,
                                     .what = what,
                                     .settings = settings,
                                     .limit_ns = self->limit_ns,
                                     .no_follower = true};
    char bytes[32];
    snprintf(bytes, sizeof(bytes), "%" PRIu64, self->interval_bytes);
    int rc = GSP_OK;
    if (mode && self->interval_bytes)
        rc = put_setting(&settings[script.setting_count++], SETTING_BYTES, bytes, err);
    if (rc == GSP_OK && mode)
        rc = put_setting(&settings[script.setting_count++], SETTING, mode, err);
    if (rc < 0)
        return rc;
    struct gsp_python_call_result result;
    rc = gsp_inject_run_python(&script, &result, err);
    if (rc == GSP_OK && result.raised) {
        const size_t len = result.trace.len < 200 ? result.trace.len : 200;
        rc = gsp_err_set(err, GSP_E_NOTSUP, 0, "%.*s", (int)len,
                         result.trace.p + result.trace.len - len);
    }
    gsp_inject_python_call_result_free(&result);
    return rc;
}

int gsp_record__memory_switch_on(struct gsp_memory_switch *self, struct gsp_err *err)
{
    char version[32];
    gsp_inject_use_runtime_dir_of(self->pid);
    if (gsp_record__memory_switch_is_on(self->pid))
        return GSP_OK;
    self->was_there = gsp_inject_is_injected(self->pid, version);
    int rc = run_in_target(self, "inject", mode_of(self), err);
    if (rc < 0)
        return rc;
    self->is_ours = true;
    if (!gsp_record__memory_switch_is_on(self->pid))
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "process %d cannot count allocations",
                           (int)self->pid);
    return GSP_OK;
}

int gsp_record__memory_switch_off(struct gsp_memory_switch *self, struct gsp_err *err)
{
    struct gsp_procinfo info;
    if (!self->is_ours || gsp_proc_info(self->pid, &info, NULL) < 0 || info.state == 'Z')
        return GSP_OK;
    const char *off = gsp_wire_memory_mode_name(GSP_MEMORY_OFF);
    int rc = run_in_target(self, "inject", off, err);
    if (rc == GSP_OK && !self->was_there)
        rc = run_in_target(self, "eject", NULL, err);
    /* Not a failure if the process has exited in the meantime. */
    return gsp_proc_info(self->pid, &info, NULL) < 0 ? GSP_OK : rc;
}
