/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/script.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/task.h"

#define MINOR_MIN        14U
#define THREADS_MAX      4096U
#define INTERPRETERS_MAX 1024U
/* _PY_EVAL_PLEASE_STOP_BIT of pycore_ceval.h, 3.14 and 3.15 */
#define PLEASE_STOP      (UINT64_C(1) << 5U)

/* The main interpreter has number 0 and is the oldest in the list. */
static int find_main(struct gsp_mem *mem, const struct gsp_py_runtime *runtime, gsp_raddr *out)
{
    const struct gsp_py_layout *layout = &runtime->layout;
    gsp_raddr at;
    int rc = gsp_proc_mem_read_u64(mem, runtime->addr + layout->runtime_interpreters_head, &at);
    for (size_t i = 0; rc == GSP_OK && at && i < INTERPRETERS_MAX; i++) {
        uint64_t id;
        rc = gsp_proc_mem_read_u64(mem, at + layout->interp_id, &id);
        if (rc == GSP_OK && id == 0) {
            *out = at;
            return GSP_OK;
        }
        if (rc == GSP_OK)
            rc = gsp_proc_mem_read_u64(mem, at + layout->interp_next, &at);
    }
    return rc == GSP_OK ? GSP_E_TORN : rc;
}

static bool is_running(pid_t pid, uint64_t ns_tid, const struct gsp_task *tasks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((uint64_t)tasks[i].ns_tid != ns_tid)
            continue;
        struct gsp_taskfd task;
        if (gsp_proc_taskfd_open(&task, pid, tasks[i].tid) != GSP_OK)
            return false;
        bool running = gsp_proc_taskfd_is_running(&task);
        gsp_proc_taskfd_close(&task);
        return running;
    }
    return false;
}

/* Finds a running thread, because a waiting one may never see the request; 0 if there is none. */
static gsp_raddr find_thread(pid_t pid, struct gsp_mem *mem, const struct gsp_py_layout *layout,
                             gsp_raddr interp)
{
    struct gsp_task *tasks;
    size_t count;
    gsp_raddr at;
    gsp_raddr found = 0;
    if (gsp_proc_tasks(pid, &tasks, &count, NULL) != GSP_OK)
        return 0;
    if (gsp_proc_mem_read_u64(mem, interp + layout->interp_tstate_head, &at) != GSP_OK)
        at = 0;
    for (size_t i = 0; at && !found && i < THREADS_MAX; i++) {
        uint64_t tid;
        if (gsp_proc_mem_read_u64(mem, at + layout->tstate_native_thread_id, &tid) != GSP_OK)
            break;
        if (is_running(pid, tid, tasks, count))
            found = at;
        else if (gsp_proc_mem_read_u64(mem, at + layout->tstate_next, &at) != GSP_OK)
            break;
    }
    free(tasks);
    return found;
}

/* Writes the flag last, so that a reader of the flag finds a complete name. */
static int arm_thread(pid_t pid, struct gsp_mem *mem, const struct gsp_py_remote_exec *exec,
                      gsp_raddr thread, const char *path, struct gsp_err *err)
{
    const int32_t one = 1;
    uint64_t breaker;
    int rc = gsp_proc_mem_write_pid(pid, thread + exec->path, path, strlen(path) + 1);
    if (rc == GSP_OK)
        rc = gsp_proc_mem_write_pid(pid, thread + exec->pending, &one, sizeof(one));
    if (rc == GSP_OK)
        rc = gsp_proc_mem_read_u64(mem, thread + exec->eval_breaker, &breaker);
    if (rc == GSP_OK) {
        breaker |= PLEASE_STOP;
        /* Writes one byte at once: the thread and other code set other bits meanwhile. */
        const uint8_t low = (uint8_t)breaker;
        rc = gsp_proc_mem_write_pid(pid, thread + exec->eval_breaker, &low, sizeof(low));
    }
    return rc == GSP_OK ? GSP_OK : gsp_err_set(err, rc, 0, "the thread state cannot be written");
}

int gsp_inject__script_arm(const struct gsp_py_locate_input *input,
                           const struct gsp_py_runtime *runtime, const char *path,
                           struct gsp_inject_script *out, struct gsp_err *err)
{
    unsigned char bytes[GSP_PY_DEBUG_OFFSETS_MAX];
    struct gsp_mem *mem = input->mem;
    struct gsp_py_remote_exec exec;
    gsp_raddr interp;
    int32_t enabled;
    *out = (struct gsp_inject_script){0};
    if (GSP_PY_MINOR(runtime->layout.version) < MINOR_MIN)
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "Python %s does not support remote execution (PEP 768, 3.14+)",
                           runtime->version);
    if (gsp_proc_mem_read(mem, runtime->addr, bytes, sizeof(bytes)) != GSP_OK)
        return gsp_err_set(err, GSP_E_FAULT, 0, "the runtime cannot be read");
    int rc = gsp_py_remote_exec_read(bytes, sizeof(bytes), &exec, err);
    if (rc != GSP_OK)
        return rc;
    if (strlen(path) + 1 > exec.path_size)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the file name is too long: %.200s", path);
    if (find_main(mem, runtime, &interp) != GSP_OK ||
        gsp_proc_mem_read(mem, interp + exec.enabled, &enabled, sizeof(enabled)) != GSP_OK)
        return gsp_err_set(err, GSP_E_FAULT, 0, "the main interpreter cannot be read");
    if (enabled != 1)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "remote execution is disabled in the process");
    gsp_raddr thread = find_thread(input->pid, mem, &runtime->layout, interp);
    if (!thread)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "no Python thread is running");
    rc = arm_thread(input->pid, mem, &exec, thread, path, err);
    if (rc == GSP_OK)
        *out = (struct gsp_inject_script){input->pid, thread + exec.pending};
    return rc;
}

void gsp_inject__script_disarm(struct gsp_inject_script *armed)
{
    const int32_t none = 0;
    if (armed->pending)
        gsp_ignore(gsp_proc_mem_write_pid(armed->pid, armed->pending, &none, sizeof(none)));
    armed->pending = 0;
}
