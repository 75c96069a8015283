/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/script.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "proc/stop.h"
#include "proc/task.h"

#define MINOR_MIN        14U
#define THREADS_MAX      4096U
#define STOP_LIMIT_NS    (20 * GSP_NS_PER_MS)
#define INTERPRETERS_MAX 1024U
/* _PY_EVAL_PLEASE_STOP_BIT of pycore_ceval.h, 3.14 and 3.15 */
#define PLEASE_STOP      (UINT64_C(1) << 5U)

/* A running thread of the interpreter. */
struct thread {
    pid_t pid;
    pid_t tid;
    gsp_raddr state;
};

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

/* Returns the thread if it is running; otherwise 0. */
static pid_t running_tid(pid_t pid, uint64_t ns_tid, const struct gsp_task *tasks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((uint64_t)tasks[i].ns_tid != ns_tid)
            continue;
        struct gsp_taskfd task;
        if (gsp_proc_taskfd_open(&task, pid, tasks[i].tid) != GSP_OK)
            return 0;
        bool running = gsp_proc_taskfd_is_running(&task);
        gsp_proc_taskfd_close(&task);
        return running ? tasks[i].tid : 0;
    }
    return 0;
}

/* Finds a running thread, because a waiting one may never see the request. */
static bool find_thread(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr interp,
                        struct thread *thread)
{
    struct gsp_task *tasks;
    size_t count;
    gsp_raddr at;
    if (gsp_proc_tasks(thread->pid, &tasks, &count, NULL) != GSP_OK)
        return false;
    if (gsp_proc_mem_read_u64(mem, interp + layout->interp_tstate_head, &at) != GSP_OK)
        at = 0;
    for (size_t i = 0; at && i < THREADS_MAX; i++) {
        uint64_t tid;
        if (gsp_proc_mem_read_u64(mem, at + layout->tstate_native_thread_id, &tid) != GSP_OK)
            break;
        thread->state = at;
        thread->tid = running_tid(thread->pid, tid, tasks, count);
        if (thread->tid || gsp_proc_mem_read_u64(mem, at + layout->tstate_next, &at) != GSP_OK)
            break;
    }
    free(tasks);
    return thread->tid != 0;
}

/* Sets the flag while the thread is stopped, because it sets other bits of the same word. Another
 * thread may set one too; between our read and our write are some microseconds, and no atomic
 * operation reaches the memory of another process. */
static int set_flag(const struct thread *thread, struct gsp_mem *mem, gsp_raddr breaker,
                    struct gsp_err *err)
{
    struct gsp_stop *stop;
    struct gsp_stop_regs regs;
    uint64_t bits;
    int rc = gsp_proc_stop_new(thread->pid, &stop, err);
    if (rc == GSP_OK)
        rc = gsp_proc_stop_hold_task(stop, thread->tid, STOP_LIMIT_NS, &regs, err);
    if (rc == GSP_OK)
        rc = gsp_proc_mem_read_u64(mem, breaker, &bits);
    if (rc == GSP_OK) {
        /* One byte: all flags are in it. */
        const uint8_t low = (uint8_t)(bits | PLEASE_STOP);
        rc = gsp_proc_mem_write_pid(thread->pid, breaker, &low, sizeof(low));
    }
    gsp_proc_stop_free(stop);
    return rc;
}

/* Writes the flag last, so that a reader of the flag finds a complete name. */
static int arm_thread(const struct thread *thread, struct gsp_mem *mem,
                      const struct gsp_py_remote_exec *exec, const char *path, struct gsp_err *err)
{
    const int32_t one = 1;
    int rc =
        gsp_proc_mem_write_pid(thread->pid, thread->state + exec->path, path, strlen(path) + 1);
    if (rc == GSP_OK)
        rc = gsp_proc_mem_write_pid(thread->pid, thread->state + exec->pending, &one, sizeof(one));
    if (rc == GSP_OK)
        rc = set_flag(thread, mem, thread->state + exec->eval_breaker, err);
    if (rc != GSP_OK)
        gsp_inject__script_disarm(
            &(struct gsp_inject_script){thread->pid, thread->state + exec->pending});
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
    struct thread thread = {.pid = input->pid};
    if (!find_thread(mem, &runtime->layout, interp, &thread))
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "no Python thread is running");
    rc = arm_thread(&thread, mem, &exec, path, err);
    if (rc == GSP_OK)
        *out = (struct gsp_inject_script){input->pid, thread.state + exec.pending};
    return rc;
}

void gsp_inject__script_disarm(struct gsp_inject_script *armed)
{
    const int32_t none = 0;
    if (armed->pending)
        gsp_ignore(gsp_proc_mem_write_pid(armed->pid, armed->pending, &none, sizeof(none)));
    armed->pending = 0;
}
