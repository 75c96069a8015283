/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/remote.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/time.h"

#define WORD 8U

static int write_to(const struct gsp_inject__remote *remote, gsp_raddr addr, const void *from,
                    size_t len, struct gsp_err *err)
{
    int rc = gsp_proc_mem_write_pid(remote->pid, addr, from, len);
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "the stack of thread %d cannot be written",
                           (int)remote->tid);
    return GSP_OK;
}

int gsp_inject__remote_open(struct gsp_inject__remote *remote, const struct gsp_inject_call_at *at,
                            struct gsp_err *err)
{
    remote->used = 0;
    remote->pending_signal = 0;
    remote->failed = false;
    if (!gsp_inject__registers_save(remote->tid, &remote->kept))
        return gsp_err_set(err, GSP_E_NOPROC, errno, "the registers of thread %d cannot be read",
                           (int)remote->tid);
    const bool is_there =
        at->number < 0 || gsp_inject__registers_is_in_call(&remote->kept, at->pc, at->sp);
    if (is_there && gsp_inject__call_is_relative_sleep(at))
        gsp_inject__registers_resume_sleep(&remote->kept);
    /* The stop may have interrupted another call than the one in /proc. */
    struct gsp_inject_call_at found;
    gsp_inject__registers_get_call(&remote->kept, &found);
    if (gsp_inject__call_is_endless(&found))
        gsp_inject__registers_restart_call(&remote->kept);
    remote->scratch = gsp_inject__registers_below(&remote->kept, GSP_REMOTE_SCRATCH);
    if (!gsp_inject__signals_block(remote->tid))
        return gsp_err_set(err, GSP_E_NOPROC, errno, "the signals of thread %d cannot be blocked",
                           (int)remote->tid);
    remote->is_open = true;
    if (!is_there)
        return gsp_err_set(err, GSP_E_TORN, 0, "thread %d has continued", (int)remote->tid);
    return GSP_OK;
}

int gsp_inject__remote_close(struct gsp_inject__remote *remote, struct gsp_err *err)
{
    if (!remote->is_open)
        return GSP_OK;
    remote->is_open = false;
    if (!gsp_inject__registers_restore(remote->tid, &remote->kept))
        return gsp_err_set(err, GSP_E_NOPROC, errno, "the registers of thread %d cannot be set",
                           (int)remote->tid);
    gsp_proc_stop_set_signal(remote->stop, remote->pending_signal);
    return GSP_OK;
}

int gsp_inject__remote_string(struct gsp_inject__remote *remote, const char *text, gsp_raddr *out,
                              struct gsp_err *err)
{
    *out = 0;
    if (!text)
        return GSP_OK;
    size_t len = strlen(text) + 1;
    if (len > GSP_REMOTE_SCRATCH - remote->used)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the arguments of the call are too long");
    gsp_raddr addr = remote->scratch + remote->used;
    int rc = write_to(remote, addr, text, len, err);
    if (rc != GSP_OK)
        return rc;
    remote->used += len;
    *out = addr;
    return GSP_OK;
}

/* Returns whether the signal is a fault of the thread itself, and was not sent by a process. */
static bool is_fault(pid_t tid)
{
    siginfo_t info = {0};
    return ptrace(PTRACE_GETSIGINFO, tid, 0, &info) == 0 && info.si_code > 0;
}

int gsp_inject__remote_call(struct gsp_inject__remote *remote, gsp_raddr function,
                            const uint64_t args[GSP_INJECT_CALL_ARGS], int64_t limit_ns,
                            uint64_t *value, struct gsp_err *err)
{
    /* At function entry the stack is one word off its alignment. */
    struct gsp_inject__register_call call = {.function = function, .sp = remote->scratch - WORD};
    const uint64_t trap = GSP_INJECT_TRAP_ADDRESS;
    *value = 0;
#if defined(__x86_64__)
    int rc = write_to(remote, call.sp, &trap, sizeof(trap), err);
#else
    (void)trap;
    call.sp = remote->scratch;
    int rc = GSP_OK;
#endif
    if (rc != GSP_OK)
        return rc;
    memcpy(call.args, args, sizeof(call.args));
    if (!gsp_inject__registers_prepare(remote->tid, &remote->kept, &call))
        return gsp_err_set(err, GSP_E_NOPROC, errno, "thread %d cannot be set up",
                           (int)remote->tid);
    int64_t deadline_ns = gsp_now_ns() + limit_ns;
    for (;;) {
        int signal = 0;
        rc = gsp_proc_stop_run(remote->stop, deadline_ns - gsp_now_ns(), &signal, err);
        if (rc != GSP_OK)
            break;
        if (gsp_inject__registers_returned(remote->tid, value))
            return GSP_OK;
        if (is_fault(remote->tid)) {
            rc = gsp_err_set(err, GSP_E_FAULT, 0, "the call ended with signal %d (%s)", signal,
                             strsignal(signal));
            break;
        }
        remote->pending_signal = signal;
    }
    remote->failed = true;
    return rc;
}
