/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/remote.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/time.h"

#define FINISH_NS GSP_NS_PER_S

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
    remote->failed = false;
    remote->is_borrowed = false;
    remote->is_left = false;
    if (gsp_inject__registers_has_shadow_stack(remote->tid))
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "the process has a shadow stack, which prevents calls from outside");
    if (!gsp_inject__registers_save(remote->tid, &remote->kept))
        return gsp_err_set(err, GSP_E_NOPROC, errno, "the registers of thread %d cannot be read",
                           (int)remote->tid);
    if (gsp_inject__registers_in_sequence(remote->tid, &remote->kept, remote->mem))
        return gsp_err_set(err, GSP_E_TORN, 0, "thread %d is in a restartable sequence",
                           (int)remote->tid);
    const bool is_there =
        at->number < 0 || gsp_inject__registers_is_in_call(&remote->kept, at->pc, at->sp);
    if (is_there && gsp_inject__call_is_relative_sleep(at))
        gsp_inject__registers_resume_sleep(&remote->kept);
    /* The stop may have interrupted another call than the one in /proc. */
    struct gsp_inject_call_at found;
    gsp_inject__registers_get_call(&remote->kept, &found);
    const struct gsp_inject_call_at *call = found.number < 0 && is_there ? at : &found;
    remote->ended = remote->kept.regs;
    /* At once, so that the call is also repeated if gsprof is killed before the thread is borrowed.
     */
    remote->is_repeated = gsp_inject__call_can_repeat(call) &&
                          gsp_inject__registers_restart_call(&remote->kept, call) &&
                          gsp_inject__registers_put(remote->tid, &remote->kept);
    remote->scratch = gsp_inject__registers_below(&remote->kept, GSP_REMOTE_SCRATCH);
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
    if (remote->is_left)
        return GSP_OK;
    /* A signal that the program handles ends the call by itself. */
    if (remote->is_repeated &&
        gsp_inject__signals_wait(remote->pid, remote->tid, remote->kept.mask))
        remote->kept.regs = remote->ended;
    if (!gsp_inject__registers_restore(remote->tid, &remote->kept))
        return gsp_err_set(err, GSP_E_NOPROC, errno, "the registers of thread %d cannot be set",
                           (int)remote->tid);
    return GSP_OK;
}

/* Copies bytes to the unused part of the stack. */
static int put_bytes(struct gsp_inject__remote *remote, const void *from, size_t len,
                     gsp_raddr *out, struct gsp_err *err)
{
    const size_t rounded = (len + sizeof(uint64_t) - 1) & ~(sizeof(uint64_t) - 1);
    *out = 0;
    if (rounded > GSP_REMOTE_SCRATCH - remote->used)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the arguments of the call are too long");
    gsp_raddr addr = remote->scratch + remote->used;
    int rc = write_to(remote, addr, from, len, err);
    if (rc != GSP_OK)
        return rc;
    remote->used += rounded;
    *out = addr;
    return GSP_OK;
}

int gsp_inject__remote_string(struct gsp_inject__remote *remote, const char *text, gsp_raddr *out,
                              struct gsp_err *err)
{
    *out = 0;
    return text ? put_bytes(remote, text, strlen(text) + 1, out, err) : GSP_OK;
}

int gsp_inject__remote_word(struct gsp_inject__remote *remote, gsp_raddr *out, struct gsp_err *err)
{
    const uint64_t zero = 0;
    return put_bytes(remote, &zero, sizeof(zero), out, err);
}

/* Returns whether the signal is a fault of the thread itself, and was not sent by a process. */
static bool is_fault(pid_t tid)
{
    siginfo_t info = {0};
    return ptrace(PTRACE_GETSIGINFO, tid, 0, &info) == 0 && info.si_code > 0;
}

/* Writes the frame to the unused part of the stack. Nothing of the thread changes. */
static int put_frame(struct gsp_inject__remote *remote, struct gsp_err *err)
{
    struct gsp_inject__sigframe *frame = &remote->frame;
    if (!gsp_inject__sigframe_make(&remote->kept, &remote->landing, remote->scratch, frame))
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the registers of thread %d cannot be saved",
                           (int)remote->tid);
    return write_to(remote, frame->base, frame->bytes, frame->len, err);
}

/* Sets up the call. From the first one on, the thread returns by itself, whatever happens to
 * gsprof; so signals are blocked only afterwards. */
