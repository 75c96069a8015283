/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/registers.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/file.h"

#ifndef NT_ARM_SYSTEM_CALL
#define NT_ARM_SYSTEM_CALL 0x404
#endif
#ifndef NT_ARM_SVE
#define NT_ARM_SVE 0x405
#endif
#ifndef NT_ARM_GCS
#define NT_ARM_GCS 0x410
#endif
#ifndef NT_X86_SHSTK
#define NT_X86_SHSTK 0x204
#endif
#ifndef NT_ARM_TLS
#define NT_ARM_TLS 0x401
#endif

/* From Linux 5.13 on: where a thread has its struct rseq, and its members. */
#define RSEQ_CONFIGURATION 0x420f
#define RSEQ_SEQUENCE_AT   8U

#define STATUS_MAX         16384U
#define ALIGN_BYTES        16U
#define RED_ZONE           128U
#define DIRECTION          0x400U /* x86-64 flags that functions expect to be clear */
#define SINGLE_STEP        0x100U
#define PSTATE_BTYPE       (3UL << 10U) /* aarch64: the kind of the current branch */
#define SYSCALL_BYTES      2U
#define SVC_BYTES          4U
#define SVC                0xd4000001U

static bool get_set(pid_t tid, int kind, void *to, size_t *len)
{
    struct iovec iov = {to, *len};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)(intptr_t)kind, &iov) != 0)
        return false;
    *len = iov.iov_len;
    return true;
}

static bool put_set(pid_t tid, int kind, const void *from, size_t len)
{
    union {
        const void *from;
        void *to;
    } bytes = {from}; /* the kernel only reads it */
    struct iovec iov = {bytes.to, len};
    return ptrace(PTRACE_SETREGSET, tid, (void *)(intptr_t)kind, &iov) == 0;
}

static bool save_wide(pid_t tid, struct gsp_inject__registers *out)
{
#if defined(__x86_64__)
    static const int kinds[] = {NT_X86_XSTATE, NT_PRFPREG};
#else
    static const int kinds[] = {NT_ARM_SVE, NT_PRFPREG};
#endif
    for (size_t i = 0; i < GSP_COUNT(kinds); i++) {
        out->wide_len = sizeof(out->wide);
        if (get_set(tid, kinds[i], out->wide, &out->wide_len) && out->wide_len > 0) {
            out->wide_kind = kinds[i];
            /* A full buffer may be truncated, and cannot be restored safely. */
            return out->wide_len < sizeof(out->wide);
        }
    }
    return false;
}

bool gsp_inject__registers_save(pid_t tid, struct gsp_inject__registers *out)
{
    size_t len = sizeof(out->regs);
    out->call_number = -1;
    if (!get_set(tid, NT_PRSTATUS, &out->regs, &len) || len != sizeof(out->regs) ||
        !save_wide(tid, out))
        return false;
#if defined(__aarch64__)
    len = sizeof(out->call_number);
    if (!get_set(tid, NT_ARM_SYSTEM_CALL, &out->call_number, &len))
        return false;
#endif
    return ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(out->mask), &out->mask) == 0;
}

static bool put_call_number(pid_t tid, int number)
{
#if defined(__aarch64__)
    return put_set(tid, NT_ARM_SYSTEM_CALL, &number, sizeof(number));
#else
    (void)tid;
    (void)number;
    return true; /* it is one of the general registers */
#endif
}

bool gsp_inject__registers_restore(pid_t tid, const struct gsp_inject__registers *kept)
{
    uint64_t mask = kept->mask;
    bool wide = put_set(tid, kept->wide_kind, kept->wide, kept->wide_len);
    bool blocked = ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(mask), &mask) == 0;
    bool call = put_call_number(tid, kept->call_number);
    /* Restores everything, even after a failure. */
    return put_set(tid, NT_PRSTATUS, &kept->regs, sizeof(kept->regs)) && wide && blocked && call;
}

bool gsp_inject__registers_put(pid_t tid, const struct gsp_inject__registers *kept)
{
    return put_set(tid, NT_PRSTATUS, &kept->regs, sizeof(kept->regs));
}

bool gsp_inject__registers_in_sequence(pid_t tid, const struct gsp_inject__registers *kept,
                                       struct gsp_mem *mem)
{
    struct {
        uint64_t address;
        uint32_t size;
        uint32_t signature;
        uint32_t flags;
        uint32_t padding;
    } where = {0};
    struct {
        uint32_t version;
        uint32_t flags;
        uint64_t start;
        uint64_t len;
        uint64_t abort;
    } sequence;
    uint64_t at = 0;
    if (ptrace(RSEQ_CONFIGURATION, tid, (void *)sizeof(where), &where) <= 0 || !where.address ||
        gsp_proc_mem_read_u64(mem, where.address + RSEQ_SEQUENCE_AT, &at) != GSP_OK || !at)
        return false;
    return gsp_proc_mem_read(mem, at, &sequence, sizeof(sequence)) != GSP_OK ||
           gsp_inject__registers_pc(kept) - sequence.start < sequence.len;
}

bool gsp_inject__signals_block(pid_t tid)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    uint64_t mask = UINT64_MAX;
    for (size_t i = 0; i < GSP_COUNT(faults); i++)
        mask &= ~(UINT64_C(1) << (unsigned)(faults[i] - 1));
    return ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(mask), &mask) == 0;
}

bool gsp_inject__signals_block_one(pid_t tid, int signal)
{
    uint64_t mask = 0;
    if (ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(mask), &mask) != 0)
        return false;
    mask |= UINT64_C(1) << (unsigned)(signal - 1);
    return ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(mask), &mask) == 0;
}

/* A set of signals in /proc/<pid>/task/<tid>/status; empty if it is not there. */
static uint64_t signal_set(const char *status, const char *key)
{
    const char *at = strstr(status, key);
    return at ? strtoull(at + strlen(key), NULL, 16) : 0;
}

bool gsp_inject__signals_wait(pid_t pid, pid_t tid, uint64_t mask)
{
    gsp_auto_buf text = {0};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
    if (gsp_file_read(path, STATUS_MAX, &text, NULL) != GSP_OK)
        return false;
    const char *status = gsp_buf_cstr(&text);
    const uint64_t pending = signal_set(status, "\nSigPnd:\t") | signal_set(status, "\nShdPnd:\t");
    return (pending & ~mask & signal_set(status, "\nSigCgt:\t")) != 0;
}

bool gsp_inject__registers_has_shadow_stack(pid_t tid)
{
    /* x86-64: the stack pointer, only if it is in use. aarch64: the enabled features first. */
    uint64_t words[3] = {0};
    size_t len = sizeof(words);
#if defined(__x86_64__)
    return get_set(tid, NT_X86_SHSTK, words, &len);
#else
    return get_set(tid, NT_ARM_GCS, words, &len) && (words[0] & 1U);
#endif
}

uint64_t gsp_inject__registers_below(const struct gsp_inject__registers *kept, size_t bytes)
{
    return (gsp_inject__registers_sp(kept) - RED_ZONE - bytes) & ~(uint64_t)(ALIGN_BYTES - 1);
}

#if defined(__x86_64__)

uint64_t gsp_inject__registers_sp(const struct gsp_inject__registers *kept)
{
    return kept->regs.rsp;
}

uint64_t gsp_inject__registers_pc(const struct gsp_inject__registers *kept)
{
    return kept->regs.rip;
}

bool gsp_inject__registers_is_in_call(const struct gsp_inject__registers *kept, uint64_t pc,
                                      uint64_t sp)
{
    return kept->regs.rip == pc && kept->regs.rsp == sp && (int64_t)kept->regs.orig_rax >= 0;
}

void gsp_inject__registers_get_call(const struct gsp_inject__registers *kept,
                                    struct gsp_inject_call_at *out)
{
    const struct user_regs_struct *regs = &kept->regs;
    *out = (struct gsp_inject_call_at){
        .number = (int64_t)regs->orig_rax < 0 ? -1 : (long)regs->orig_rax,
        .args = {regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9},
        .sp = regs->rsp,
        .pc = regs->rip};
}

bool gsp_inject__registers_restart_call(struct gsp_inject__registers *kept,
                                        const struct gsp_inject_call_at *at)
{
    (void)at; /* the registers have it */
    if (kept->regs.rax != (unsigned long long)-EINTR || (int64_t)kept->regs.orig_rax < 0)
        return false;
    kept->regs.rax = kept->regs.orig_rax;
    kept->regs.rip -= SYSCALL_BYTES;
    kept->regs.orig_rax = (unsigned long long)-1;
    return true;
}

uint64_t gsp_inject__registers_thread_pointer(pid_t tid, const struct gsp_inject__registers *kept)
{
    (void)tid; /* the registers have it */
    return kept->regs.fs_base;
}

bool gsp_inject__registers_waits_in(const struct gsp_inject__registers *kept, struct gsp_mem *mem,
                                    long number)
{
    (void)mem;
    return (int64_t)kept->regs.orig_rax == number;
}

void gsp_inject__registers_resume_sleep(struct gsp_inject__registers *kept)
{
    (void)kept;
}

bool gsp_inject__registers_prepare(pid_t tid, const struct gsp_inject__registers *kept,
                                   const struct gsp_inject__register_call *call)
{
    struct user_regs_struct regs = kept->regs;
    regs.rip = call->function;
    regs.rsp = call->sp;
    regs.rdi = call->args[0];
    regs.rsi = call->args[1];
    regs.rdx = call->args[2];
    regs.rcx = call->args[3];
    regs.rax = 0; /* no vector registers among variable arguments */
    regs.rbp = 0; /* the outermost frame */
    regs.rbx = call->value;
    regs.eflags &= ~(unsigned long long)(DIRECTION | SINGLE_STEP);
    /* Otherwise the kernel treats the stop as one in a system call and moves the thread back to
     * it. */
    regs.orig_rax = (unsigned long long)-1;
    return put_set(tid, NT_PRSTATUS, &regs, sizeof(regs));
}