static int set_up(struct gsp_inject__remote *remote, const struct gsp_inject__register_call *call,
                  struct gsp_err *err)
{
    if (!gsp_inject__registers_prepare(remote->tid, &remote->kept, call))
        return gsp_err_set(err, GSP_E_NOPROC, errno, "thread %d cannot be set up",
                           (int)remote->tid);
    if (remote->is_borrowed)
        return GSP_OK;
    remote->is_borrowed = true;
    if (!gsp_inject__signals_block(remote->tid))
        return gsp_err_set(err, GSP_E_NOPROC, errno, "the signals of thread %d cannot be blocked",
                           (int)remote->tid);
    return GSP_OK;
}

/* Runs the thread until it returns from the call. */
static int run_call(struct gsp_inject__remote *remote, const struct gsp_inject__register_call *call,
                    int64_t limit_ns, struct gsp_inject__value *out, struct gsp_err *err)
{
    int64_t deadline_ns = gsp_now_ns() + limit_ns;
    for (;;) {
        int rc = gsp_proc_stop_run(remote->stop, deadline_ns - gsp_now_ns(), err);
        if (rc != GSP_OK)
            return rc;
        const int signal = gsp_proc_stop_signal(remote->stop);
        if (signal == 0 && gsp_inject__registers_returned(remote->tid, call, &out->value))
            return GSP_OK;
        out->result = out->value;
        if (signal != 0 && is_fault(remote->tid)) {
            gsp_proc_stop_clear_signal(remote->stop);
            return gsp_err_set(err, GSP_E_FAULT, 0, "the call ended with signal %d (%s)", signal,
                               strsignal(signal));
        }
        /* A signal that a process has sent stays pending until the thread is restored. */
        if (signal != 0 && !gsp_inject__signals_block_one(remote->tid, signal))
            return gsp_err_set(err, GSP_E_NOPROC, errno, "thread %d has exited", (int)remote->tid);
    }
}

/* Returns whether the thread waits for a lock in the call. Its own program may hold the lock. */
static bool waits_for_lock(const struct gsp_inject__remote *remote)
{
    static struct gsp_inject__registers now; /* large; the injector has one thread */
    return gsp_inject__registers_save(remote->tid, &now) &&
           gsp_inject__registers_waits_in(&now, remote->mem, SYS_futex);
}

/* Reads the value of the call and stops the thread right before rt_sigreturn. */
static int end_call(struct gsp_inject__remote *remote, const struct gsp_inject__register_call *call,
                    struct gsp_inject__value *out, struct gsp_err *err)
{
#if defined(__x86_64__)
    out->is_known =
        call->value && gsp_proc_mem_read_u64(remote->mem, call->value, &out->value) == GSP_OK;
#else
    out->is_known = true;
#endif
    if (!gsp_inject__registers_postpone_return(remote->tid, call))
        return gsp_err_set(err, GSP_E_NOPROC, errno, "thread %d has exited", (int)remote->tid);
    return gsp_proc_stop_finish_call(remote->stop, FINISH_NS, err);
}

static int start_call(struct gsp_inject__remote *remote, struct gsp_inject__register_call *call,
                      struct gsp_err *err)
{
    int rc = put_frame(remote, err);
    if (rc != GSP_OK)
        return rc;
    call->sp = remote->frame.sp;
    call->end = remote->frame.end;
    call->value = remote->frame.value;
    call->sigreturn = remote->landing.sigreturn;
    return set_up(remote, call, err);
}

int gsp_inject__remote_call(struct gsp_inject__remote *remote, gsp_raddr function,
                            const uint64_t args[GSP_INJECT_CALL_ARGS], int64_t limit_ns,
                            struct gsp_inject__value *out, struct gsp_err *err)
{
    struct gsp_inject__register_call call = {.function = function};
    *out = (struct gsp_inject__value){0};
    memcpy(call.args, args, sizeof(call.args));
    int rc = start_call(remote, &call, err);
    if (rc != GSP_OK)
        return rc;
    rc = run_call(remote, &call, limit_ns, out, err);
    if (rc == GSP_OK) {
        rc = end_call(remote, &call, out, err);
        remote->is_left = rc != GSP_OK;
    } else if (rc == GSP_E_TIMEOUT) {
        /* A call that is only slow must end: it may hold locks. */
        remote->is_left = !waits_for_lock(remote);
    }
    remote->failed = rc != GSP_OK;
    return rc;
}