bool gsp_inject__registers_returned(pid_t tid, const struct gsp_inject__register_call *call,
                                    uint64_t *value)
{
    struct user_regs_struct regs;
    size_t len = sizeof(regs);
    if (!get_set(tid, NT_PRSTATUS, &regs, &len))
        return false;
    if (regs.orig_rax == SYS_rt_sigreturn && regs.rsp == call->end)
        return true;
    *value = regs.rax;
    return false;
}

bool gsp_inject__registers_postpone_return(pid_t tid, const struct gsp_inject__register_call *call)
{
    struct user_regs_struct regs;
    size_t len = sizeof(regs);
    if (!get_set(tid, NT_PRSTATUS, &regs, &len))
        return false;
    regs.orig_rax = SYS_getpid;
    regs.rip = call->sigreturn;
    return put_set(tid, NT_PRSTATUS, &regs, sizeof(regs));
}

#elif defined(__aarch64__)

uint64_t gsp_inject__registers_sp(const struct gsp_inject__registers *kept)
{
    return kept->regs.sp;
}

uint64_t gsp_inject__registers_pc(const struct gsp_inject__registers *kept)
{
    return kept->regs.pc;
}

/* A thread stopped in a system call has already been moved back to the call by the kernel. */
bool gsp_inject__registers_is_in_call(const struct gsp_inject__registers *kept, uint64_t pc,
                                      uint64_t sp)
{
    return (kept->regs.pc == pc || kept->regs.pc == pc - SVC_BYTES) && kept->regs.sp == sp;
}

/* The kernel has discarded the number of the call when the thread stops. */
void gsp_inject__registers_get_call(const struct gsp_inject__registers *kept,
                                    struct gsp_inject_call_at *out)
{
    (void)kept;
    *out = (struct gsp_inject_call_at){.number = -1};
}

bool gsp_inject__registers_restart_call(struct gsp_inject__registers *kept,
                                        const struct gsp_inject_call_at *at)
{
    struct user_regs_struct *regs = &kept->regs;
    if (regs->regs[0] != (unsigned long long)-EINTR || regs->pc != at->pc ||
        regs->regs[8] != (unsigned long long)at->number)
        return false;
    regs->regs[0] = at->args[0]; /* the result has overwritten it */
    regs->pc -= SVC_BYTES;
    return true;
}

uint64_t gsp_inject__registers_thread_pointer(pid_t tid, const struct gsp_inject__registers *kept)
{
    uint64_t pointer = 0;
    size_t len = sizeof(pointer);
    (void)kept;
    return get_set(tid, NT_ARM_TLS, &pointer, &len) ? pointer : 0;
}

bool gsp_inject__registers_waits_in(const struct gsp_inject__registers *kept, struct gsp_mem *mem,
                                    long number)
{
    uint32_t code;
    return kept->regs.regs[8] == (unsigned long long)number &&
           gsp_proc_mem_read(mem, kept->regs.pc, &code, sizeof(code)) == GSP_OK && code == SVC;
}

void gsp_inject__registers_resume_sleep(struct gsp_inject__registers *kept)
{
    if (kept->regs.regs[8] == SYS_nanosleep || kept->regs.regs[8] == SYS_clock_nanosleep)
        kept->regs.regs[8] = SYS_restart_syscall;
}

bool gsp_inject__registers_prepare(pid_t tid, const struct gsp_inject__registers *kept,
                                   const struct gsp_inject__register_call *call)
{
    struct user_regs_struct regs = kept->regs;
    regs.pc = call->function;
    regs.sp = call->sp;
    for (size_t i = 0; i < GSP_INJECT_CALL_ARGS; i++)
        regs.regs[i] = call->args[i];
    regs.regs[29] = 0;
    regs.regs[30] = call->sigreturn;
    regs.pstate &= ~PSTATE_BTYPE;
    return put_call_number(tid, -1) && put_set(tid, NT_PRSTATUS, &regs, sizeof(regs));
}

bool gsp_inject__registers_returned(pid_t tid, const struct gsp_inject__register_call *call,
                                    uint64_t *value)
{
    struct user_regs_struct regs;
    size_t len = sizeof(regs);
    if (!get_set(tid, NT_PRSTATUS, &regs, &len))
        return false;
    *value = regs.regs[0];
    return regs.regs[8] == SYS_rt_sigreturn && regs.sp == call->end;
}

bool gsp_inject__registers_postpone_return(pid_t tid, const struct gsp_inject__register_call *call)
{
    struct user_regs_struct regs;
    size_t len = sizeof(regs);
    if (!get_set(tid, NT_PRSTATUS, &regs, &len))
        return false;
    regs.pc = call->sigreturn;
    return put_set(tid, NT_PRSTATUS, &regs, sizeof(regs)) && put_call_number(tid, SYS_getpid);
}

#else
#error "unsupported processor architecture"
#endif
